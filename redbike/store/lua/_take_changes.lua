-- What `take` changes.
-- keys   statuses, queued, running, batches, leases, wakeup, queue_limits, slots, timers, inflight

local function discard(job, home, dead, schedule)  -- an entry with which nobody waits
  if dead then return change('SREM', home.tombstones, {job}) end
  change('HDEL', queued, {job})
  if not schedule then change('HDEL', statuses, {job}) end
end

local function leave_queues(limiter)  -- returns the deadlines of those queues that had jobs
  local deadlines = {}
  for _, home in ipairs(queue) do
    if home.used > 0 then
      deadlines[home.name] = home.deadline
      change('RPOP', home.list, {home.used})
      if limiter then limiter.spend(home, home.taken) end
      if home.total > home.used then if limiter then wake(home) else token(home.wake) end end
    end
  end
  return deadlines
end

local function enter_flight(jobs, runs, longest)  -- until the last deadline, `longest` from now
  local tag, batch = given.tag, batch_of(jobs)
  marks[WRK] = jobs
  change('HDEL', queued, jobs)
  change('HSET', running, runs)
  change('HSET', batches, {tag, batch})
  change('ZADD', leases, {stamp(now + math.min(given.lease, longest + given.grace)), tag})
  change('SET', inflight .. tag, {batch, 'PX', math.max(1, math.floor(longest * 1000))})
end
