#!lua flags=allow-oom
-- skip: timeline → timeline or stopped, past occurrences that are not to be caught up with; a run in flight goes on.
-- given  job; due: what is given up; schedule: what the next due time was computed from; next: that, or none; count
-- returns {'ok'}, or {'stale'} when the job has moved on meanwhile, or waits to be tried again
local job = given.job
if tonumber(call('ZSCORE', timeline, job) or nil) ~= tonumber(given.due) then return {'stale'} end
if call('HGET', schedules, job) ~= given.schedule then return {'stale'} end
if streak_of(call('HGET', streaks, job)).due ~= '-' then return {'stale'} end
count(MISSED, job, given.count)
if given.next then note(waits, stamp(given.next), job) else change('ZREM', timeline, {job}) end
if call('HEXISTS', running, job) == 0 then mark(job, given.next and TML or STP) end
return write({'ok'})
