#!lua flags=allow-oom
-- unset: any state → (unknown); a run in flight keeps its record until it ends.
-- KEYS  common, queue, failures, failure times
-- ARGV  job, queue name, further fields of the job in the hash of skips
-- returns {'ok'}, {'missing'}, or {'elsewhere', queue} when the job waits in another queue than the one declared.
check_types()
local queue, failures, failure_times = KEYS[12], KEYS[13], KEYS[14]
local job, name = ARGV[1], ARGV[2]
expect('list', queue); expect('hash', failures); expect('zset', failure_times)
local waiting = call('HGET', queued, job)
local home = waiting and (string.match(waiting, '^%S+ (.*)$') or '')  -- '' for a damaged record
if waiting and home ~= name then return {'elsewhere', home} end
if waiting then withdraw(job, queue, name) end
local record = call('HGET', running, job)
if record and not string.match(record, RUN) then
  call('HDEL', running, job)
  call('ZREM', leases, job)
elseif record then
  -- What was owed or set anew during the run goes with the job.
  local tag, start, deadline, due, failed, losses, _, home = string.match(record, RUN)
  call('HSET', running, job, table.concat({tag, start, deadline, due, failed, losses, '-', home}, ' '))
end
local known = call('HDEL', schedules, job) + call('HDEL', statuses, job)
call('ZREM', timeline, job)
call('HDEL', streaks, job)
call('HDEL', failures, job)
call('ZREM', failure_times, job)
call('HDEL', skipped, unpack(ARGV, 3))
return {known > 0 and 'ok' or 'missing'}
