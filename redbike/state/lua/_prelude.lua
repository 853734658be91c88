-- Put before every script, behind the names of the keys of keys.py, of which there are FIXED, and behind the records.
-- Every script keeps this order: it reads, decides, notes each change, and then `write` makes them all. Before the
-- first one `write` sees to it that none can fail: an error in between would leave half of a change behind.
local given, call, queue = cjson.decode(ARGV[1]), redis.call, {}
for number, name in ipairs(given.queues or {}) do  -- those that are concerned, by number and by name
  local at = FIXED + 3 * number
  queue[number] = {name = name, list = KEYS[at - 2], wake = KEYS[at - 1], tombstones = KEYS[at], pushed = {}}
  queue[name] = queue[number]
end
local time = given.now or call('TIME')  -- tests alone give one
local now = given.now or time[1] + time[2] / 1000000  -- seconds since the epoch
local function stamp(time) return string.format('%.6f', time) end
local changes, marks, homes, waits = {}, {}, {}, {}  -- waits: due time and job, of those that go on the timeline
local function change(command, key, arguments) changes[#changes + 1] = {command, key, arguments} end
local function note(list, one, other) list[#list + 1] = one list[#list + 1] = other end
local function mark(job, event)
  local jobs = marks[event] or {}
  jobs[#jobs + 1], marks[event] = job, jobs
end
local function count(reason, job, number)  -- first of all: it fails where somebody has put something else
  table.insert(changes, 1, {'HINCRBY', skipped, {reason .. ':' .. job, number}})
end
local function hold(job, pause, due) change('HSET', pauses, {job, pause_record_of(pause, due)}) end
local function token(list) if call('LLEN', list) == 0 then change('LPUSH', list, {'1'}) end end
local function enqueue(job, due, home)
  note(homes, job, due .. ' ' .. home.name)
  home.pushed[#home.pushed + 1] = job
  mark(job, ENQ)
end
local function push(home)  -- a job has its old entry again, if that is there as a tombstone
  local length, buried, jobs, back = call('LLEN', home.list), call('SCARD', home.tombstones) > 0, home.pushed, {}
  if length == 0 then change('SADD', queues, {home.name}) end
  if buried and length == 0 then
    change('DEL', home.tombstones, {})  -- somebody has deleted the list
  elseif buried then
    local dead, fresh = call('SMISMEMBER', home.tombstones, unpack(jobs)), {}
    for i, job in ipairs(jobs) do table.insert(dead[i] == 1 and back or fresh, job) end
    jobs = fresh
  end
  if #back > 0 then change('SREM', home.tombstones, back) end
  if #jobs > 0 then change('LPUSH', home.list, jobs) end
  token(home.wake)
end
local function land(tag, jobs)  -- they are not in flight any more, and neither is the tag if it has no others
  local left = without(call('HGET', batches, tag) or '', jobs)
  change('HDEL', running, jobs)
  if #left > 1 then return change('HSET', batches, {tag, left}) end
  change('HDEL', batches, {tag})
  change('ZREM', leases, {tag})
  change('DEL', inflight .. tag, {})
end
local SIZE = {H = 'HLEN', Z = 'ZCARD', S = 'SCARD', L = 'LLEN', R = 'LLEN', SET = 'STRLEN'}  -- fails where they fail
local function write(reply)
  for _, home in ipairs(queue) do if #home.pushed > 0 then push(home) end end
  if #homes > 0 then change('HSET', queued, homes) end
  for event, jobs in pairs(marks) do
    change('HSET', statuses, each_with(jobs, string.format('%s:%.0f', event, math.floor(now))))
  end
  if #waits > 0 then
    local first, soonest = call('ZRANGE', timeline, 0, 0, 'WITHSCORES')[2], waits[1]
    for i = 3, #waits, 2 do soonest = math.min(soonest, waits[i]) end
    if not first or soonest - first < 0 then token(wakeup) end
    change('ZADD', timeline, waits)
  end
  for _, each in ipairs(changes) do
    if SIZE[each[1]:sub(1, 1)] then call(SIZE[each[1]] or SIZE[each[1]:sub(1, 1)], each[2]) end
  end
  for _, each in ipairs(changes) do call(each[1], each[2], unpack(each[3])) end
  return reply
end
