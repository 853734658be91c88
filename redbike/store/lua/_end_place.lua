-- Where jobs go whose runs have ended.
-- keys   schedules, statuses, timeline, queued, running, retry_states, skipped, failures,
--        failure_times, wakeup, spent, pauses, timers, options, data, outputs, groups, journal,
--        history, following, followers

local stops, spends = {}, {}  -- jobs that are stopped, and when one-offs are forgotten
local forgotten = false  -- whether any job is unset

local function next_state(job, how, due, home, run, pause)  -- by how its run ended
  local place, ends = how.place, due == '' or due:find('^%l')
  if place == 'unset' then
    local more = {unpack(KEYS, #KEYS - 3)}
    forget(job, more)
    if call('HLEN', following) > 0 then forget_backfill(job, more) end
    forgotten = true
    return 'unset'
  elseif place == 'stop' or place == 'die' or ends and place ~= 'stay' then
    local word, after = due:match('^(%l%l%l%l%l)(.*)$')
    -- A one-off that has ended would run again wherever its text is set again.
    if place == 'stop' or word == 'spent' then stops[#stops + 1] = job end
    local had_ended = word == 'again' and call('ZSCORE', spent, job)
    if had_ended and after == 'never' then change('ZREM', spent, {job}) end
    if (had_ended or word == 'spent') and after ~= 'never' then
      note(spends, stamp(now + after), job)
    end
    mark(job, place == 'die' and DIE or STP)
    return 'stopped'
  end
  local at = due:sub(1, 1) == '+' and now + due or tonumber(due)
  local is_due = at and at <= now
  if how.stops then stops[#stops + 1] = job end
  if pause then
    -- A run is held, unless it was taken or asked for since: then somebody wants it all the same.
    local owed = run.next:match(OWED .. '(%d+%.%d+)') or 0
    local asked = leaves(run, ANEW) and 0 or math.max(run.start, owed)
    -- If only the run is of a clock that was ahead, the pause came after it.
    local was_ahead = asked > now + CLOCKS_DIFFER and tonumber(pause.since) <= now + CLOCKS_DIFFER
    if place ~= 'due' or not is_due or was_ahead or asked <= tonumber(pause.since) then
      if at then hold(job, pause, stamp(at)) end
      if at and at >= AWAITED then make_follows().await(job, pause) end
      mark(job, TML)
      return 'held'
    end
  end
  if is_due then
    enqueue(job, how.tried or stamp(at), home)  -- a try keeps its due time
    return 'queue'
  end
  if at then wait_on(at, job) end
  mark(job, TML)
  return 'timeline'
end

local function drop_old_failures(most, new)  -- all but `most`, when there are so many new ones
  -- Behind the limit are as many as are new, those of dead jobs, and more if it was higher before.
  local old, gone = call('ZREVRANGE', failure_times, most, most + new + 99), {}
  if #old == 0 then return end
  local events, texts = call('HMGET', statuses, unpack(old)), call('HMGET', schedules, unpack(old))
  for i, job in ipairs(old) do
    -- Nobody would learn of a dead job whose schedule would go on. That of a one-off is STOP.
    local is_dead = (events[i] or ''):find(DIE, 1, true) == 1 and (texts[i] or STOP) ~= STOP
    if not is_dead then gone[#gone + 1] = job end
  end
  if #gone == 0 then return end
  call('HDEL', failures, unpack(gone))
  call('ZREM', failure_times, unpack(gone))
end
