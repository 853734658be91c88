#!lua
-- pause_queue: open → paused, one queue or, without one, everything. Runs in flight go on.
-- given  queues: the queue, or none; until: an instant, or none; by; reason
-- returns {'ok'}, or {'unchanged'} if it is paused already
local name = queue[1] and queue[1].name or ''
local gate = gate_of(name)
if is_paused(gate) then return {'unchanged'} end
gate.paused = {since = stamp(now), by = given.by, reason = given.reason}
if given['until'] then
  gate.paused['until'] = stamp(given['until'])
  alarm(name, given['until'])
end
change('HSET', gates, {name, gate_record_of(gate)})
return write({'ok'})
