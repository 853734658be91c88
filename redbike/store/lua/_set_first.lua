-- The short way of `set`, in its plain text: of one job that is new or has stopped, and that a
-- program sets without anything besides. All else goes on below, with nothing changed. It repeats
-- what the functions below do, because to make them takes the server as long again.
-- keys   schedules, statuses, timeline, queued, running, retry_states, queues, wakeup, spent,
--        requests, queue_limits, pauses, options, following
do
  local job, others = given.jobs[1], given.jobs[2] or given.who or given.expiring
  local besides = job.options ~= nil or job.data ~= nil or job.group ~= nil or job.known
    or job.follows or job.paused or job.skipped or job.mode == 'keep_schedule'
  local at_once, home = job.due == 'now', queue[job.queue]
  local rare = {pauses, options, following, retry_states, queue_limits, home.tombstones}
  local may = not (others or besides) and (at_once or job.due and job.due > now)
    and (call('EXISTS', unpack(rare)) == 0
      or call('HLEN', queue_limits) + call('SCARD', home.tombstones) == 0
      and call('HEXISTS', pauses, job.id) + call('HEXISTS', options, job.id)
        + call('HEXISTS', following, job.id) + call('HEXISTS', retry_states, job.id) == 0)
  local before = may and call('HGET', schedules, job.id)
  if may and (before or STOP) == STOP
    and not call('HGET', queued, job.id) and not call('HGET', running, job.id)
    and not ((before or not at_once) and call('ZSCORE', timeline, job.id))
    and not call('ZSCORE', requests, given.request) then
    -- Each key that is written below has been read, except the first one: only that can fail.
    local spends, many = before and call('ZCARD', spent) > 0, call('ZCARD', requests) >= REMEMBERED
    local length = at_once and call('LLEN', home.list)
    if length == 0 then call('SCARD', queues) end
    local first = not at_once and call('ZRANGE', timeline, 0, 0, 'WITHSCORES')[2]
    local wake = at_once and home.wake or not (first and first - job.due <= 0) and wakeup
    local wakes = wake and call('LLEN', wake) == 0
    local event = at_once and ENQ or TML
    call('HSET', statuses, job.id, string.format('%s:%.0f', event, math.floor(now)))
    call('HSET', schedules, job.id, job.schedule)
    call('ZADD', requests, stamp(now), given.request)
    if many then call('ZREMRANGEBYRANK', requests, 0, -REMEMBERED - 1) end
    if spends then call('ZREM', spent, job.id) end
    if at_once then
      call('HSET', queued, job.id, stamp(now) .. ' ' .. home.name)
      call('LPUSH', home.list, job.id)
      if length == 0 then call('SADD', queues, home.name) end
    else
      call('ZADD', timeline, stamp(job.due), job.id)
    end
    if wakes then call('LPUSH', wake, '1') end
    return {'ok'}
  end
end
