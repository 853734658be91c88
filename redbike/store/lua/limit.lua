#!lua
-- limit: how many jobs of a queue may be in flight at once, and how many may be taken in a time.
-- given  queues: the queue; at_once: a number; rate: {count, seconds}; both false for no limit any more, and missing for
--        no change; code: whether a worker class asks: then what an operator has set stays
-- returns {'ok'}, or {'unchanged'}
local home, keeper = queue[1], gatekeeper(true)
local gate = keeper.gate_of(home.name)
local before = {gate.at_once or 0, gate.count or 0, gate.seconds or 0, gate.code}
local first, last = keeper.range_of_slots(home.name)
if given.code and (gate.at_once or gate.count) and not gate.code then return {'unchanged'} end
if given.at_once ~= nil then gate.at_once = given.at_once or nil end
if given.rate ~= nil then gate.count, gate.seconds = unpack(given.rate or {}) end
if not gate.count then gate.count, gate.seconds, gate.full_at = nil, nil, nil end
-- What the old rate has used up fits into the new bucket at most.
if gate.full_at then gate.full_at = math.min(gate.full_at, now + gate.seconds) end
gate.code = given.code and (gate.at_once or gate.count) and true or nil
if not gate.at_once then
  gate.held = nil
  change('ZREMRANGEBYLEX', slots, {first, last})
end
if next(gate) then
  change('HSET', gates, {home.name, keeper.record_of(gate)})
else
  change('HDEL', gates, {home.name})
  change('ZREM', alarms, {'queue:' .. home.name})
end
if call('LLEN', home.list) > 0 then
  home.gate = gate
  wake(home)
end
local after = {gate.at_once or 0, gate.count or 0, gate.seconds or 0, gate.code}
local changed = false
for i = 1, 4 do changed = changed or before[i] ~= after[i] end
if given.who and changed then log_change('limit', {}) end
return write({'ok'})
