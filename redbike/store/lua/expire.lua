#!lua flags=allow-oom
-- expire: queue → timeline, held or stopped, without the occurrence that waits: it has not begun in
--         time.
-- keys   schedules, queued, retry_states, skipped, spent, pauses, timers, options, data,
--        following, followers, _write
-- given  job, whose timer has come; and with a second call: found: its schedule, queued,
--        retry_state and pause (records), those that exist; at: when it expires, if that is later,
--        false for never; due: when the schedule goes on, missing for never; spent: if that is the
--        end of a one-off, the setting forget-after; retry_state: its new record, if it has one;
--        skipped: {reason: how many occurrences}; queues: the queue in which it waits
-- returns {'gone'}: it does not wait any more, or its timer has not come; without `found` {'waits',
--         JSON of `found`, options, at: its timer, now}; {'stale'}: it has changed since it was
--         found; {'ok', 'later', 'never', 'timeline', 'held' or 'stopped'}
local job, found, timer = given.job, given.found, 'expires:' .. given.job
local at, record = call('ZSCORE', timers, timer), call('HGET', queued, job) or nil
if not at or at - now > 0 then return {'gone'} end
if not record then
  change('ZREM', timers, {timer})
  return write({'gone'})
end
local hashes = {
  schedule = schedules, queued = queued, retry_state = retry_states, pause = pauses
}
if not found then
  local state = {}
  for field, key in pairs(hashes) do state[field] = call('HGET', key, job) or nil end
  local own = call('HGET', options, job) or nil
  return {'waits', cjson.encode({found = state, options = own, at = at, now = stamp(now)})}
end
if has_changed(job, found, hashes) then return {'stale'} end
if given.at then
  change('ZADD', timers, {stamp(given.at), timer})
  return write({'ok', 'later'})
end
change('ZREM', timers, {timer})
if given.at == false then return write({'ok', 'never'}) end

-- If jobs expire in their order, a queue without workers keeps no entries.
if call('LINDEX', queue[1].list, -1) == job then
  change('HDEL', queued, {job})
  change('RPOP', queue[1].list, {1})
else
  leave_queue(queue[1], job)
end
local kept = given.retry_state
change(kept and 'HSET' or 'HDEL', retry_states, {job, kept})
for reason, number in pairs(given.skipped) do count(reason, job, number) end
drop_member(job)
local pause, place = pause_of(found.pause), 'stopped'
if pause then
  place = 'held'
  hold(job, pause, given.due and stamp(given.due) or '-')
elseif given.due then
  place = 'timeline'
  wait_on(given.due, job)
end
if given.due and given.due >= AWAITED then make_follows().await(job, pause) end
if follows then follows.settle() end
if not given.due and given.spent then end_one_off(job, kept_for(job, given.spent)) end
mark(job, given.due and TML or STP)
return write({'ok', place})
