#!lua flags=allow-oom
-- rebuild_slots: the slots of a queue with a limit → those of its runs in flight, as far as these
--                jobs go.
-- keys   running, slots, _write
-- given  queues: the queue; jobs
-- returns {'ok', how many of them have a slot}
local name, taken, free = queue[1].name, {}, {}
local limiter = make_limiter(true)
local limited = limiter.limits_of(name).at_once
for i, record in ipairs(call('HMGET', running, unpack(given.jobs))) do
  local run = run_of(record)
  local slot = limiter.slot_of(name, given.jobs[i])
  if limited and run and run.home == name then note(taken, 0, slot) else free[#free + 1] = slot end
end
if #taken > 0 then change('ZADD', slots, taken) end
if #free > 0 then change('ZREM', slots, free) end
return write({'ok', #taken / 2})
