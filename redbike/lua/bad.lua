#!lua
-- bad: (unknown) → BAD; a job that has a schedule is left as it is.
-- KEYS  common
-- ARGV  now, job
-- returns {'ok'}
check_types()
local _, job = clock(ARGV[1]), ARGV[2]
if call('HEXISTS', schedules, job) == 0 then mark(job, 'BAD') end
return write({'ok'})
