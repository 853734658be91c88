#!lua flags=allow-oom
-- dispatch: timeline → queue, for a batch of jobs that are due; a job in flight is not enqueued
--           twice, and one without a queue stays on the timeline, to be tried again.
-- keys   timeline, queued, running, retry_states, skipped, queue_limits, options, _write
-- given  jobs; dues: the instant of each on the timeline, which is its due time unless an
--        occurrence is tried again; homes: the queue of each, '' for none; queues; settings, which
--        options override, where they are not the defaults: grace: seconds after which an
--        occurrence is late, expires: seconds in which it must begin, overlap: 'queue', if one that
--        is due during a run is owed; late_too: whether all are moved even if they are late
-- returns {'ok', how many moved, job, its instant, …}: these jobs are late or have expired, and
--         stay where they are, to be skipped. Jobs that are not due any more are ignored, so a
--         repetition moves nothing
local PAUSE = 2  -- seconds until a job whose queue could not be told is tried again
local NO_RETRY = retry_state_of()
-- Mostly no job is in flight, and nothing is paused.
local special = call('EXISTS', queue_limits, retry_states, options) > 0
local jobs, gone, moved, late = given.jobs, {}, 0, {}
local plain = not (given.settings or special)
local limiter = special and make_limiter()
if limiter and limiter.is_paused(limiter.limits_of('')) then return {'ok', 0} end
local scores = call('ZMSCORE', timeline, unpack(jobs))
local records, entries = call('HMGET', running, unpack(jobs)), call('HMGET', queued, unpack(jobs))
local retry_state = special and fetch_any(retry_states, jobs) or {}
local optional = special and fetch_any(options, jobs) or {}

local function setting(i, name)
  local own = optional[i] and option_of(optional[i], name)
  return own or given.settings and given.settings[name]
end

local function is_late(i, job, due, kept)  -- if it is not, `write` is told when it expires
  local grace, expires = tonumber(setting(i, 'grace')) or 0, tonumber(setting(i, 'expires')) or 0
  local begins = kept.tries == '0' and not kept.alone  -- and was not tried before
  if expires > 0 and begins then
    given.expiring = given.expiring or {}
    given.expiring[job] = stamp((tonumber(kept.due) or due) + expires)
  end
  if given.late_too or kept.due ~= '-' then return false end
  return grace > 0 and now - due > grace or expires > 0 and begins and now - due > expires
end

local function overtake(job, due, run, overlap)  -- the last occurrence is still running
  local owes = leaves(run, OWED)
  if run.next ~= ONCE and (overlap ~= 'queue' or owes) then return count(RUNNING, job, 1) end
  run.next = OWED .. stamp(due)
  change('HSET', running, {job, record_of(run)})
end

local function put_off(job, due, kept)  -- it keeps its due time
  change('HSET', retry_states, {job, retry_record_of(kept, due)})
  note(waits, stamp(now + PAUSE), job)
end

for i, job in ipairs(jobs) do
  local due, score = tonumber(given.dues[i]), scores[i]
  if due <= now and score and (score == given.dues[i] or tonumber(score) == due) then
    local home, run = queue[given.homes[i]], run_of(records[i])
    local kept = retry_state[i] and retry_state_of(retry_state[i]) or NO_RETRY
    local tried = kept.due ~= '-' and kept.due or stamp(due)
    local own = not plain and (optional[i] or given.settings)
    if own and not run and is_late(i, job, due, kept) then
      note(late, job, given.dues[i])
    elseif not home and not run then
      put_off(job, tried, kept)
    else
      gone[#gone + 1] = job
      if run then
        overtake(job, due, run, setting(i, 'overlap'))
      elseif not entries[i] then
        enqueue(job, tried, home)
        moved = moved + 1
      end
    end
  end
end
if #gone > 0 then change('ZREM', timeline, gone) end
return write({'ok', moved, unpack(late)})
