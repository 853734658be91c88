#!lua flags=allow-oom
-- unset: any state → (unknown); a run in flight keeps its record until it ends.
-- KEYS  common, queue, failures, failure times
-- ARGV  job, queue name, further fields of the job in the hash of skips
-- returns {'ok'}, {'missing'}, or {'elsewhere', queue} when the job waits in another queue than the one declared.
check_types()
local queue, failures, failure_times = KEYS[11], KEYS[12], KEYS[13]
local job, name = ARGV[1], ARGV[2]
expect('list', queue); expect('hash', failures); expect('zset', failure_times)
local waiting = redis.call('HGET', queued, job)
local home = waiting and string.match(waiting, '^%S+ (.*)$')
if waiting and home ~= name then return {'elsewhere', home or ''} end
if waiting then
  redis.call('LREM', queue, -1, job)
  redis.call('HDEL', queued, job)
end
local record = redis.call('HGET', running, job)
if record then
  -- What was owed or set anew during the run goes with the job.
  local tag, start, deadline, due, failed, losses, _, home = string.match(record, RUN)
  redis.call('HSET', running, job, table.concat({tag, start, deadline, due, failed, losses, '-', home}, ' '))
end
local known = redis.call('HDEL', schedules, job) + redis.call('HDEL', statuses, job)
redis.call('ZREM', timeline, job)
redis.call('HDEL', streaks, job)
redis.call('HDEL', failures, job)
redis.call('ZREM', failure_times, job)
redis.call('HDEL', skipped, unpack(ARGV, 3))
return {known > 0 and 'ok' or 'missing'}
