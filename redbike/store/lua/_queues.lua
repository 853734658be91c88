-- Places in queues.
-- keys   queued, running, queues, wakeup, queue_limits, slots, timers
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
-- Nothing is looked for in a list: the entry of the job stays there, as a tombstone.
local function leave_queue(home, job)
  change('HDEL', queued, {job})
  change('SADD', home.tombstones, {job})
end
local function push(home)  -- a job has its old entry again, if that is there as a tombstone
  local length, buried = call('LLEN', home.list), call('SCARD', home.tombstones) > 0
  local jobs, back = home.pushed, {}
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
