#!lua
-- set: (unknown), stopped, timeline or queue → timeline, queue or stopped; a run in flight goes on.
-- KEYS  common, queue, wake, requests
-- ARGV  now ('' = Redis' clock), job, schedule, due ('' = none, 'now'), once ('1' = owed if it comes due while the job
--       is in flight), queue name, request tag
-- returns {'ok'}, or {'elsewhere', queue} when the job waits in another queue than the one declared.
check_types()
local queue, wake, requests = KEYS[11], KEYS[12], KEYS[13]
local now, job, schedule, due, once, name, request = clock(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
expect('list', queue, wake); expect('zset', requests)
local waiting = redis.call('HGET', queued, job)
local home = waiting and string.match(waiting, '^%S+ (.*)$')
if waiting and home ~= name then return {'elsewhere', home or ''} end
local same = redis.call('HGET', schedules, job) == schedule
local record = redis.call('HGET', running, job)

-- A repeated request must not start a second run. The newest 10,000 requests are remembered.
if redis.call('ZADD', requests, 'NX', stamp(now), request) == 0 then return {'ok'} end
redis.call('ZREMRANGEBYRANK', requests, 0, -10001)
if due == 'now' then due = now else due = tonumber(due) end
redis.call('HSET', schedules, job, schedule)
redis.call('HDEL', streaks, job)

if record then
  local tag, start, deadline, was_due, failures, losses, next, home = string.match(record, RUN)
  local owed = string.sub(next, 1, 4) == 'due:'
  if due and due <= now and once == '1' then
    next = 'due:' .. stamp(due)
    redis.call('ZREM', timeline, job)
  elseif not same or not due then
    next = (due and due > now and once == '1') and 'once' or 'set'
    redis.call('ZREM', timeline, job)
    if due and due > now then postpone(job, due) end
    if owed then redis.call('HINCRBY', skipped, 'withdrawn:' .. job, 1) end
  end
  redis.call('HSET', running, job, table.concat({tag, start, deadline, was_due, failures, losses, next, home}, ' '))
  if redis.call('HEXISTS', statuses, job) == 0 then mark(job, 'WRK', now) end  -- it was unset during the run
  return {'ok'}
end

local stays = waiting and due and (due <= now or same)
if waiting and not stays then
  redis.call('LREM', queue, -1, job)
  redis.call('HDEL', queued, job)
  redis.call('HINCRBY', skipped, 'withdrawn:' .. job, 1)
end
if stays then return {'ok'} end
redis.call('ZREM', timeline, job)
if not due then
  mark(job, 'STP', now)
elseif due <= now then
  enqueue(job, due, name, queue, wake, now)
else
  postpone(job, due)
  mark(job, 'TML', now)
end
return {'ok'}
