#!lua flags=allow-oom
-- reserve: reserves a place of a queue with a limit at once, for an ended run whose function goes
--          on; or ends the reservation. It also ends by itself, in case no process ends it.
-- keys   queue_limits, _write
-- given  queues: the queue; run: the tag and the job; seconds: from now on, 0 to end it
-- returns {'ok'}, or {'unchanged'} if the queue has no such limit, or there was no reservation
local home, limiter = queue[1], make_limiter(true)
local limits, held = limiter.limits_of(home.name), {}
local had = limits.held and limits.held[given.run]
if not limits.at_once or given.seconds == 0 and not had then return {'unchanged'} end
for run, ends in pairs(limits.held or {}) do
  if ends > now and run ~= given.run then held[run] = ends end
end
if given.seconds > 0 then
  held[given.run] = now + given.seconds
  limiter.timer(home.name, held[given.run])
end
limits.held = next(held) and held or nil
change('HSET', queue_limits, {home.name, limiter.record_of(limits)})
if given.seconds == 0 and limits.wanted then limiter.ask_for_places(home.name, limits, true) end
if given.seconds == 0 and call('LLEN', home.list) > 0 then
  home.limits = limits
  wake(home)
end
return write({'ok'})
