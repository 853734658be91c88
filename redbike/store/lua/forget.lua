#!lua flags=allow-oom
-- forget: stopped → (unknown), one-offs that have ended long enough ago, the first of them.
-- keys   schedules, statuses, spent, saved, progress, groups, counts, alerts, _forget, _blackouts,
--        _write
-- given  most: how many are looked at
-- returns {'ok', how many were looked at, and how many were forgotten}: those that have failed
--         since or were set again stay for good, and so does the row of a file, which would run
--         again; one that runs again is looked at later
local LATER, number = 60, 0  -- seconds
local ripe = call('ZRANGEBYSCORE', spent, '-inf', stamp(now), 'LIMIT', 0, given.most)
for _, job in ipairs(ripe) do
  local event = event_of(call('HGET', statuses, job))
  local is_row = (call('HGET', groups, job) or ''):find('\n', 1, true)
  if event == STP and call('HGET', schedules, job) == STOP and not is_row then
    forget(job)
    forget_blackout(job)
    change('HDEL', saved, {job})
    change('HDEL', progress, {job})
    change('HDEL', alerts, {'job:' .. job, 'missed:' .. job})
    number = number + 1
  elseif event == ENQ or event == WRK then
    change('ZADD', spent, {stamp(now + LATER), job})
  else
    change('ZREM', spent, {job})
  end
end
if number > 0 then change('HINCRBY', counts, {'forgotten::', number}) end
return write({'ok', #ripe, number})
