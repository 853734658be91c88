-- Moves into a queue and out of flight, and the end of every script that changes something: `write`.
local function wake(home)  -- a worker, if it may take a job of this queue
  if home.awake then return end
  home.awake = true
  local limiter = make_limiter()
  if limiter then limiter.wake(home) else token(home.wake) end
end
local function wait_in(home, job, due) note(homes, job, due .. ' ' .. home.name) end
local function enqueue(job, due, home)
  wait_in(home, job, due)
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
local function land(tag, jobs, slotted)  -- they are not in flight any more, and neither is the tag if it has no others
  if slotted then
    for _, home in ipairs(make_limiter(true).free_slots(jobs)) do wake(home) end
  end
  local left = without(call('HGET', batches, tag) or '', jobs)
  change('HDEL', running, jobs)
  if #left > 1 then return change('HSET', batches, {tag, left}) end
  change('HDEL', batches, {tag})
  change('ZREM', leases, {tag})
  change('DEL', inflight .. tag, {})
end
local SIZE = {H = 'HLEN', Z = 'ZCARD', S = 'SCARD', L = 'LLEN', R = 'LLEN', SET = 'STRLEN', SPUBLISH = 'LLEN'}  -- fails where they fail
local function write(reply)
  for _, home in ipairs(queue) do if #home.pushed > 0 then push(home) end end
  if #homes > 0 then change('HSET', queued, homes) end
  for event, jobs in pairs(marks) do
    change('HSET', statuses, each_with(jobs, string.format('%s:%.0f', event, math.floor(now))))
  end
  if #waits > 0 then
    local soonest = waits[1]
    for i = 3, #waits, 2 do soonest = math.min(soonest, waits[i]) end
    wake_dispatcher(timeline, soonest)
    change('ZADD', timeline, waits)
  end
  for _, each in ipairs(changes) do
    if SIZE[each[1]:sub(1, 1)] then call(SIZE[each[1]] or SIZE[each[1]:sub(1, 1)], each[2]) end
  end
  for _, each in ipairs(changes) do
    -- Who may not publish changes all else.
    (each[1] == 'SPUBLISH' and redis.pcall or call)(each[1], each[2], unpack(each[3]))
  end
  return reply
end
