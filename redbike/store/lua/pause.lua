#!lua flags=allow-oom
-- pause: timeline or queue → held, for each job; a run in flight goes on, and what follows it is
--        held then.
-- keys   schedules, timeline, queued, pauses, timers, _write
-- given  jobs, none of which is there twice; ends: when their pauses end by themselves, or none;
--        since: when they began, if that is not now; note: JSON of who and why; queues: their own
-- returns {'ok', a word for each}: 'held', 'paused' (there was nothing to hold), 'unchanged' (it is
--         paused already), 'missing', or 'elsewhere QUEUE' when the job waits in another queue than
--         those declared
local jobs, reply, ending, done = given.jobs, {'ok'}, {}, {}
local entries, scores = call('HMGET', queued, unpack(jobs)), call('ZMSCORE', timeline, unpack(jobs))
local known, before = call('HMGET', schedules, unpack(jobs)), call('HMGET', pauses, unpack(jobs))
local pause = {
  since = stamp(given.since or now), till = given.ends and stamp(given.ends) or '-',
  note = given.note
}

for i, job in ipairs(jobs) do
  local due, home = waiting_of(entries[i])
  if not known[i] then
    reply[i + 1] = 'missing'
  elseif pause_of(before[i]) then
    reply[i + 1] = 'unchanged'
  elseif home and not queue[home] then
    reply[i + 1] = 'elsewhere ' .. home
  else
    if home then leave_queue(queue[home], job) end
    if scores[i] then change('ZREM', timeline, {job}) end
    local held = due or scores[i] and stamp(tonumber(scores[i])) or '-'
    hold(job, pause, held)
    if given.ends then note(ending, pause.till, 'job:' .. job) end
    reply[i + 1] = held == '-' and 'paused' or 'held'
    done[#done + 1] = job
  end
end
if #ending > 0 then
  wake_dispatcher(timers, given.ends)
  change('ZADD', timers, ending)
end
if given.who and #done > 0 then log_change('pause', done) end
return write(reply)
