#!lua flags=allow-oom
-- transfer: queue → another queue, for jobs that nobody takes from the first one; or the timer that
--           asks to look for such jobs is removed, if it has come.
-- keys   queued, timers, _write
-- given  queues: that in which they wait, and those to which they go; jobs, none of them twice, in
--        the order of their entries; homes: the queue of each; or timer: its member
-- returns {'ok', how many were moved, and how many entries of the list are gone with them}: a job
--         that does not wait there any more is passed over; {'ok', 1 if the timer had come}
if given.timer then
  local at = tonumber(call('ZSCORE', timers, given.timer) or nil)
  local has_come = at and at <= tonumber(stamp(now))
  if has_come then change('ZREM', timers, {given.timer}) end
  return write({'ok', has_come and 1 or 0})
end
local jobs, moved, trimmed = given.jobs, 0, 0
local from, first = queue[1], call('LRANGE', queue[1].list, -#jobs, -1)
for i, record in ipairs(call('HMGET', queued, unpack(jobs))) do
  local due, home = waiting_of(record)
  if home == from.name then
    local job, to = jobs[i], queue[given.homes[i]]
    wait_in(to, job, due)
    to.pushed[#to.pushed + 1], moved = job, moved + 1
    -- No worker throws the entries away.
    if first[#first - trimmed] == job then
      trimmed = trimmed + 1
    else
      change('SADD', from.tombstones, {job})
    end
  end
end
if trimmed > 0 then change('LTRIM', from.list, {0, -trimmed - 1}) end
return write({'ok', moved, trimmed})
