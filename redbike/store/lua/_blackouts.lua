-- The end of the blackout of a job that is gone.
-- keys   blackouts, timers
local function forget_blackout(job)
  if call('HLEN', blackouts) == 0 then return end
  change('HDEL', blackouts, {'job:' .. job})
  change('ZREM', timers, {'blackout:job:' .. job})
end
-- When a pause that ends at `ending` is to end, beside a blackout that is on until `till`, or none;
-- and its own end, if it is lengthened. `own` is that end, if it is lengthened already.
local function end_beside(till, ending, own, of_blackout)
  if of_blackout then return till or math.min(ending, now) end
  local set = own or ending
  if till and till > set then return till, set end
  return own and math.max(own, now) or ending
end
