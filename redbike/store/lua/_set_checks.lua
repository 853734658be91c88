-- Whether a job is set at all, and whether it stays where it is.
-- keys   statuses, timeline, retry_states, skipped, wakeup, pauses, following, followers, _backfill

local function has_schedule(job, old)
  local head, tail = unpack(job.span or {})
  if not head or not old then return old == job.schedule end
  return #old > head + tail and old:sub(1, head) == job.schedule:sub(1, head)
    and (tail == 0 or old:sub(-tail) == job.schedule:sub(-tail))
    and not old:sub(1, #old - tail):find('\n')  -- a rule, or dates
end

-- Whether it follows these jobs already, and only their order is another one.
local function has_links(job, old, text)
  local parents, found = job.follows and job.follows.parents, object_of(text)
  local is_like = parents and old and #old == #job.schedule and job.mode ~= 'keep_schedule'
  if not is_like or type(found.parents) ~= 'table' or found.when ~= job.follows.when then
    return false
  end
  local missing = {}
  for _, parent in ipairs(parents) do missing[parent] = true end
  for _, parent in ipairs(found.parents) do missing[parent] = nil end
  return #parents == #found.parents and next(missing) == nil
end

-- Whether a job that has this schedule already stays as it is: in its place, or at rest.
local function is_kept(job, waits)
  local keeps_place = job.mode == 'keep' or job.mode == 'keep_place'
  local has_place = keeps_place
    and (waits or call('ZSCORE', timeline, job.id) or job.pause and job.pause.due ~= '-')
  if has_place then return true end
  local keeps_rest = job.mode == 'keep' or job.mode == 'keep_rest'
  local event = keeps_rest and not waits and event_of(call('HGET', statuses, job.id))
  return event == DIE or event == STP and not job.due
end

-- Returns why it is left as it is, and what; nil if it is not.
local function refusal(job, run, home, own, before, same)
  if job.found and not before then return 'missing', '' end
  if job.found and before ~= job.found then return 'schedule', before end
  local is_other = (own or '') ~= (job.known or '') and (own or false) ~= job.options
  if is_other then return 'options', own or '' end
  if home and home ~= queue[job.queue].name then return 'queue', home end
  -- With another spread it goes on from the anchor that it has.
  local has_new_anchor = same and job.new_jitter and job.span and before ~= job.schedule
  if has_new_anchor and is_kept(job, run or home) then return 'schedule', before end
  local cycle = job.follows and find_cycle(job.id, job.follows)
  if cycle then return 'cycle', cycle end
  local is_timed = job.due and job.due ~= 'now' and not job.once
  if given.from_now and is_timed and job.due <= now then return 'due', '' end
end
