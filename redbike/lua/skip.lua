#!lua flags=allow-oom
-- skip: timeline → timeline or stopped, past occurrences that are not to be caught up with.
-- KEYS  common
-- ARGV  now, job, due time that is given up, schedule that the next was computed from, next due ('' = none), how many
-- returns {'ok'}, or {'stale'} when the job has moved on meanwhile, or waits to be tried again.
check_types()
local _, job, due, schedule, next, count = clock(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6]
local score = tonumber(call('ZSCORE', timeline, job) or nil)
if score ~= due or call('HGET', schedules, job) ~= schedule then return {'stale'} end
if string.match(call('HGET', streaks, job) or '', TRIED) then return {'stale'} end
call('HINCRBY', skipped, 'missed:' .. job, count)
if next ~= '' then
  postpone(job, next)
  mark(job, 'TML')
else
  call('ZREM', timeline, job)
  mark(job, 'STP')
end
return write({'ok'})
