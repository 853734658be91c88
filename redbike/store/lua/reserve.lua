#!lua flags=allow-oom
-- reserve: a place of a queue with a limit at once, for a run that has ended and whose function goes on; or its end. Each
--          reservation ends by itself, in case nobody does that.
-- given  queues: the queue; run: the tag and the job; seconds: from now on, 0 to end it
-- returns {'ok'}, or {'unchanged'} if the queue has no such limit, or there was no reservation
local home, keeper = queue[1], gatekeeper(true)
local gate, held = keeper.gate_of(home.name), {}
local had = gate.held and gate.held[given.run]
if not gate.at_once or given.seconds == 0 and not had then return {'unchanged'} end
for run, ends in pairs(gate.held or {}) do if ends > now and run ~= given.run then held[run] = ends end end
if given.seconds > 0 then
  held[given.run] = now + given.seconds
  keeper.alarm(home.name, held[given.run])
end
gate.held = next(held) and held or nil
change('HSET', gates, {home.name, keeper.record_of(gate)})
if given.seconds == 0 and call('LLEN', home.list) > 0 then
  home.gate = gate
  wake(home)
end
return write({'ok'})
