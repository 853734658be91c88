#!lua flags=no-writes
-- inspect: all that is kept of one job, at one instant; changes nothing.
-- KEYS  common, in-flight key, failures
-- ARGV  job, fields of the job in the hash of skips
-- returns {'ok', schedule, status, timeline score, queued record, running record, lease, in-flight tag, its milliseconds left,
--          streak, {skips}, failure}; what is not there is ''.
local inflight, failures = KEYS[11], KEYS[12]
local job = ARGV[1]
local skips = redis.call('HMGET', skipped, unpack(ARGV, 2))
for i, count in ipairs(skips) do skips[i] = count or '0' end
return {'ok', redis.call('HGET', schedules, job) or '', redis.call('HGET', statuses, job) or '',
        redis.call('ZSCORE', timeline, job) or '', redis.call('HGET', queued, job) or '',
        redis.call('HGET', running, job) or '', redis.call('ZSCORE', leases, job) or '',
        redis.call('GET', inflight) or '', redis.call('PTTL', inflight), redis.call('HGET', streaks, job) or '',
        skips, redis.call('HGET', failures, job) or ''}
