#!lua flags=allow-oom
-- rebuild_slots: gives these jobs slots of a queue with a limit if they are in flight from it, and
--                takes them if not. After the last jobs, a queue with a new limit is open again.
-- keys   running, queue_limits, slots, _write
-- given  queues: the queue; jobs; last: whether there are no more
-- returns {'ok', how many of them have a slot}
local name, taken, free = queue[1].name, {}, {}
local limiter = make_limiter(true)
local limits = limiter.limits_of(name)
local records = given.jobs[1] and call('HMGET', running, unpack(given.jobs)) or {}
for i, record in ipairs(records) do
  local run = run_of(record)
  local slot, is_own = limiter.slot_of(name, given.jobs[i]), run and run.home == name
  if limits.at_once and is_own then note(taken, 0, slot) else free[#free + 1] = slot end
end
if #taken > 0 then change('ZADD', slots, taken) end
if #free > 0 then change('ZREM', slots, free) end
if given.last and limits.moving and not limits.epoch then
  limits.moving = nil
  change('HSET', queue_limits, {name, limiter.record_of(limits)})
  if call('LLEN', queue[1].list) > 0 then token(queue[1].wake) end
end
return write({'ok', #taken / 2})
