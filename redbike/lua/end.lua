#!lua flags=allow-oom
-- end: in flight → timeline, queue, stopped or (unknown): however a run ended.
-- KEYS  common, in-flight key, queue, wake, failures, failure times
-- ARGV  now, job, tag, why ('' = the worker is done, 'overrun', 'lost'), schedule that the next place was computed from,
--       place ('next' = due as computed from that schedule, 'due' = due whatever the schedule, 'stop', 'die' or 'unset'),
--       due ('' = none, '+n' = in n seconds, or a time), streak ('' = none),
--       failure as JSON ('' = none), failures kept at most, occurrences skipped as missed, as running, queue name
-- returns {'ok', place}, {'stale'} (the run is not the tag's any more), {'overrun'} (too late: the caller must say so),
--         {'alive'} (not lost, or not overrun), or {'changed', schedule} (compute the place again, from this schedule).
check_types()
local inflight, queue, wake, failures, failure_times = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local now, job, tag, why, expected, place = clock(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local due, streak, failure, most, missed, overlapped, name = unpack(ARGV, 7)
expect('string', inflight); expect('list', queue, wake); expect('hash', failures); expect('zset', failure_times)
local record = redis.call('HGET', running, job) or ''
local own, _, deadline, _, _, _, next = string.match(record, RUN)
if own ~= tag then return {'stale'} end
local over = now >= tonumber(deadline) or redis.call('GET', inflight) ~= tag
if why == '' and over then return {'overrun'} end
if why == 'overrun' and not over then return {'alive'} end
if why == 'lost' and tonumber(redis.call('ZSCORE', leases, job) or 0) > now then return {'alive'} end

-- What was set during the run counts, not how the run ended.
local schedule = redis.call('HGET', schedules, job)
local owed = string.match(next, '^due:(.*)$')
local postponed = redis.call('ZSCORE', timeline, job)
if schedule and not owed and not postponed and (schedule ~= expected or (next ~= '-' and place ~= 'next')) then
  return {'changed', schedule}
end

redis.call('HDEL', running, job)
redis.call('ZREM', leases, job)
redis.call('DEL', inflight)
if not schedule then return {'ok', 'unset'} end
if place == 'unset' and next == '-' then
  redis.call('HDEL', schedules, job)
  redis.call('HDEL', statuses, job)
  redis.call('HDEL', streaks, job)
  redis.call('HDEL', skipped, 'missed:' .. job, 'running:' .. job, 'withdrawn:' .. job)
  redis.call('HDEL', failures, job)
  redis.call('ZREM', failure_times, job)
  return {'ok', 'unset'}
end
if failure ~= '' then
  redis.call('HSET', failures, job, failure)
  redis.call('ZADD', failure_times, stamp(now), job)
  local surplus = redis.call('ZCARD', failure_times) - tonumber(most)
  if surplus > 0 then
    for i, old in ipairs(redis.call('ZPOPMIN', failure_times, surplus)) do
      if i % 2 == 1 then redis.call('HDEL', failures, old) end
    end
  end
end
if missed ~= '0' then redis.call('HINCRBY', skipped, 'missed:' .. job, missed) end
if overlapped ~= '0' then redis.call('HINCRBY', skipped, 'running:' .. job, overlapped) end
if streak == '' or owed or postponed then redis.call('HDEL', streaks, job) else redis.call('HSET', streaks, job, streak) end

if owed then
  redis.call('ZREM', timeline, job)
  enqueue(job, tonumber(owed), name, queue, wake, now)
  return {'ok', 'queue'}
elseif postponed then
  mark(job, 'TML', now)
  return {'ok', 'timeline'}
elseif place == 'stop' then
  redis.call('HSET', schedules, job, 'STOP')
  mark(job, 'STP', now)
  return {'ok', 'stopped'}
elseif place == 'die' then
  mark(job, 'DIE', now)
  return {'ok', 'stopped'}
elseif due == '' then
  mark(job, 'STP', now)
  return {'ok', 'stopped'}
end
local at = string.sub(due, 1, 1) == '+' and now + tonumber(due) or tonumber(due)
if at <= now then
  enqueue(job, at, name, queue, wake, now)
  return {'ok', 'queue'}
end
postpone(job, at)
mark(job, 'TML', now)
return {'ok', 'timeline'}
