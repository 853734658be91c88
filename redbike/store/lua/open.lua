#!lua flags=allow-oom
-- open: paused → open, if the pause is over, or is to end; and wakes a worker if a job may be taken
--       again. Without a queue, it opens everything. A record of limits that is empty then is
--       removed.
-- keys   wakeup, queue_limits, timers, _write
-- given  queues: the queue, or none; resume: whether the pause is ended
-- returns {'ok'}, or {'unchanged'} if there was no pause; and 'new' if the caller must give slots
--         to runs in flight, as the process that has set a limit may have died
local home, limiter = queue[1], make_limiter(true)
local name = home and home.name or ''
local limits = limiter.limits_of(name)
local was_paused, changed = limits.paused ~= nil, false
if was_paused and (given.resume or not limiter.is_paused(limits)) then
  if given.who and given.resume and limiter.is_paused(limits) then log_change('resume', {}) end
  -- Its last instant: what is due when a pause ends by itself did not come due during it.
  local last = limiter.is_paused(limits) and now or limiter.end_of_pause(limits) - 0.000001
  limits.last = {since = limits.paused.since, ended = stamp(last)}
  limits.paused, changed = nil, true
  token(wakeup)
end
local kept_until = limits.last and (tonumber(limits.last.ended) or 0) + limiter.KEPT
if kept_until and kept_until <= now then limits.last, kept_until, changed = nil, nil, true end
change('ZREM', timers, {'queue:' .. name})
local is_new = limits.moving and not limits.epoch
local instant = is_new and now + 2 or math.huge
instant = math.min(instant, limiter.end_of_pause(limits), kept_until or math.huge)
if instant < math.huge then change('ZADD', timers, {stamp(instant), 'queue:' .. name}) end
if not next(limits) then
  change('HDEL', queue_limits, {name})
elseif changed then
  change('HSET', queue_limits, {name, limiter.record_of(limits)})
end
if limits.wanted then limiter.ask_for_places(name, limits, true) end  -- a reserved one may be free
if home and call('LLEN', home.list) > 0 then
  home.limits = limits
  wake(home)
end
return write({was_paused and 'ok' or 'unchanged', is_new and 'new' or nil})
