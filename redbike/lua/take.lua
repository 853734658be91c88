#!lua flags=allow-oom
-- take: queue → in flight, the oldest job of the first queue that has one.
-- KEYS  common, control, base of the in-flight keys, then queue and wake of each queue. Which job it will be is known
--       only here, so its in-flight key is the declared base and its id: the same slot of a cluster, by the prefix.
-- ARGV  now, tag, control as the worker found it when it started, lease in seconds, grace after the deadline,
--       repeated ('1' = this tag may have been served already), then name and timeout of each queue
-- returns {'ok', job, due, start, deadline, failures, losses, schedule, queue name}, {'empty'}, {'halted'}, or {'again'}
--         when there was so much to throw away that the rest is left to a further call.
check_types()
local control, base = KEYS[11], KEYS[12]
local now, tag, seen, lease, grace = clock(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
expect('string', control); expect('list', unpack(KEYS, 13))
if ARGV[6] == '1' then
  local runs = redis.call('HGETALL', running)
  for i = 1, #runs, 2 do
    local own, start, deadline, due, failures, losses, _, home = string.match(runs[i + 1], RUN)
    if own == tag then
      local schedule = redis.call('HGET', schedules, runs[i]) or ''
      return {'ok', runs[i], due, start, deadline, failures, losses, schedule, home}
    end
  end
end
local halt = redis.call('GET', control)
if halt and halt ~= seen then return {'halted'} end

local function claim(job, due, name, timeout)
  local streak = redis.call('HGET', streaks, job) or '0 0'
  local failures, losses = string.match(streak, '^(%d+) (%d+)$')
  local deadline = now + timeout
  redis.call('HDEL', queued, job)
  redis.call('HSET', running, job,
    table.concat({tag, stamp(now), stamp(deadline), due, failures or '0', losses or '0', '-', name}, ' '))
  redis.call('ZADD', leases, stamp(math.min(now + lease, deadline + grace)), job)
  redis.call('SET', base .. job, tag, 'PX', string.format('%.0f', math.max(1, math.floor(timeout * 1000))))
  mark(job, 'WRK', now)
  return {'ok', job, due, stamp(now), stamp(deadline), failures or '0', losses or '0', redis.call('HGET', schedules, job), name}
end

local thrown = 0
for i = 13, #KEYS, 2 do
  local queue, wake = KEYS[i], KEYS[i + 1]
  local name, timeout = ARGV[i - 6], tonumber(ARGV[i - 5])
  local job = redis.call('RPOP', queue)
  while job do
    -- Entries without a record were pushed by an older version or by hand: they run if the job is known and idle.
    local waiting = redis.call('HGET', queued, job)
    local due = waiting and string.match(waiting, '^(%S+) ') or stamp(now)
    if redis.call('HEXISTS', schedules, job) == 1 and redis.call('HEXISTS', running, job) == 0 then
      if not waiting then redis.call('ZREM', timeline, job) end
      if redis.call('LLEN', queue) > 0 then token(wake) end
      return claim(job, due, name, timeout)
    end
    redis.call('HDEL', queued, job)
    thrown = thrown + 1
    if thrown == 1000 then return {'again'} end
    job = redis.call('RPOP', queue)
  end
end
return {'empty'}
