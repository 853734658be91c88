#!lua flags=allow-oom
-- pause_queue: open → paused, one queue or, without one, everything. Runs in flight go on. A pause
--              replaces that of a blackout that ends earlier.
-- keys   queue_limits, _write
-- given  queues: the queue, or none; until: an instant, or none; by; reason; replaces: whether it
--        takes the place of any other pause
-- returns {'ok'}, or {'unchanged'} if it is paused already
local name = queue[1] and queue[1].name or ''
local limiter = make_limiter(true)
local limits, since = limiter.limits_of(name), stamp(now)
if limiter.is_paused(limits) then
  local ends = given['until'] or math.huge
  local stays = not limits.paused.code or ends <= limiter.end_of_pause(limits)
  if stays and not given.replaces then return {'unchanged'} end
  since = limits.paused.since
end
limits.paused = {since = since, by = given.by, reason = given.reason}
if given['until'] then
  limits.paused['until'] = stamp(given['until'])
  limiter.timer(name, given['until'])
end
change('HSET', queue_limits, {name, limiter.record_of(limits)})
if given.who then log_change('pause', {}) end
return write({'ok'})
