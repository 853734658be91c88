-- Who is told that a queue with limits lets something through: a worker; a dispatcher, if another
-- shard has the place that a job needs or wants the one that is free, see quota.lua.
-- keys   running, slots
local function make_places(room_of)
  function limiter.wake(home)  -- a worker, if it may take a job of this queue
    local limits = home.limits or limiter.limits_of(home.name)
    local room, opens = room_of(home.name, limits, home.taken)
    if limiter.is_paused(limiter.limits_of('')) then return end
    if room >= 1 then token(home.wake) elseif opens then limiter.timer(home.name, opens) end
    if limits.of and not (limits.wanted or limits.moving or limiter.is_paused(limits)) then
      local waiting = call('LLEN', home.list) + #home.pushed - (home.used or 0)
      if waiting > room then limiter.ask_for_places(home.name, limits) end
    end
  end

  -- In the part of this shard a job has no place, or leaves one that another shard wants.
  function limiter.ask_for_places(name, limits, soon)
    -- While places are divided, no job is taken: so that is to take a small part of the time.
    local took = limits.took or 0
    local pause = soon and took or math.max(limiter.APART, 10 * took)
    local next_time = (limits.moved or 0) + pause
    limiter.divide(name, next_time <= now + pause and math.max(now, next_time) or now)
  end

  -- Some runs of a queue have ended. What others want of its places is asked for again; soon, if
  -- the place is of no use here.
  function limiter.leave_places(name, number)
    local home, limits = queue[name], limiter.limits_of(name)
    if not limits.wanted then return end
    local is_used = home and call('LLEN', home.list) > 0 and room_of(name, limits, -number) >= 1
    limiter.ask_for_places(name, limits, not is_used)
  end

  -- Returns the queues with a limit in which others may be taken then.
  function limiter.free_slots(jobs)
    local freed, left = {}, {}
    for i, record in ipairs(call('HMGET', running, unpack(jobs))) do
      local run = run_of(record)
      local home = run and queue[run.home]
      if run then
        change('ZREM', slots, {limiter.slot_of(run.home, jobs[i])})
        left[run.home] = (left[run.home] or 0) + 1
      end
      if home then home.taken = (home.taken or 0) - 1 end
    end
    for name, number in pairs(left) do limiter.leave_places(name, number) end
    for _, home in ipairs(queue) do
      local waits_on = home.taken and #home.pushed == 0 and call('LLEN', home.list) > 0
      if waits_on then freed[#freed + 1] = home end
    end
    return freed
  end
end
