-- The end of a job. `more`: the keys -alerts, -blackouts, -saved and -progress.
-- keys   schedules, statuses, retry_states, skipped, failures, failure_times, spent, pauses,
--        timers, options, data, outputs, groups, journal, history
local function forget(job, more)  -- all that is kept of it, wherever it is
  local hashes = {
    schedules, statuses, retry_states, failures, pauses, options, data, outputs, groups, history,
    more[3], more[4]
  }
  for _, key in ipairs(hashes) do change('HDEL', key, {job}) end
  change('ZREM', failure_times, {job})
  change('ZREM', timers, {'job:' .. job, 'expires:' .. job, 'blackout:job:' .. job})
  change('ZREM', spent, {job})
  change('HDEL', skipped, skip_fields(job))
  change('HDEL', more[1], {'job:' .. job, 'missed:' .. job})
  change('HDEL', more[2], {'job:' .. job})
  if call('LLEN', journal) > 0 and call('HEXISTS', schedules, job) == 1 then
    change('RPUSH', journal, {'F' .. job})  -- its runs there are not to be archived
  end
end
