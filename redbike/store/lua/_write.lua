-- The end of every script that changes something.
-- keys   statuses, timeline, queued, running, queues, wakeup, queue_limits, slots, timers

-- SIZE fails where the commands fail that begin like that.
local SIZE = {
  H = 'HLEN', Z = 'ZCARD', S = 'SCARD', L = 'LLEN', R = 'LLEN', SET = 'STRLEN', SPUBLISH = 'LLEN'
}
local MOST = 4000  -- arguments: unpack() has less than 8,000 values; even, as many are pairs
local function write(reply)
  if #homes > 0 then
    for _, home in ipairs(queue) do if #home.pushed > 0 then push(home) end end
    change('HSET', queued, homes)
    for i = 1, given.expiring and #homes or 0, 2 do
      local instant = given.expiring[homes[i]]
      if instant then
        wake_dispatcher(timers, instant)
        change('ZADD', timers, {instant, 'expires:' .. homes[i]})
      end
    end
  end
  for event, jobs in pairs(marks) do
    local status = string.format('%s:%.0f', event, math.floor(now))
    change('HSET', statuses, each_with(jobs, status))
  end
  if #waits > 0 then
    local soonest = waits[1]
    for i = 3, #waits, 2 do soonest = math.min(soonest, waits[i]) end
    wake_dispatcher(timeline, soonest)
    change('ZADD', timeline, waits)
  end
  for _, each in ipairs(changes) do
    local size = SIZE[each[1]] or SIZE[each[1]:sub(1, 1)]
    if size then call(size, each[2]) end
  end
  for _, each in ipairs(changes) do
    -- Who may not publish changes all else.
    local run, list = each[1] == 'SPUBLISH' and redis.pcall or call, each[3]
    if #list <= MOST then
      run(each[1], each[2], unpack(list))
    else
      for first = 1, #list, MOST do
        run(each[1], each[2], unpack(list, first, math.min(first + MOST - 1, #list)))
      end
    end
  end
  return reply
end
