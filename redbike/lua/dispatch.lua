#!lua flags=allow-oom
-- dispatch: timeline → queue, for a batch of jobs that are due; a job in flight is not enqueued twice.
-- KEYS  common, then queue and wake of each queue
-- ARGV  now, how many queues, their names, then for each job: id, due time, number of its queue (0 = it has none)
-- returns {'ok', how many were moved}; a job that is no longer due then is passed over, so repeating moves nothing twice.
check_types()
local now, count = clock(ARGV[1]), tonumber(ARGV[2])
expect('list', unpack(KEYS, 11))
local moved = 0
for i = 3 + count, #ARGV, 3 do
  local job, due, number = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local score = tonumber(redis.call('ZSCORE', timeline, job) or nil)
  if score == due and due <= now then
    local record = redis.call('HGET', running, job)
    redis.call('ZREM', timeline, job)
    if record then
      local tag, start, deadline, was_due, failures, losses, next, home = string.match(record, RUN)
      if next == 'once' then
        next = 'due:' .. stamp(due)
        redis.call('HSET', running, job, table.concat({tag, start, deadline, was_due, failures, losses, next, home}, ' '))
      else
        redis.call('HINCRBY', skipped, 'running:' .. job, 1)
      end
    elseif redis.call('HEXISTS', schedules, job) == 0 then
      redis.call('HDEL', statuses, job)
    elseif number == 0 then
      mark(job, 'BAD', now)
    elseif redis.call('HEXISTS', queued, job) == 0 then
      enqueue(job, due, ARGV[2 + number], KEYS[9 + 2 * number], KEYS[10 + 2 * number], now)
      moved = moved + 1
    end
  end
end
return {'ok', moved}
