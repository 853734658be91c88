#!lua
-- save: in flight → in flight; something is kept for the next try of the same occurrence.
-- keys   schedules, running, saved, _write
-- given  job; tag. ARGV[2]: what is kept, see keys.py; '' for nothing any more
-- returns {'ok'}, also if the job was unset meanwhile, of which nothing is kept, or {'stale'} (the
--         run is not the tag's any more)
local job, record = given.job, ARGV[2]
local run = run_of(call('HGET', running, job))
if not run or run.tag ~= given.tag then return {'stale'} end
if call('HEXISTS', schedules, job) == 0 then return {'ok'} end
if record == '' then change('HDEL', saved, {job}) else change('HSET', saved, {job, record}) end
return write({'ok'})
