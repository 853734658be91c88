#!lua
-- reject: (unknown) → BAD; a job that has a schedule is left as it is.
-- keys   schedules, groups, _write
-- given  job; group: the record of whose row it is, if it is one
-- returns {'ok'}
if call('HEXISTS', schedules, given.job) == 0 then
  mark(given.job, BAD)
  if given.group then change('HSET', groups, {given.job, given.group}) end
end
return write({'ok'})
