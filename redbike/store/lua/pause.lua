#!lua flags=allow-oom
-- pause: timeline or queue → held, for each job; a run in flight goes on, and the occurrence after
--        it is held then. A pause replaces that of a blackout that ends earlier, and that of a host
--        that is gone.
-- keys   schedules, timeline, queued, pauses, timers, _write
-- given  jobs, none of which is there twice; ends: when their pauses end by themselves, or none;
--        since: when they began, if that is not now; note: JSON of who and why; queues: their own
-- returns {'ok', a word for each}: 'held', 'paused' (there was nothing to hold), 'unchanged' (it is
--         paused already), 'missing', or 'elsewhere QUEUE' when the job waits in another queue than
--         those declared
local jobs, reply, ending, lasting, done = given.jobs, {'ok'}, {}, {}, {}
local entries, scores = call('HMGET', queued, unpack(jobs)), call('ZMSCORE', timeline, unpack(jobs))
local known, before = call('HMGET', schedules, unpack(jobs)), call('HMGET', pauses, unpack(jobs))
local pause = {
  since = stamp(given.since or now), till = given.ends and stamp(given.ends) or '-',
  note = given.note
}

local function gives_way(found)
  if is_of_gone(found) then return not is_of_gone(pause) end
  local till = tonumber(found.till)
  return till and is_of_blackout(found) and (not given.ends or given.ends > till)
end

local function place(job, entry, score, found)
  local _, home = waiting_of(entry)
  if found and not gives_way(found) then return 'unchanged' end
  if not found and home and not queue[home] then return 'elsewhere ' .. home end
  local held = found and found.due
  if found then
    hold(job, {since = found.since, till = pause.till, note = pause.note}, held)
    if not given.ends then lasting[#lasting + 1] = 'job:' .. job end
  else
    held = hold_waiting(job, pause, entry, score)
  end
  if given.ends then note(ending, pause.till, 'job:' .. job) end
  done[#done + 1] = job
  return held == '-' and 'paused' or 'held'
end

for i, job in ipairs(jobs) do
  reply[i + 1] = known[i] and place(job, entries[i], scores[i], pause_of(before[i])) or 'missing'
end
if #ending > 0 then
  wake_dispatcher(timers, given.ends)
  change('ZADD', timers, ending)
end
if #lasting > 0 then change('ZREM', timers, lasting) end
if given.who and #done > 0 then log_change('pause', done) end
return write(reply)
