-- Where jobs go whose runs have ended.
-- keys   schedules, statuses, timeline, running, retry_states, skipped, failures, failure_times,
--        wakeup, spent, pauses, timers, options, data, outputs, groups, journal, history,
--        following, followers

local stops, spends = {}, {}  -- jobs that are stopped, and when one-offs are forgotten
local forgotten = false  -- whether any job is unset

local function next_state(job, how, due, home, run, pause)  -- by how its run ended
  local place, ends = how.place, due == '' or due:sub(1, 5) == 'spent'
  if place == 'unset' then
    forget(job)
    forgotten = true
    return 'unset'
  elseif place == 'stop' or place == 'die' or ends and place ~= 'stay' then
    local after = due:match('^spent(.*)$')
    -- A one-off that has ended would run again wherever its text is set again.
    if place == 'stop' or after then stops[#stops + 1] = job end
    if after and after ~= 'never' then note(spends, stamp(now + after), job) end
    mark(job, place == 'die' and DIE or STP)
    return 'stopped'
  end
  local at = due:sub(1, 1) == '+' and now + due or tonumber(due)
  local is_due = at and at <= now
  if pause then
    -- A run is held, unless it was taken or asked for since: then somebody wants it all the same.
    local owed = run.next:match(OWED .. '(%d+%.%d+)') or 0
    local asked = leaves(run, ANEW) and 0 or math.max(run.start, owed)
    if place ~= 'due' or not is_due or asked <= tonumber(pause.since) then
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

local TRIMMED = 1000  -- oldest failures that are dropped, at most
local function drop_old_failures(most)  -- all but so many
  local old = call('ZREVRANGE', failure_times, most, most + TRIMMED - 1)
  if #old > 0 then call('HDEL', failures, unpack(old)) call('ZREM', failure_times, unpack(old)) end
end
