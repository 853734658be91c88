-- Where a job goes that is set.
-- keys   statuses, timeline, queued, running, retry_states, skipped, wakeup, pauses, timers, data,
--        following, followers, _backfill

local gone = {}  -- jobs that are not on the timeline any more
local first  -- where the timeline begins

-- Whether an occurrence is dropped that is overdue on the timeline, as no dispatcher runs.
local function is_overdue(job, due)
  if due and due <= now or next(job.skipped or {}) then return false end
  first = first or tonumber(call('ZRANGE', timeline, 0, 0, 'WITHSCORES')[2] or AWAITED)
  return first <= now and tonumber(call('ZSCORE', timeline, job.id) or AWAITED) <= now
end

local function pause_at_once(job)
  job.pause = pause_of(job.paused)
  hold(job.id, job.pause, '-')
  local ends = tonumber(job.pause.till)
  if ends then
    wake_dispatcher(timers, ends)
    change('ZADD', timers, {job.pause.till, 'job:' .. job.id})
  end
end

local function wait_until(due, job)  -- or, with nil, for nothing any more
  if job.pause then return hold(job.id, job.pause, due and stamp(due) or '-') end
  if due then note(waits, stamp(due), job.id) else change('ZREM', timeline, {job.id}) end
end

local function set_in_flight(job, run, due, same)  -- returns whether nothing has become of it
  local owed, missed = leaves(run, OWED), leaves(run, ANEW)
  local at_once, given_up, unmoved = due and due <= now and job.once, owed or missed, false
  if at_once and not job.pause then
    -- With other data it is no further try of what runs.
    local is_other = job.data ~= nil and job.data ~= call('HGET', data, job.id)
    local is_anew = same and (missed or is_other)
    given_up = missed and not same  -- what is owed is still
    run.next = (is_anew and ANEW or OWED) .. stamp(due)
    wait_until(nil, job)
  elseif due and due <= now and not (at_once or same or job.due == 'now') then
    run.next = ANEW .. stamp(due)  -- it comes when the run ends, as it would come from a queue
    wait_until(nil, job)
  elseif at_once or not same or not due or job.new_jitter then
    local waits_on = due and (due > now or at_once)
    run.next = waits_on and job.once and ONCE or SET
    -- What waits for its parents does so once the run has ended: of what ends before, they know.
    wait_until(waits_on and (job.once or due < AWAITED) and due, job)
  else
    given_up, unmoved = false, true
  end
  if given_up then count(WITHDRAWN, job.id, 1) end
  change('HSET', running, {job.id, record_of(run)})
  -- It was unset during the run.
  if call('HEXISTS', statuses, job.id) == 0 then mark(job.id, WRK) end
  return unmoved
end

local function set_idle(job, due, place, same, known)  -- returns whether it stays in its place
  local held = job.pause and tonumber(job.pause.due)
  -- In a queue, until the job was paused.
  local waited = held and event_of(call('HGET', statuses, job.id)) == ENQ
  if (waited or place) and due and same then return true end
  -- What waits to be tried again is dropped, too.
  local is_tried = job.is_tried and not place and (held or call('ZSCORE', timeline, job.id))
  local waits = held and (waited or held <= now) or is_tried
  if waits or known and not (held or place) and is_overdue(job, due) then
    count(WITHDRAWN, job.id, 1)
  end
  local home = queue[job.queue]
  if place then
    count(WITHDRAWN, job.id, 1)
    if due and due <= now then return wait_in(home, job.id, stamp(due)) end  -- in its turn
    leave_queue(home, job.id)
  end
  if due and (due > now or job.pause) then
    wait_until(due, job)
    return mark(job.id, TML)
  end
  if held then wait_until(nil, job) end
  if known then gone[#gone + 1] = job.id end
  if due then return enqueue(job.id, stamp(due), home) end
  mark(job.id, STP)
  drop_member(job.id)
end
