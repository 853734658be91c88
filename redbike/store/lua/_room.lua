-- How many jobs limits let through, and what runs do to them. Most systems have none, and each
-- function costs a script at every call: so these are made only where a queue has limits.
-- keys   running, wakeup, queue_limits, slots, timers
local function make_limiter(always)  -- nil if no queue has limits, unless it is needed all the same
  if limiter or not always and call('HLEN', queue_limits) == 0 then return limiter end
  make_limits()

  local function reserved_of(limits)  -- how many places functions hold that go on after their runs
    local number = 0
    for _, ends in pairs(limits.held or {}) do number = number + (ends > now and 1 or 0) end
    return number
  end

  -- How many more jobs of a queue may be taken now, and when the next may be, if it is only its
  -- rate that forbids that. `taken` are those that were taken just now.
  local function room_of(name, limits, taken)
    if limiter.is_paused(limits) then return 0 end
    local room, first, last = math.huge, limiter.range_of_slots(name)
    if limits.at_once then
      local flying = call('ZLEXCOUNT', slots, first, last) + (taken or 0)
      room = math.floor(limits.at_once) - flying - reserved_of(limits)
    end
    if not limits.count then return room end
    -- The bucket is full at `full_at`. Until then it lacks a token for each step.
    local step, lacks = limits.seconds / limits.count, limiter.lack_of(limits)
    local allowed = math.floor((limits.seconds - lacks) / step + 0.000001)
    local opens = room >= 1 and allowed < 1 and now + lacks - limits.seconds + step or nil
    return math.min(room, allowed), opens
  end

  function limiter.wake(home)  -- a worker, if it may take a job of this queue
    local limits = home.limits or limiter.limits_of(home.name)
    local room, opens = room_of(home.name, limits, home.taken)
    if limiter.is_paused(limiter.limits_of('')) then return end
    if room >= 1 then token(home.wake) elseif opens then limiter.timer(home.name, opens) end
  end

  function limiter.close(home, all)  -- of its entries no more count than may be taken
    home.taken, home.slots = 0, {}
    local room = room_of(home.name, home.limits)
    home.length = limiter.is_paused(all) and 0 or math.min(home.length, math.max(0, room))
  end

  -- Of the queues. Returns the first and the last instant of the last pause of each, or of all.
  function limiter.read_limits(all)
    local found = {}
    for _, home in ipairs(queue) do
      home.limits = limiter.limits_of(home.name)
      local last, common = home.limits.last or all.last, all.last
      if last and common and (tonumber(last.ended) or 0) < (tonumber(common.ended) or 0) then
        last = common
      end
      if last then found[home.name] = {last.since, last.ended} end
    end
    return next(found) and found or nil
  end

  function limiter.take(home, job)  -- one more job of this queue
    home.taken = home.taken + 1
    note(home.slots, 0, limiter.slot_of(home.name, job))
  end

  -- Spends of what the limits of a queue allow; less than nothing is given back.
  function limiter.spend(home, number)
    local limits = home.limits
    if limits.at_once and #home.slots > 0 then change('ZADD', slots, home.slots) end
    if limits.count and number ~= 0 then
      limits.full_at = stamp(now + limiter.lack_of(limits) + number * limits.seconds / limits.count)
      change('HSET', queue_limits, {home.name, limiter.record_of(limits)})
    end
  end

  -- Returns the queues with a limit in which others may be taken then.
  function limiter.free_slots(jobs)
    local freed = {}
    for i, record in ipairs(call('HMGET', running, unpack(jobs))) do
      local run = run_of(record)
      local home = run and queue[run.home]
      if run then change('ZREM', slots, {limiter.slot_of(run.home, jobs[i])}) end
      if home then home.taken = (home.taken or 0) - 1 end
    end
    for _, home in ipairs(queue) do
      local waits_on = home.taken and #home.pushed == 0 and call('LLEN', home.list) > 0
      if waits_on then freed[#freed + 1] = home end
    end
    return freed
  end

  return limiter
end
