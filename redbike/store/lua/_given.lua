-- What a script is given: its arguments, its queues and the clock. Before it are the names of the keys of keys.py, of
-- which there are FIXED.
local given, call, queue = cjson.decode(ARGV[1]), redis.call, {}
for number, name in ipairs(given.queues or {}) do  -- those that are concerned, by number and by name
  local at = FIXED + 3 * number
  queue[number] = {name = name, list = KEYS[at - 2], wake = KEYS[at - 1], tombstones = KEYS[at], pushed = {}}
  queue[name] = queue[number]
end
local time = given.now or call('TIME')  -- tests alone give one
local now = given.now or time[1] + time[2] / 1000000  -- seconds since the epoch
local function stamp(time) return string.format('%.6f', time) end
