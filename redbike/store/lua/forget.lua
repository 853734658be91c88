#!lua flags=allow-oom
-- forget: stopped → (unknown), one-offs that have ended long enough ago, the first of them.
-- keys   schedules, statuses, spent, saved, progress, groups, counts, following, alerts, blackouts,
--        _stop_backfill, _write
-- given  most: how many are looked at
-- returns {'ok', how many were read, and how many were forgotten}: jobs that were set again stay
--         for good, and so do rows of files, which would run again; a job that has failed, or runs
--         again, is read again later
local LATER, MUCH_LATER, number = 60, 3600, 0  -- seconds
local more = {alerts, blackouts, saved, progress}
local ripe = call('ZRANGEBYSCORE', spent, '-inf', stamp(now), 'LIMIT', 0, given.most)
for _, job in ipairs(ripe) do
  local event = event_of(call('HGET', statuses, job))
  local is_row = (call('HGET', groups, job) or ''):find('\n', 1, true)
  local is_over = call('HGET', schedules, job) == STOP and not is_row
  if is_over and event == STP then
    forget(job, more)
    if call('HLEN', following) > 0 then forget_backfill(job, more) end
    number = number + 1
  elseif is_over or event == ENQ or event == WRK then
    change('ZADD', spent, {stamp(now + (event == DIE and MUCH_LATER or LATER)), job})
  else
    change('ZREM', spent, {job})
  end
end
if number > 0 then change('HINCRBY', counts, {'forgotten::', number}) end
return write({'ok', #ripe, number})
