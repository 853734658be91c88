#!lua flags=allow-oom
-- cancel: queue, timeline, held → timeline, held or stopped, without the occurrence that waits; in
--         flight: the run is marked.
-- keys   schedules, timeline, queued, running, retry_states, skipped, spent, requests, pauses,
--        options, saved, following, followers, _backfill, _write
-- given  job; request: its tag; found: its schedule, timeline (score), queued and pause (records)
--        and the tag of its run, where they are there; due: when the schedule goes on, missing for
--        never; spent: if that is the end of a one-off, the setting forget-after; skipped: {reason:
--        occurrences that are passed over besides}; queues: that in which it waits; retry_state:
--        what stays of it
-- returns {'ok', 'cancelled' or 'unchanged': its run was cancelled before}, {'stale'}: it is not as
--         it was found any more
local job, found, run = given.job, given.found, run_of(call('HGET', running, given.job))
if is_repeated() then return {'ok', 'cancelled'} end  -- it must not cancel the next occurrence too
local hashes = {schedule = schedules, queued = queued, pause = pauses}
if has_changed(job, found, hashes) or (run or {}).tag ~= found.tag then return {'stale'} end
if (call('ZSCORE', timeline, job) or nil) ~= found.timeline then return {'stale'} end
if run and run.cancelled then return {'ok', 'unchanged'} end

local function drop()  -- its occurrence
  if found.queued then leave_queue(queue[1], job) end
  local tried = tonumber(retry_state_of(call('HGET', retry_states, job)).due)
  local kept = given.retry_state
  change(kept and 'HSET' or 'HDEL', retry_states, {job, kept})
  change('HDEL', saved, {job})
  for reason, number in pairs(given.skipped) do count(reason, job, number) end
  local pause = pause_of(found.pause)
  drop_member(job, tried)  -- what is to be tried again has run
  if pause then hold(job, pause, given.due and stamp(given.due) or '-') end
  if given.due then
    if not pause then wait_on(given.due, job) end
    if given.due >= AWAITED then make_follows().await(job, pause) end
    return mark(job, TML)
  end
  change('ZREM', timeline, {job})
  if given.spent then end_one_off(job, kept_for(job, given.spent)) end
  mark(job, STP)
end

if run then
  run.cancelled = true
  change('HSET', running, {job, record_of(run)})
else
  drop()
end
count(CANCELLED, job, 1)
if not run and call('ZCARD', followers) > 0 then
  local kept = retry_state_of(call('HGET', retry_states, job))
  make_follows().note_dropped(job)
  -- It has run before, as it was to be tried again: so it ends like a run that is cancelled.
  if kept.tries ~= '0' and kept.due ~= '-' then follows.note_end(job, 'any', tonumber(kept.due)) end
end
if follows then follows.settle() end
if given.who then log_change('cancel', {job}) end
return write({'ok', 'cancelled'})
