-- Gates: what stands before a queue, or before all of them, whose name is ''; see keys.py. A damaged one counts as none.
local KEPT = 86400  -- seconds for which the last pause is remembered, for runs that came due during it
local function gate_of(name)
  local known, gate = pcall(cjson.decode, call('HGET', gates, name) or '')
  if not known or type(gate) ~= 'table' then return {} end
  for _, field in ipairs({'at_once', 'count', 'seconds', 'full_at'}) do
    local number = tonumber(gate[field])
    gate[field] = number and number >= (field == 'full_at' and 0 or 1) and number < 1e12 and number or nil
  end
  for _, field in ipairs({'paused', 'last'}) do
    if type(gate[field]) ~= 'table' or not tonumber(gate[field].since) then gate[field] = nil end
  end
  if not gate.seconds then gate.count = nil end
  return gate
end

local FIELDS = {
  'since', 'until', 'ended', 'by', 'reason', 'paused', 'last', 'at_once', 'count', 'seconds', 'full_at', 'code'
}
local function gate_record_of(gate)  -- always in the same order
  local members = {}
  for _, field in ipairs(FIELDS) do
    local value = gate[field]
    if value ~= nil then
      value = type(value) == 'table' and gate_record_of(value) or cjson.encode(value)
      members[#members + 1] = '"' .. field .. '":' .. value
    end
  end
  return '{' .. table.concat(members, ',') .. '}'
end

local function end_of_pause(gate) return gate.paused and tonumber(gate.paused['until']) or math.huge end
local function is_paused(gate) return gate.paused and end_of_pause(gate) > now end

local function slot_of(name, job) return name .. '\n' .. job end
local function range_of_slots(name) return '[' .. name .. '\n', '(' .. name .. '\v' end

local function lack_of(gate)  -- in how many seconds its bucket is full; it is, if the clock was set back
  local seconds = (gate.full_at or 0) - now
  return seconds < gate.seconds + 1 and math.min(math.max(seconds, 0), gate.seconds) or 0
end

-- How many more jobs of a queue may be taken now, and when the next may be, if it is only its rate that forbids that.
-- `taken` are those that were taken just now.
local function room_of(name, gate, taken)
  if is_paused(gate) then return 0 end
  local room, first, last = math.huge, range_of_slots(name)
  if gate.at_once then room = math.floor(gate.at_once) - call('ZLEXCOUNT', slots, first, last) - (taken or 0) end
  if not gate.count then return room end
  -- The bucket is full at `full_at`. Until then it lacks a token for each step.
  local step, lacks = gate.seconds / gate.count, lack_of(gate)
  local tokens = math.floor((gate.seconds - lacks) / step + 0.000001)
  return math.min(room, tokens), room >= 1 and tokens < 1 and now + lacks - gate.seconds + step or nil
end
