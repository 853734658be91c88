#!lua flags=no-writes
-- inspect_limits: what is kept of a queue's limits, or of everything's, at one instant; changes
--                 nothing.
-- keys   running, wakeup, queue_limits, slots, timers
-- given  queues: the queue, or none; jobs: those that may have a slot, or may be in flight
-- returns {'ok', JSON of limits, timer, now, wrong: {job: whether it has a slot, but should have
--         none}}; what is not there is missing
local name = queue[1] and queue[1].name or ''
local limiter, wrong = make_limiter(true), {}
local limited = limiter.limits_of(name).at_once ~= nil
for _, job in ipairs(given.jobs) do
  local run = run_of(call('HGET', running, job))
  local has = call('ZSCORE', slots, limiter.slot_of(name, job)) and true or false
  local needs = limited and run ~= nil and run.home == name
  if has ~= needs then wrong[job] = has end
end
return {'ok', cjson.encode({
  limits = call('HGET', queue_limits, name) or nil,
  timer = call('ZSCORE', timers, 'queue:' .. name) or nil, now = stamp(now), wrong = wrong
})}
