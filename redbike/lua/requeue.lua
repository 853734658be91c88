#!lua
-- requeue: any state of a known job → queue, for one run now; its failure is forgotten. In flight: the run is owed.
--          What has failed, or waits to be tried again, is run for its own due time, and the schedule goes on after it.
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
local known, failure = pcall(cjson.decode, call('HGET', failures, job) or '')
failure = known and type(failure) == 'table' and failure or {}
local failed = tonumber(failure.due)
failed = failed and failed >= 0 and failed < 1e12 and failed
local attempt = tonumber(failure.attempt)
attempt = attempt and attempt >= 1 and attempt < 1e9 and math.floor(attempt) or 1
call('HDEL', failures, job)
call('ZREM', failure_times, job)
local tried, occurrence, after = string.match(call('HGET', streaks, job) or '', '^%d+ %d+ (%d+) (%S+) (%S+)')
local record = call('HGET', running, job)
local due = tonumber(call('ZSCORE', timeline, job) or nil)
call('ZREM', timeline, job)
if record and string.match(record, RUN) then  -- a damaged one is none
  local tag, start, deadline, due, failed, losses, _, home = string.match(record, RUN)
  local next = 'due:' .. stamp(now)
  call('HSET', running, job, table.concat({tag, start, deadline, due, failed, losses, next, home}, ' '))
elseif call('HEXISTS', queued, job) == 0 then
  local goes_on = due and stamp(due - BEFORE) or '-'
  if string.match(occurrence or '', '^%d+%.%d+$') then
    due = tonumber(occurrence)
  elseif failed then
    due, tried, occurrence, after = failed, attempt, stamp(failed), goes_on
  elseif due and due < now then
    tried = nil  -- what is overdue is what is run, and what came due since it was is counted then
  else
    due, tried, occurrence, after = now, due and 0, '-', goes_on
  end
  enqueue(job, stamp(due), name, queue, wake)
end
if tried then
  call('HSET', streaks, job, table.concat({0, 0, tried, occurrence, after}, ' '))
else
  call('HDEL', streaks, job)
end
return write({'ok'})
