-- The end of the blackout of a job that is gone.
-- keys   blackouts, timers
local function forget_blackout(job)
  if call('HLEN', blackouts) == 0 then return end
  change('HDEL', blackouts, {'job:' .. job})
  change('ZREM', timers, {'blackout:job:' .. job})
end
