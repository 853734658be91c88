-- Put before every script: the keys that all know, and the moves that several share.
local schedules, statuses, timeline, queued, running = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local leases, streaks, skipped, queues, wakeup, withdrawn = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local RUN = '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (.*)$'  -- see keys.py: tag start deadline due failures losses next queue
local TRIED = '^%d+ %d+ %d+ (%d+%.%d+)'  -- of a streak, see keys.py: the due time of the occurrence that is tried again
local BEFORE = 0.000001  -- seconds before an instant, from where a schedule goes on with that
local call = redis.call
local SIZE = {hash = 'HLEN', zset = 'ZCARD', set = 'SCARD', list = 'LLEN', string = 'STRLEN'}
local sizes = {}  -- of the keys whose kind is known, as they were before the first write; true for those that were read
local function refuse(kind, key, problem)
  local found = call('TYPE', key).ok
  if found == kind then error(problem) end  -- it may not be asked
  error({err = 'WRONGTYPE ' .. key .. ' is a ' .. found .. ', not a ' .. kind})
end
local function size(kind, key)  -- an error if it is of another kind
  local size = redis.pcall(SIZE[kind], key)
  if type(size) == 'table' then refuse(kind, key, size) end
  sizes[key] = size
  return size
end
local function expect(kind, ...)
  for i = 1, select('#', ...) do
    local key = select(i, ...)
    if not sizes[key] then size(kind, key) end
  end
end
local function fetch(key, jobs)  -- what a hash has of each of them
  local found = redis.pcall('HMGET', key, unpack(jobs))
  if found.err then refuse('hash', key, found) end
  sizes[key] = sizes[key] or true
  return found
end
local streaking, withdrawing  -- whether any job has a streak of failures or losses, or an entry that waits for nothing
local function check_types()  -- before the first write: an error later would leave half of a change behind
  streaking, withdrawing = size('hash', streaks) > 0, size('set', withdrawn) > 0
  expect('hash', schedules, statuses, queued, running, skipped)
  expect('zset', timeline, leases)
  expect('set', queues)
  expect('list', wakeup)
end
local function stamp(time) return string.format('%.6f', time) end
local second, event_now  -- the time of statuses, and what each event is now
local function clock(given)  -- Redis' own time in seconds, unless the caller has one
  local time = given == '' and call('TIME')
  local now = time and tonumber(time[1]) + tonumber(time[2]) / 1000000 or tonumber(given)
  second, event_now = ':' .. string.format('%.0f', math.floor(now)), {}
  return now
end
local function token(list)  -- of which there is one at most
  if sizes[list] == 0 then call('LPUSH', list, '1') end
  sizes[list] = 1
end
-- In a list of more entries than LONG nothing is looked for. What is withdrawn from it leaves its entry behind, which is
-- the job's again when it is enqueued there again, or is thrown away when its turn comes; a queue has one of a job at most.
local LONG = 100
local function entry(job, name) return job .. '\n' .. name end
local function withdraw(job, queue, name)  -- queue → nowhere
  call('HDEL', queued, job)
  if sizes[queue] <= LONG then return call('LREM', queue, -1, job) end
  call('SADD', withdrawn, entry(job, name))
  withdrawing = true
end
local function without_entry(list)  -- those of a list of jobs that have none in its queue; the others get theirs back
  if not withdrawing then return list end
  local entries, found, rest = {}, {}, {}
  for i, job in ipairs(list) do entries[i] = entry(job, list.name) end
  for i, left in ipairs(call('SMISMEMBER', withdrawn, unpack(entries))) do
    if left == 1 then found[#found + 1] = entries[i] else rest[#rest + 1] = list[i] end
  end
  if #found > 0 then call('SREM', withdrawn, unpack(found)) end
  return rest
end
-- Moves are noted job by job; `write` then needs one command for each kind of them, however many there are.
local marks, pushes, homes, waits, waiting = {}, {}, {}, {}, {}
local function note(list, one, other)
  local size = #list
  list[size + 1], list[size + 2] = one, other
end
local function mark(job, event)
  local status = event_now[event] or event .. second
  event_now[event] = status
  note(marks, job, status)
end
local function enqueue(job, due, name, queue, wake)
  note(homes, job, due .. ' ' .. name)
  local list = pushes[queue] or {name = name, wake = wake}
  list[#list + 1], pushes[queue] = job, list
  mark(job, 'ENQ')
end
local function postpone(job, due)
  note(waits, due, job)
  waiting[job] = true
end
local function land(jobs, keys)  -- they are not in flight any more
  if #jobs == 0 then return end
  call('HDEL', running, unpack(jobs))
  call('ZREM', leases, unpack(jobs))
  call('DEL', unpack(keys))
end
local function write(reply)
  if #marks > 0 then call('HSET', statuses, unpack(marks)) end
  if #homes > 0 then call('HSET', queued, unpack(homes)) end
  for queue, list in pairs(pushes) do
    local pushed = without_entry(list)
    if #pushed > 0 and call('LPUSH', queue, unpack(pushed)) == #pushed then call('SADD', queues, list.name) end
    token(list.wake)
  end
  if #waits > 0 then
    call('ZADD', timeline, unpack(waits))
    if waiting[call('ZRANGE', timeline, 0, 0)[1]] then token(wakeup) end
  end
  return reply
end
