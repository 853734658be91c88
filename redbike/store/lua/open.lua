#!lua flags=allow-oom
-- open: paused → open, if the pause is over, or is ended; and a worker is woken if a job may be taken again. Without a
--       queue it is about everything. A gate with nothing left to keep is removed.
-- given  queues: the queue, or none; resume: whether the pause is ended
-- returns {'ok'}, or {'unchanged'} if there was no pause
local home, keeper = queue[1], gatekeeper(true)
local name = home and home.name or ''
local gate = keeper.gate_of(name)
local was_paused, changed = gate.paused ~= nil, false
if was_paused and (given.resume or not keeper.is_paused(gate)) then
  if given.who and given.resume and keeper.is_paused(gate) then log_change('resume', {}) end
  -- Its last instant: what is due when a pause ends by itself did not come due during it.
  local last = keeper.is_paused(gate) and now or keeper.end_of_pause(gate) - 0.000001
  gate.last = {since = gate.paused.since, ended = stamp(last)}
  gate.paused, changed = nil, true
  token(wakeup)
end
local kept_until = gate.last and (tonumber(gate.last.ended) or 0) + keeper.KEPT
if kept_until and kept_until <= now then gate.last, kept_until, changed = nil, nil, true end
change('ZREM', alarms, {'queue:' .. name})
local instant = math.min(keeper.end_of_pause(gate), kept_until or math.huge)
if instant < math.huge then change('ZADD', alarms, {stamp(instant), 'queue:' .. name}) end
if not next(gate) then
  change('HDEL', gates, {name})
elseif changed then
  change('HSET', gates, {name, keeper.record_of(gate)})
end
if home and call('LLEN', home.list) > 0 then
  home.gate = gate
  wake(home)
end
return write({was_paused and 'ok' or 'unchanged'})
