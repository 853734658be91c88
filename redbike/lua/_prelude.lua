-- Put before every script: the keys that all know, and the moves that several share.
local schedules, statuses, timeline, queued, running = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local leases, streaks, skipped, queues, wakeup = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local function expect(kind, ...)
  for _, key in ipairs({...}) do
    local found = redis.call('TYPE', key).ok
    if found ~= kind and found ~= 'none' then error({err = 'WRONGTYPE ' .. key .. ' is a ' .. found .. ', not a ' .. kind}) end
  end
end
local function check_types()  -- before the first write: an error later would leave half of a change behind
  expect('hash', schedules, statuses, queued, running, streaks, skipped)
  expect('zset', timeline, leases)
  expect('set', queues)
  expect('list', wakeup)
end
local function clock(given)  -- Redis' own time in seconds, unless the caller has one
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return tonumber(time[1]) + tonumber(time[2]) / 1000000
end
local function stamp(time) return string.format('%.6f', time) end
local function mark(job, event, now) redis.call('HSET', statuses, job, event .. ':' .. string.format('%.0f', math.floor(now))) end
local function token(list) if redis.call('LLEN', list) == 0 then redis.call('LPUSH', list, '1') end end
local function enqueue(job, due, name, queue, wake, now)
  redis.call('HSET', queued, job, stamp(due) .. ' ' .. name)
  if redis.call('LPUSH', queue, job) == 1 then redis.call('SADD', queues, name) end
  token(wake)
  mark(job, 'ENQ', now)
end
local function postpone(job, due)
  redis.call('ZADD', timeline, stamp(due), job)
  if redis.call('ZRANGE', timeline, 0, 0)[1] == job then token(wakeup) end
end
local RUN = '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (.*)$'  -- see keys.py: tag start deadline due failures losses next queue
