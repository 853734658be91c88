#!lua flags=allow-oom
-- resume: held → timeline, queue or stopped; a run in flight goes on.
-- keys   schedules, statuses, running, retry_states, skipped, spent, pauses, timers, options,
--        following, followers, _backfill, _write
-- given  job; queues: its own, or none if nobody knows it: then it goes on the timeline; pause,
--        schedule: the records that all of this was computed from; flies: whether the job is in
--        flight; and where they apply
--          due: when what is held is due now; occurrence: its own due time, if it is tried again
--            then
--          spent: its schedule has nothing left; once: if it was a one-off, the setting
--            forget-after
--          retry_state: its record; skipped: {reason: how many occurrences are passed over}
-- returns {'ok', 'timeline', 'queue', 'stopped', 'flight' or 'resumed'}, {'unchanged'} if the job
--         is not paused, or {'stale'} when it has changed meanwhile
local job, home = given.job, queue[1]
local record, flight = call('HGET', pauses, job), call('HGET', running, job)
local run, moment, place = run_of(flight), given.due and stamp(given.due), 'resumed'
if not record then
  if call('ZSCORE', timers, 'job:' .. job) then change('ZREM', timers, {'job:' .. job}) end
  return write({'unchanged'})
end
if record ~= given.pause or (flight ~= false) ~= given.flies then return {'stale'} end
if (call('HGET', schedules, job) or nil) ~= given.schedule then return {'stale'} end

if run and moment then
  place = 'flight'
  if given.due > now then
    wait_on(given.due, job)
  elseif run.next == ONCE then
    run.next = OWED .. moment
    change('HSET', running, {job, record_of(run)})
  end
elseif given.spent and not run then
  place = 'stopped'
  drop_member(job)
  if given.once then end_one_off(job, kept_for(job, given.once)) end
  mark(job, STP)
elseif moment and given.due <= now and home then
  place = 'queue'
  enqueue(job, given.occurrence and stamp(given.occurrence) or moment, home)
elseif moment then
  place = 'timeline'
  wait_on(given.due, job)
  mark(job, TML)
end
for reason, number in pairs(given.skipped or {}) do count(reason, job, number) end
if given.retry_state then change('HSET', retry_states, {job, given.retry_state}) end
change('HDEL', pauses, {job})
change('ZREM', timers, {'job:' .. job})
-- Where a job is in the place that it had, its status stays.
marks[event_of(call('HGET', statuses, job)) or ''] = nil
if call('HLEN', following) > 0 then
  make_follows()
  for _, each in ipairs(list_above(job)) do make_backfills().fill(each, job) end
end
if follows then follows.settle() end
if given.who then log_change('resume', {job}) end
return write({'ok', place})
