#!lua flags=allow-oom
-- watch: jobs that alert if they are late are among those that are looked at; each stays where it
--        is.
-- keys   options, alerts, _write
-- given  jobs: those that may have such options; or cursor, count, as HSCAN takes them, for a part
--        of all jobs that have options
-- returns {'ok', where the next part begins, '0' for the end}
local following, pairs_of, new = '0', {}, {}
for _, job in ipairs(given.jobs or {}) do note(pairs_of, job, call('HGET', options, job)) end
if given.cursor then
  following, pairs_of = unpack(call('HSCAN', options, given.cursor, 'COUNT', given.count))
end
for i = 1, #pairs_of, 2 do
  local job, text = pairs_of[i], pairs_of[i + 1] or ''
  local field = 'job:' .. job
  local alerts_if_late = text:find('"start-within"', 1, true) or text:find('"finish-', 1, true)
  if alerts_if_late and call('HEXISTS', alerts, field) == 0 then note(new, field, '{}') end
end
if #new > 0 then change('HSET', alerts, new) end
write()
return {'ok', following}
