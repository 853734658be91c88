-- How a script makes its changes.
-- Every script keeps this order: it reads, decides, notes each change, and then `write` makes them all. Before the
-- first one `write` sees to it that none can fail: an error in between would leave half of a change behind.
local changes, marks, homes, tokens = {}, {}, {}, {}
local waits = {}  -- due time and job, of those that go on the timeline
local function change(command, key, arguments) changes[#changes + 1] = {command, key, arguments} end
local function note(list, one, other) list[#list + 1] = one list[#list + 1] = other end
local function mark(job, event)
  local jobs = marks[event] or {}
  jobs[#jobs + 1], marks[event] = job, jobs
end
local function count(reason, job, number)  -- first of all: it fails where somebody has put something else
  table.insert(changes, 1, {'HINCRBY', skipped, {reason .. ':' .. job, number}})
end
local REMEMBERED = 10000  -- requests
local function is_repeated()  -- whether the request was made before; if not, it is remembered
  if call('ZSCORE', requests, given.request) then return true end
  change('ZADD', requests, {stamp(now), given.request})
  if call('ZCARD', requests) >= REMEMBERED then change('ZREMRANGEBYRANK', requests, {0, -REMEMBERED - 1}) end
end
local function hold(job, pause, due) change('HSET', pauses, {job, pause_record_of(pause, due)}) end
local function token(list)
  if not tokens[list] and call('LLEN', list) == 0 then change('LPUSH', list, {'1'}) end
  tokens[list] = true
end
local function alarm(name, instant)  -- a dispatcher looks at the gate of that name then, if not before
  local first = call('ZRANGE', alarms, 0, 0, 'WITHSCORES')[2]
  if not first or instant - first < 0 then token(wakeup) end
  change('ZADD', alarms, {'LT', stamp(instant), 'queue:' .. name})
end
local function wake(home)  -- a worker, if it may take a job of this queue
  if home.awake then return end
  local room, opens = 1, nil
  home.awake = true
  if call('HLEN', gates) > 0 then
    room, opens = room_of(home.name, home.gate or gate_of(home.name), home.taken)
    if is_paused(gate_of('')) then return end
  end
  if room >= 1 then token(home.wake) elseif opens then alarm(home.name, opens) end
end
local function close(home, all)  -- of its entries no more count than may be taken
  home.taken, home.slots = 0, {}
  local room = room_of(home.name, home.gate)
  home.length = is_paused(all) and 0 or math.min(home.length, math.max(0, room))
end
local function read_gates(all)  -- of the queues; {since, ended} of the last pause of each, or of everything if later
  local found = {}
  for _, home in ipairs(queue) do
    home.gate = gate_of(home.name)
    local last, common = home.gate.last or all.last, all.last
    if last and common and (tonumber(last.ended) or 0) < (tonumber(common.ended) or 0) then last = common end
    if last then found[home.name] = {last.since, last.ended} end
  end
  return next(found) and found or nil
end
local function spend(home, number)  -- of what its gate allows; less than nothing is given back
  local gate = home.gate
  if gate.at_once and #home.slots > 0 then change('ZADD', slots, home.slots) end
  if gate.count and number ~= 0 then
    gate.full_at = stamp(now + lack_of(gate) + number * gate.seconds / gate.count)
    change('HSET', gates, {home.name, gate_record_of(gate)})
  end
end
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
  wake(home)
end
local function free_slots(jobs)  -- of queues with a limit: others that wait there may be taken
  if call('ZCARD', slots) == 0 then return end
  for i, record in ipairs(call('HMGET', running, unpack(jobs))) do
    local run = run_of(record)
    local home = run and queue[run.home]
    if run then change('ZREM', slots, {slot_of(run.home, jobs[i])}) end
    if home then home.taken = (home.taken or 0) - 1 end
  end
  for _, home in ipairs(queue) do
    if home.taken and #home.pushed == 0 and call('LLEN', home.list) > 0 then wake(home) end
  end
end
local function land(tag, jobs)  -- they are not in flight any more, and neither is the tag if it has no others
  free_slots(jobs)
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
