-- What a script is given: its arguments, its queues and the clock. Of jobs that may expire in a
-- queue, `expiring` has when, as a text: `write` sees to it. Before it are the names of the
local given, call, queue = cjson.decode(ARGV[1]), redis.call, {}
-- Those that are concerned, by number and by name.
for number, name in ipairs(given.queues or {}) do
  local at = FIXED + 3 * number
  local list, wake, tombstones = KEYS[at - 2], KEYS[at - 1], KEYS[at]
  queue[number] = {name = name, list = list, wake = wake, tombstones = tombstones, pushed = {}}
  queue[name] = queue[number]
end
local time = given.now or call('TIME')  -- tests alone give one
local now = given.now or time[1] + time[2] / 1000000  -- seconds since the epoch
local function stamp(time) return string.format('%.6f', time) end
local REMEMBERED = 10000  -- requests
