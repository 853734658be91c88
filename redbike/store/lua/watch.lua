#!lua flags=allow-oom
-- watch: adds jobs that alert if they are late to -alerts, and removes those that do not any more
--        and have no alert; moves no job.
-- keys   options, alerts, _write
-- given  jobs: those whose options may have changed; is_set: whether all of them alert, now or by a
--        script in the same round trip; or cursor, count, as HSCAN takes them, for a part of all
--        jobs that have options
-- returns {'ok', where the next part begins, '0' for the end}
local next_cursor, found, new, gone = '0', {}, {}, {}
for _, job in ipairs(given.jobs or {}) do note(found, job, call('HGET', options, job)) end
if given.cursor then
  next_cursor, found = unpack(call('HSCAN', options, given.cursor, 'COUNT', given.count))
end
for i = 1, #found, 2 do
  local field, alerts_it = 'job:' .. found[i], given.is_set or alerts_if_late(found[i + 1])
  local record = call('HGET', alerts, field)
  if alerts_it and not record then note(new, field, '{}') end
  if not alerts_it and record == '{}' then gone[#gone + 1] = field end
end
if #new > 0 then change('HSET', alerts, new) end
if #gone > 0 then change('HDEL', alerts, gone) end
write()
return {'ok', next_cursor}
