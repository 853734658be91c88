#!lua flags=no-writes
-- survey: what a dispatcher has to do; changes nothing.
-- KEYS  common, control, dispatched
-- ARGV  now, how many due jobs at most, how many of the first to leave out, how many lost runs at most, how many jobs
--       of those that are due next
-- returns {'ok', now, control, dispatched until, next lease, JSON of {job, due, ...} that are due ('' = none), the same
--          of those that are due next, {job, record, schedule, streak, ...} whose worker is not heard of any more}
local control, dispatched = KEYS[12], KEYS[13]
local now, most_due, passed_over, most_lost, most_coming = clock(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local due = call('ZRANGEBYSCORE', timeline, '-inf', stamp(now), 'WITHSCORES', 'LIMIT', passed_over, most_due)
local lost = call('ZRANGEBYSCORE', leases, '-inf', stamp(now), 'LIMIT', 0, most_lost)
local coming = call('ZRANGEBYSCORE', timeline, '(' .. stamp(now), '+inf', 'WITHSCORES', 'LIMIT', 0, most_coming)
local lease = call('ZRANGEBYSCORE', leases, '(' .. stamp(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
local runs = {}
for _, job in ipairs(lost) do
  runs[#runs + 1] = job
  runs[#runs + 1] = call('HGET', running, job) or ''
  runs[#runs + 1] = call('HGET', schedules, job) or ''
  runs[#runs + 1] = call('HGET', streaks, job) or ''
end
return {'ok', stamp(now), call('GET', control) or '', call('ZSCORE', dispatched, 'until') or '',
        lease[2] or '', #due > 0 and cjson.encode(due) or '', #coming > 0 and cjson.encode(coming) or '', runs}
