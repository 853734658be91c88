#!lua flags=allow-oom
-- limit: how many jobs of a queue may be in flight at once, and how many may be taken in a time.
-- keys   queue_limits, slots, timers, _write
-- given  queues: the queue; at_once: a number; rate: {count, seconds}; both false for no limit any
--        more, and missing for no change; code: whether a worker class asks: then what an operator
--        has set stays; epoch: of the division that must still hold this shard, see quota.lua
-- returns {'ok'}, or {'unchanged'}
local home, limiter = queue[1], make_limiter(true)
local limits = limiter.limits_of(home.name)
local of = limits.of or limits  -- those over all shards
local before = {of.at_once or 0, of.count or 0, limits.seconds or 0, limits.code}
local first, last = limiter.range_of_slots(home.name)
local is_late = given.epoch and not (limits.epoch == given.epoch and limits.moving)
local is_kept = given.code and (limits.at_once or limits.count) and not limits.code
if is_late or is_kept then return {'unchanged'} end
-- No job is taken until runs in flight have slots. If the caller dies, a dispatcher gives these.
local is_new = given.at_once ~= false and (limits.moving or given.at_once and not limits.at_once)
limits.of, limits.parts, limits.epoch, limits.moving, limits.wanted, limits.moved = nil
limits.took, limits.divided = nil
if is_new then
  limits.moving = true
  limiter.timer(home.name, now + 2)
end
if given.at_once ~= nil then limits.at_once = given.at_once or nil end
if given.rate ~= nil then limits.count, limits.seconds = unpack(given.rate or {}) end
if not limits.count then limits.count, limits.seconds, limits.full_at = nil, nil, nil end
-- The old rate may have used up more than the new bucket has.
if limits.full_at then limits.full_at = math.min(limits.full_at, now + limits.seconds) end
limits.code = given.code and (limits.at_once or limits.count) and true or nil
if not limits.at_once then
  limits.held = nil
  change('ZREMRANGEBYLEX', slots, {first, last})
end
if next(limits) then
  change('HSET', queue_limits, {home.name, limiter.record_of(limits)})
else
  change('HDEL', queue_limits, {home.name})
  change('ZREM', timers, {'queue:' .. home.name, 'quota:' .. home.name})
end
if call('LLEN', home.list) > 0 then
  home.limits = limits
  wake(home)
end
local after = {limits.at_once or 0, limits.count or 0, limits.seconds or 0, limits.code}
local changed = false
for i = 1, 4 do changed = changed or before[i] ~= after[i] end
if given.who and changed then log_change('limit', {}) end
return write({'ok'})
