#!lua
-- requeue: any state of a known job → queue, for one run now; its failure is forgotten. In flight: the run is owed.
-- KEYS  common, queue, wake, requests, failures, failure times
-- ARGV  now, job, queue name, request tag
-- returns {'ok'} or {'missing'}
check_types()
local queue, wake, requests, failures, failure_times = KEYS[12], KEYS[13], KEYS[14], KEYS[15], KEYS[16]
local now, job, name, request = clock(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
expect('list', queue, wake); expect('zset', requests, failure_times); expect('hash', failures)
if call('HEXISTS', schedules, job) == 0 then return {'missing'} end
if call('ZADD', requests, 'NX', stamp(now), request) == 0 then return {'ok'} end
if sizes[requests] >= 10000 then call('ZREMRANGEBYRANK', requests, 0, -10001) end
call('HDEL', failures, job)
call('ZREM', failure_times, job)
call('HDEL', streaks, job)
local record = call('HGET', running, job)
local due = tonumber(call('ZSCORE', timeline, job) or nil)
call('ZREM', timeline, job)
if record and string.match(record, RUN) then  -- a damaged one is none
  local tag, start, deadline, due, failed, losses, _, home = string.match(record, RUN)
  local next = 'due:' .. stamp(now)
  call('HSET', running, job, table.concat({tag, start, deadline, due, failed, losses, next, home}, ' '))
elseif call('HEXISTS', queued, job) == 0 then
  -- What is overdue is not forgotten: it is what is run, and what came due since it was is counted then.
  enqueue(job, stamp(due and due < now and due or now), name, queue, wake)
end
return write({'ok'})
