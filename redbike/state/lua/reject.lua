#!lua
-- reject: (unknown) → BAD; a job that has a schedule is left as it is.
-- given  job
-- returns {'ok'}
if call('HEXISTS', schedules, given.job) == 0 then mark(given.job, BAD) end
return write({'ok'})
