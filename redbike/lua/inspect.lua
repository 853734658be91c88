#!lua flags=no-writes
-- inspect: all that is kept of one job, at one instant; changes nothing.
-- KEYS  common, in-flight key, failures, then the lists in which the job is looked for
-- ARGV  job, how many lists, the names of their queues, fields of the job in the hash of skips
-- returns {'ok', schedule, status, timeline score, queued record, running record, in-flight tag, lease, milliseconds left to
--          the tag, streak, {skips}, failure, now, {entries in each list}, {1 for each in which one waits for nothing}};
--          what is not there is ''.
local inflight, failures = KEYS[12], KEYS[13]
local job, count = ARGV[1], tonumber(ARGV[2])
local skips, entries, left = call('HMGET', skipped, unpack(ARGV, 3 + count)), {}, {}
for i, count in ipairs(skips) do skips[i] = count or '0' end
for i = 1, count do
  entries[i] = #call('LPOS', KEYS[13 + i], job, 'COUNT', 0)
  left[i] = call('SISMEMBER', withdrawn, entry(job, ARGV[2 + i]))
end
local tag = redis.pcall('GET', inflight) or ''
if type(tag) == 'table' then
  local kind = call('TYPE', inflight).ok
  if kind == 'string' then error(tag) end  -- it may not be read
  tag = '(' .. kind .. ')'  -- which is no tag
end
return {'ok', call('HGET', schedules, job) or '', call('HGET', statuses, job) or '',
        call('ZSCORE', timeline, job) or '', call('HGET', queued, job) or '', call('HGET', running, job) or '', tag,
        call('ZSCORE', leases, job) or '', call('PTTL', inflight), call('HGET', streaks, job) or '',
        skips, call('HGET', failures, job) or '', stamp(clock('')), entries, left}
