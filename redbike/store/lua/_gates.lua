-- Gates: what stands before a queue, or before all of them, whose name is ''; see keys.py. A damaged one counts as none.
-- Most systems have none. Each function costs a script at every call, so these are made only where there is a gate.
local keeper
local function gatekeeper(always)  -- nil if no queue has a gate, unless it is needed all the same
  if keeper or not always and call('HLEN', gates) == 0 then return keeper end
  local FIELDS = {
    'since', 'until', 'ended', 'by', 'reason', 'paused', 'last', 'at_once', 'count', 'seconds', 'full_at', 'code', 'held'
  }
  keeper = {KEPT = 86400}  -- seconds for which the last pause is remembered, for runs that came due during it

  function keeper.gate_of(name)
    local gate = object_of(call('HGET', gates, name))
    for _, field in ipairs({'at_once', 'count', 'seconds', 'full_at'}) do
      local number = tonumber(gate[field])
      gate[field] = number and number >= (field == 'full_at' and 0 or 1) and number < 1e12 and number or nil
    end
    for _, field in ipairs({'paused', 'last'}) do
      if type(gate[field]) ~= 'table' or not tonumber(gate[field].since) then gate[field] = nil end
    end
    if not gate.seconds then gate.count = nil end
    for run, ends in pairs(type(gate.held) == 'table' and gate.held or {}) do
      if type(ends) ~= 'number' then gate.held[run] = nil end
    end
    if type(gate.held) ~= 'table' or not next(gate.held) then gate.held = nil end
    return gate
  end

  function keeper.record_of(gate)  -- always in the same order
    local members = {}
    for _, field in ipairs(FIELDS) do
      local value = gate[field]
      if value ~= nil then
        value = type(value) == 'table' and field ~= 'held' and keeper.record_of(value) or cjson.encode(value)
        members[#members + 1] = '"' .. field .. '":' .. value
      end
    end
    return '{' .. table.concat(members, ',') .. '}'
  end

  function keeper.end_of_pause(gate) return gate.paused and tonumber(gate.paused['until']) or math.huge end
  function keeper.is_paused(gate) return gate.paused and keeper.end_of_pause(gate) > now end

  function keeper.slot_of(name, job) return name .. '\n' .. job end
  function keeper.range_of_slots(name) return '[' .. name .. '\n', '(' .. name .. '\v' end

  local function lack_of(gate)  -- in how many seconds its bucket is full; it is, if the clock was set back
    local seconds = (gate.full_at or 0) - now
    return seconds < gate.seconds + 1 and math.min(math.max(seconds, 0), gate.seconds) or 0
  end

  local function reserved_of(gate)  -- how many places functions hold that go on after their runs
    local number = 0
    for _, ends in pairs(gate.held or {}) do number = number + (ends > now and 1 or 0) end
    return number
  end

  -- How many more jobs of a queue may be taken now, and when the next may be, if it is only its rate that forbids that.
  -- `taken` are those that were taken just now.
  local function room_of(name, gate, taken)
    if keeper.is_paused(gate) then return 0 end
    local room, first, last = math.huge, keeper.range_of_slots(name)
    if gate.at_once then
      local flying = call('ZLEXCOUNT', slots, first, last) + (taken or 0)
      room = math.floor(gate.at_once) - flying - reserved_of(gate)
    end
    if not gate.count then return room end
    -- The bucket is full at `full_at`. Until then it lacks a token for each step.
    local step, lacks = gate.seconds / gate.count, lack_of(gate)
    local allowed = math.floor((gate.seconds - lacks) / step + 0.000001)
    return math.min(room, allowed), room >= 1 and allowed < 1 and now + lacks - gate.seconds + step or nil
  end

  function keeper.alarm(name, instant)  -- a dispatcher looks at the gate of that name then, if not before
    wake_dispatcher(alarms, instant)
    change('ZADD', alarms, {'LT', stamp(instant), 'queue:' .. name})
  end

  function keeper.wake(home)  -- a worker, if it may take a job of this queue
    local room, opens = room_of(home.name, home.gate or keeper.gate_of(home.name), home.taken)
    if keeper.is_paused(keeper.gate_of('')) then return end
    if room >= 1 then token(home.wake) elseif opens then keeper.alarm(home.name, opens) end
  end

  function keeper.close(home, all)  -- of its entries no more count than may be taken
    home.taken, home.slots = 0, {}
    local room = room_of(home.name, home.gate)
    home.length = keeper.is_paused(all) and 0 or math.min(home.length, math.max(0, room))
  end

  function keeper.read_gates(all)  -- of the queues; first and last instant of the last pause of each, or of everything
    local found = {}
    for _, home in ipairs(queue) do
      home.gate = keeper.gate_of(home.name)
      local last, common = home.gate.last or all.last, all.last
      if last and common and (tonumber(last.ended) or 0) < (tonumber(common.ended) or 0) then last = common end
      if last then found[home.name] = {last.since, last.ended} end
    end
    return next(found) and found or nil
  end

  function keeper.spend(home, number)  -- of what its gate allows; less than nothing is given back
    local gate = home.gate
    if gate.at_once and #home.slots > 0 then change('ZADD', slots, home.slots) end
    if gate.count and number ~= 0 then
      gate.full_at = stamp(now + lack_of(gate) + number * gate.seconds / gate.count)
      change('HSET', gates, {home.name, keeper.record_of(gate)})
    end
  end

  function keeper.free_slots(jobs)  -- the queues with a limit in which others may be taken then
    local freed = {}
    for i, record in ipairs(call('HMGET', running, unpack(jobs))) do
      local run = run_of(record)
      local home = run and queue[run.home]
      if run then change('ZREM', slots, {keeper.slot_of(run.home, jobs[i])}) end
      if home then home.taken = (home.taken or 0) - 1 end
    end
    for _, home in ipairs(queue) do
      if home.taken and #home.pushed == 0 and call('LLEN', home.list) > 0 then freed[#freed + 1] = home end
    end
    return freed
  end

  return keeper
end
