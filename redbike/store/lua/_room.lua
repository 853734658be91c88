-- How many jobs limits let through, and what runs do to them. Most systems have none, and each
-- function costs a script at every call: so these are made only where a queue has limits.
-- keys   running, wakeup, queue_limits, slots, timers
local function make_limiter(always)  -- nil if no queue has limits, unless it is needed all the same
  if limiter or not always and call('HLEN', queue_limits) == 0 then return limiter end
  make_limits()

  -- How many places functions hold that go on after their runs.
  function limiter.reserved_of(limits)
    local number = 0
    for _, ends in pairs(limits.held or {}) do number = number + (ends > now and 1 or 0) end
    return number
  end

  -- How many more jobs of a queue may be taken now, and when the next may be, if it is only its
  -- rate that forbids that. `taken` are those that were taken just now.
  local function room_of(name, limits, taken)
    if limiter.is_paused(limits) or limits.moving then return 0 end
    local room, first, last = math.huge, limiter.range_of_slots(name)
    if limits.at_once then
      local flying = call('ZLEXCOUNT', slots, first, last) + (taken or 0)
      room = math.floor(limits.at_once) - flying - limiter.reserved_of(limits)
    end
    if not limits.count then return room end
    if limits.count < 1 then return 0 end
    -- The bucket is full at `full_at`. Until then it lacks a token for each step.
    local step, lacks = limits.seconds / limits.count, limiter.lack_of(limits)
    local allowed = math.floor((limits.seconds - lacks) / step + 0.000001)
    local opens = room >= 1 and allowed < 1 and now + lacks - limits.seconds + step or nil
    return math.min(room, allowed), opens
  end

  function limiter.close(home, all)  -- of its entries no more count than may be taken
    home.taken, home.slots = 0, {}
    local room = room_of(home.name, home.limits)
    home.length = limiter.is_paused(all) and 0 or math.min(home.length, math.max(0, room))
  end

  -- Of the queues. Returns the first and the last instant of the last pause of each, or of all.
  function limiter.read_limits(all)
    local found, common = {}, limiter.last_pause(all)
    for _, home in ipairs(queue) do
      home.limits = limiter.limits_of(home.name)
      local last = limiter.last_pause(home.limits) or common
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

  function limiter.give_back(home, number)  -- what runs have spent that have not begun
    home.limits, home.slots = home.limits or limiter.limits_of(home.name), {}
    limiter.spend(home, -number)
  end

  function limiter.end_unbegun(home)  -- ends a run that has not begun: another may be taken instead
    limiter.give_back(home, 1)
    if call('LLEN', home.list) > 0 then limiter.wake(home) end
  end

  make_places(room_of)
  return limiter
end
