#!lua
-- run: any state of a known job → queue, for one run now; its failure is forgotten. In flight: the
--      run is owed. A paused job runs too, and stays paused; if it holds an occurrence that is due,
--      this one runs. An occurrence that has failed, or waits to be tried again, runs with its own
--      due time, and the schedule goes on after it. AFTER in the retry state marks a run that was
--      asked for: it is never missed.
-- keys   schedules, timeline, queued, running, retry_states, skipped, failures, failure_times,
--        requests, pauses, options, timers, _write
-- given  job; request: its tag; queues: the one in which it is to wait, and, if it waits in a queue
--        that no worker works, that queue: it moves from there; expires: the setting, unless it is
--        0
-- returns {'ok', 'queued' or 'owed' (in flight), since when}, {'ok', 'missing'}, or {'elsewhere',
--         queue} when the job waits in another queue than those declared
local job = given.job
local run = run_of(call('HGET', running, job))
local reply = {'ok', run and 'owed' or 'queued', stamp(now)}
if call('HEXISTS', schedules, job) == 0 then return {'ok', 'missing'} end
-- It must not start a second run.
if is_repeated() then reply[3] = call('ZSCORE', requests, given.request) return reply end
local waits_for, home = waiting_of(call('HGET', queued, job))
if home and not queue[home] then return {'elsewhere', home} end

local BEFORE = 0.000001  -- seconds before an instant, from where a schedule goes on with that
-- Returns the due time of its last failure, and how often that was tried; nil if there is none.
local function failed()
  local failure = object_of(call('HGET', failures, job))
  local due, attempt = tonumber(failure.due), tonumber(failure.attempt)
  if not due or due < 0 or due >= 1e12 then return nil end
  return due, attempt and attempt >= 1 and attempt < 1e9 and math.floor(attempt) or 1
end
-- Returns the seconds in which its run must begin, 0 for no limit.
local function expiry()
  return tonumber(option_of(call('HGET', options, job), 'expires') or given.expires) or 0
end

local pause = pause_of(call('HGET', pauses, job))
local held = pause and tonumber(pause.due)
local kept = retry_state_of(call('HGET', retry_states, job))
kept.failures, kept.losses, kept.alone, kept.failed = '0', '0', nil, nil
if run then
  if leaves(run, ANEW) then count(WITHDRAWN, job, 1) end
  run.next = OWED .. stamp(now)
  change('HSET', running, {job, record_of(run)})
elseif call('HEXISTS', queued, job) == 0 then
  local due, moment = held or tonumber(call('ZSCORE', timeline, job) or nil), nil
  local failed_for, attempt = failed()
  local goes_on = due and stamp(due - BEFORE) or '-'
  if kept.due ~= '-' then
    moment = kept.due
  elseif failed_for then
    moment = stamp(failed_for)
    kept.tries, kept.due, kept.after = attempt, moment, goes_on
  elseif due and due < now then
    -- The overdue occurrence runs; those that came due after it are counted then.
    moment, kept = stamp(due), held and kept or retry_state_of()
    if kept.after == '-' then kept.after = moment end
  else
    moment, kept.tries, kept.after = stamp(now), '0', due and goes_on or stamp(now)
  end
  local expires = expiry()
  if expires > 0 and kept.tries == '0' then
    -- The mark that the expiry counts from this order, not from the due time.
    if kept.after == '-' then kept.after = moment end
    given.expiring = {[job] = stamp(now + expires)}
  end
  enqueue(job, moment, queue[1])
else
  local due, expires = tonumber(waits_for), expiry()
  if due and expires > 0 and kept.tries == '0' then
    -- The expiry counts from this order, too.
    if kept.after == '-' then kept.after = stamp(due) end
    change('ZADD', timers, {stamp(now + expires), 'expires:' .. job})
  end
  if home and home ~= queue[1].name then
    change('SADD', queue[home].tombstones, {job})
    enqueue(job, waits_for, queue[1])
  end
end
if held then hold(job, pause, '-') end
change('ZREM', timeline, {job})
change('HDEL', failures, {job})
change('ZREM', failure_times, {job})
if kept.tries .. kept.due .. kept.after == '0--' then
  change('HDEL', retry_states, {job})
else
  change('HSET', retry_states, {job, retry_record_of(kept)})
end
if given.who then log_change('run', {job}) end
return write(reply)
