#!lua
-- pause_queue: open → paused, one queue or, without one, everything. Runs in flight go on.
-- given  queues: the queue, or none; until: an instant, or none; by; reason
-- returns {'ok'}, or {'unchanged'} if it is paused already
local name = queue[1] and queue[1].name or ''
local keeper = gatekeeper(true)
local gate = keeper.gate_of(name)
if keeper.is_paused(gate) then return {'unchanged'} end
gate.paused = {since = stamp(now), by = given.by, reason = given.reason}
if given['until'] then
  gate.paused['until'] = stamp(given['until'])
  keeper.alarm(name, given['until'])
end
change('HSET', gates, {name, keeper.record_of(gate)})
if given.who then log_change('pause', {}) end
return write({'ok'})
