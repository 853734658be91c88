#!lua flags=allow-oom
-- release: in flight → queue, in front, for runs of one tag that have not begun, as if they had
--          never been taken. If a job was paused since it was taken, its occurrence is held.
-- keys   schedules, running, batches, leases, slots, pauses, inflight, _write
-- given  tag; jobs, in the order in which they were to run; queues: their own
-- returns {'ok', a word for each, with spaces between}: 'queue', 'held', 'unset' (the job was unset
--         meanwhile), 'stale' (the run is not the tag's any more), 'kept' (the job was set or
--         cancelled meanwhile, which takes effect at the end of the run: the caller must end it)
local tag, jobs, words, gone = given.tag, given.jobs, {}, {}
local records, known = call('HMGET', running, unpack(jobs)), call('HMGET', schedules, unpack(jobs))
local paused = fetch_any(pauses, jobs)
local limiter = make_limiter()
for i = #jobs, 1, -1 do
  local job, run = jobs[i], run_of(records[i])
  if not run or run.tag ~= tag then
    words[i] = 'stale'
  else
    local pause = paused[i] and pause_of(paused[i])
    local start, since = tonumber(run.start), pause and tonumber(pause.since)
    -- If only the run is of a clock that was ahead, the pause came after it.
    local was_ahead = pause and start > now + CLOCKS_DIFFER and since <= now + CLOCKS_DIFFER
    local held = pause and (was_ahead or start <= since)
    words[i] = not known[i] and 'unset' or left_of(run) ~= NOTHING and 'kept'
      or held and 'held' or 'queue'
    if words[i] ~= 'kept' then gone[#gone + 1] = job end
    if words[i] == 'held' then
      hold(job, pause, run.due)
      mark(job, ENQ)
    end
    if words[i] == 'queue' then
      note(homes, job, run.due .. ' ' .. run.home)
      mark(job, ENQ)
      change('RPUSH', queue[run.home].list, {job})
      queue[run.home].used = (queue[run.home].used or 0) + 1
    end
  end
end
for _, home in ipairs(queue) do
  if home.used then
    -- By somebody, and not by us.
    local deleted = call('SCARD', home.tombstones) > 0 and call('LLEN', home.list) == 0
    if deleted then change('DEL', home.tombstones, {}) end
    if limiter then limiter.give_back(home, home.used) end
  end
end
if #gone > 0 then leave_flight(tag, gone, call('EXISTS', slots) == 1) end
for _, home in ipairs(queue) do if home.used then wake(home) end end
return write({'ok', table.concat(words, ' ')})
