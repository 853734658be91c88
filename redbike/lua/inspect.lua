#!lua flags=no-writes
-- inspect: all that is kept of one job, at one instant; changes nothing.
-- KEYS  common, in-flight key, failures
-- ARGV  job, fields of the job in the hash of skips
-- returns {'ok', schedule, status, timeline score, queued record, running record, lease, in-flight tag, its milliseconds left,
--          streak, {skips}, failure}; what is not there is ''.
local inflight, failures = KEYS[11], KEYS[12]
local job = ARGV[1]
local skips = call('HMGET', skipped, unpack(ARGV, 2))
for i, count in ipairs(skips) do skips[i] = count or '0' end
return {'ok', call('HGET', schedules, job) or '', call('HGET', statuses, job) or '',
        call('ZSCORE', timeline, job) or '', call('HGET', queued, job) or '',
        call('HGET', running, job) or '', call('ZSCORE', leases, job) or '',
        call('GET', inflight) or '', call('PTTL', inflight), call('HGET', streaks, job) or '',
        skips, call('HGET', failures, job) or ''}
