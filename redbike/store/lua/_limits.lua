-- Limits: what stands before a queue, or before all of them, whose name is ''; see keys.py.
-- A damaged one counts as none.
-- keys   wakeup, queue_limits, timers
local limiter
local function make_limits()  -- its functions that read and write limits
  -- KEPT: seconds for which the last pause is remembered, for runs that came due during it
  -- APART: seconds between two divisions of the places of a queue among shards, at least
  limiter = {KEPT = 86400, APART = 0.1}
  local FIELDS = {
    'since', 'until', 'ended', 'by', 'reason', 'paused', 'last', 'at_once', 'count', 'seconds',
    'full_at', 'code', 'held', 'of', 'parts', 'epoch', 'moving', 'wanted', 'moved',
    'took', 'own_end', 'divided'
  }

  function limiter.limits_of(name)
    local limits = object_of(call('HGET', queue_limits, name))
    -- A shard may have no part of what all of them have.
    if type(limits.of) ~= 'table' then limits.of = nil end
    local least = limits.of and 0 or 1
    local least_of = {at_once = least, count = least, seconds = 1}
    for _, field in ipairs({'at_once', 'count', 'seconds', 'full_at', 'epoch', 'moved', 'took'}) do
      local number = tonumber(limits[field])
      local fits = number and number >= (least_of[field] or 0) and number < 1e12
      limits[field] = fits and number or nil
    end
    for _, field in ipairs({'paused', 'last'}) do
      local pause = limits[field]
      if type(pause) ~= 'table' or not tonumber(pause.since) then limits[field] = nil end
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
        local nested = type(value) == 'table' and field ~= 'held'
        value = nested and limiter.record_of(value) or cjson.encode(value)
        members[#members + 1] = '"' .. field .. '":' .. value
      end
    end
    return '{' .. table.concat(members, ',') .. '}'
  end

  function limiter.end_of_pause(limits)
    return limits.paused and tonumber(limits.paused['until']) or math.huge
  end
  function limiter.is_paused(limits) return limits.paused and limiter.end_of_pause(limits) > now end

  function limiter.last_pause(limits)  -- also one whose end no dispatcher has noted yet
    if not limits.paused or limiter.is_paused(limits) then return limits.last end
    return {since = limits.paused.since, ended = stamp(limiter.end_of_pause(limits) - 0.000001)}
  end

  function limiter.slot_of(name, job) return name .. '\n' .. job end
  function limiter.range_of_slots(name) return '[' .. name .. '\n', '(' .. name .. '\v' end

  -- In how many seconds the bucket is full; it is, if the clock was set back.
  function limiter.lack_of(limits)
    local seconds = (limits.full_at or 0) - now
    return seconds < limits.seconds + 1 and math.min(math.max(seconds, 0), limits.seconds) or 0
  end

  -- A dispatcher looks at the limits of that name then, if not before.
  function limiter.timer(name, instant)
    wake_dispatcher(timers, instant)
    change('ZADD', timers, {'LT', stamp(instant), 'queue:' .. name})
  end

  -- A dispatcher divides the places anew among the shards then, if not before; see quota.lua.
  function limiter.divide(name, instant)
    wake_dispatcher(timers, instant)
    change('ZADD', timers, {'LT', stamp(instant), 'quota:' .. name})
  end
end
