-- The end of runs, for the tag that has them in flight.
-- keys   running, batches, leases, wakeup, queue_limits, slots, timers, inflight

-- The tag is not in flight any more either, if it has no others. Slots are freed if one has some.
local function leave_flight(tag, jobs, slotted)
  if slotted then
    for _, home in ipairs(make_limiter(true).free_slots(jobs)) do wake(home) end
  end
  local left = without(call('HGET', batches, tag) or '', jobs)
  change('HDEL', running, jobs)
  if #left > 1 then return change('HSET', batches, {tag, left}) end
  change('HDEL', batches, {tag})
  change('ZREM', leases, {tag})
  change('DEL', inflight .. tag, {})
end
