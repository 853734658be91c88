-- Limits: what stands before a queue, or before all of them, whose name is ''; see keys.py. A damaged one counts as none.
-- Most systems have none. Each function costs a script at every call, so these are made only where a queue has limits.
local limiter
local function make_limiter(always)  -- nil if no queue has limits, unless it is needed all the same
  if limiter or not always and call('HLEN', queue_limits) == 0 then return limiter end
  local FIELDS = {
    'since', 'until', 'ended', 'by', 'reason', 'paused', 'last', 'at_once', 'count', 'seconds', 'full_at', 'code', 'held'
  }
  limiter = {KEPT = 86400}  -- seconds for which the last pause is remembered, for runs that came due during it

  function limiter.limits_of(name)
    local limits = object_of(call('HGET', queue_limits, name))
    for _, field in ipairs({'at_once', 'count', 'seconds', 'full_at'}) do
      local number = tonumber(limits[field])
      limits[field] = number and number >= (field == 'full_at' and 0 or 1) and number < 1e12 and number or nil
    end
    for _, field in ipairs({'paused', 'last'}) do
      if type(limits[field]) ~= 'table' or not tonumber(limits[field].since) then limits[field] = nil end
    end
    if not limits.seconds then limits.count = nil end
    for run, ends in pairs(type(limits.held) == 'table' and limits.held or {}) do
      if type(ends) ~= 'number' then limits.held[run] = nil end
    end
    if type(limits.held) ~= 'table' or not next(limits.held) then limits.held = nil end
    return limits
  end

  function limiter.record_of(limits)  -- always in the same order
    local members = {}
    for _, field in ipairs(FIELDS) do
      local value = limits[field]
      if value ~= nil then
        value = type(value) == 'table' and field ~= 'held' and limiter.record_of(value) or cjson.encode(value)
        members[#members + 1] = '"' .. field .. '":' .. value
      end
    end
    return '{' .. table.concat(members, ',') .. '}'
  end

  function limiter.end_of_pause(limits) return limits.paused and tonumber(limits.paused['until']) or math.huge end
  function limiter.is_paused(limits) return limits.paused and limiter.end_of_pause(limits) > now end

  function limiter.slot_of(name, job) return name .. '\n' .. job end
  function limiter.range_of_slots(name) return '[' .. name .. '\n', '(' .. name .. '\v' end

  local function lack_of(limits)  -- in how many seconds its bucket is full; it is, if the clock was set back
    local seconds = (limits.full_at or 0) - now
    return seconds < limits.seconds + 1 and math.min(math.max(seconds, 0), limits.seconds) or 0
  end

  local function reserved_of(limits)  -- how many places functions hold that go on after their runs
    local number = 0
    for _, ends in pairs(limits.held or {}) do number = number + (ends > now and 1 or 0) end
    return number
  end

  -- How many more jobs of a queue may be taken now, and when the next may be, if it is only its rate that forbids that.
  -- `taken` are those that were taken just now.
  local function room_of(name, limits, taken)
    if limiter.is_paused(limits) then return 0 end
    local room, first, last = math.huge, limiter.range_of_slots(name)
    if limits.at_once then
      local flying = call('ZLEXCOUNT', slots, first, last) + (taken or 0)
      room = math.floor(limits.at_once) - flying - reserved_of(limits)
    end
    if not limits.count then return room end
    -- The bucket is full at `full_at`. Until then it lacks a token for each step.
    local step, lacks = limits.seconds / limits.count, lack_of(limits)
    local allowed = math.floor((limits.seconds - lacks) / step + 0.000001)
    return math.min(room, allowed), room >= 1 and allowed < 1 and now + lacks - limits.seconds + step or nil
  end

  function limiter.timer(name, instant)  -- a dispatcher looks at the limits of that name then, if not before
    wake_dispatcher(timers, instant)
    change('ZADD', timers, {'LT', stamp(instant), 'queue:' .. name})
  end

  function limiter.wake(home)  -- a worker, if it may take a job of this queue
    local room, opens = room_of(home.name, home.limits or limiter.limits_of(home.name), home.taken)
    if limiter.is_paused(limiter.limits_of('')) then return end
    if room >= 1 then token(home.wake) elseif opens then limiter.timer(home.name, opens) end
  end

  function limiter.close(home, all)  -- of its entries no more count than may be taken
    home.taken, home.slots = 0, {}
    local room = room_of(home.name, home.limits)
    home.length = limiter.is_paused(all) and 0 or math.min(home.length, math.max(0, room))
  end

  function limiter.read_limits(all)  -- of the queues; first and last instant of the last pause of each, or of everything
    local found = {}
    for _, home in ipairs(queue) do
      home.limits = limiter.limits_of(home.name)
      local last, common = home.limits.last or all.last, all.last
      if last and common and (tonumber(last.ended) or 0) < (tonumber(common.ended) or 0) then last = common end
      if last then found[home.name] = {last.since, last.ended} end
    end
    return next(found) and found or nil
  end

  function limiter.spend(home, number)  -- of what its limits allow; less than nothing is given back
    local limits = home.limits
    if limits.at_once and #home.slots > 0 then change('ZADD', slots, home.slots) end
    if limits.count and number ~= 0 then
      limits.full_at = stamp(now + lack_of(limits) + number * limits.seconds / limits.count)
      change('HSET', queue_limits, {home.name, limiter.record_of(limits)})
    end
  end

  function limiter.free_slots(jobs)  -- the queues with a limit in which others may be taken then
    local freed = {}
    for i, record in ipairs(call('HMGET', running, unpack(jobs))) do
      local run = run_of(record)
      local home = run and queue[run.home]
      if run then change('ZREM', slots, {limiter.slot_of(run.home, jobs[i])}) end
      if home then home.taken = (home.taken or 0) - 1 end
    end
    for _, home in ipairs(queue) do
      if home.taken and #home.pushed == 0 and call('LLEN', home.list) > 0 then freed[#freed + 1] = home end
    end
    return freed
  end

  return limiter
end
