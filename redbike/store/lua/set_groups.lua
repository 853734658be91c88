#!lua
-- set_groups: records whose rows jobs are; each stays where it is.
-- keys   schedules, groups, _write
-- given  jobs: {job: record, or false}
-- returns {'ok'}
for job, record in pairs(given.jobs) do
  if not record then
    change('HDEL', groups, {job})
  elseif call('HEXISTS', schedules, job) == 1 then
    change('HSET', groups, {job, record})
  end
end
return write({'ok'})
