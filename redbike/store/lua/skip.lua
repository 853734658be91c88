#!lua flags=allow-oom
-- skip: timeline → timeline or stopped, past occurrences that are not to be caught up with; a run
--       in flight goes on.
-- keys   schedules, timeline, running, retry_states, skipped, spent, pauses, options, data,
--        following, followers, _write
-- given  job; due: what is given up; schedule: what the next due time was computed from; next:
--        that, or none; count, reason; spent: if it is a one-off, the setting forget-after. The
--        retry state of one that was late, or has expired, keeps its due time: it never ran, and
--        runs for that if somebody asks for it
-- returns {'ok'}, or {'stale'} when the job has moved on meanwhile, or waits to be tried again
local job = given.job
if tonumber(call('ZSCORE', timeline, job) or nil) ~= tonumber(given.due) then return {'stale'} end
if call('HGET', schedules, job) ~= given.schedule then return {'stale'} end
local kept = retry_state_of(call('HGET', retry_states, job))
local flies = call('HEXISTS', running, job) == 1
if kept.due ~= '-' then return {'stale'} end
count(given.reason, job, given.count)
if given.spent then end_one_off(job, kept_for(job, given.spent)) end
if given.spent and (given.reason == LATE or given.reason == EXPIRED) and not flies then
  kept.after = stamp(given.due)
  change('HSET', retry_states, {job, retry_record_of(kept, kept.after)})
end
if given.next then wait_on(given.next, job) else change('ZREM', timeline, {job}) end
if not (given.next or flies) then drop_member(job) end
if follows then follows.settle() end
if not flies then mark(job, given.next and TML or STP) end
return write({'ok'})
