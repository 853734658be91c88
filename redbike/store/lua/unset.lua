#!lua flags=allow-oom
-- unset: any state → (unknown); a run in flight keeps its record until it ends.
-- keys   schedules, statuses, timeline, queued, running, saved, progress, pauses, options, data,
--        groups, following, followers, alerts, blackouts, _stop_backfill, _write
-- given  job; queues: its own; group: whose row it must be, if that matters
-- returns {'ok', its followers, with newlines between}, also where a row is gone already,
--         {'missing'}, {'foreign'} when it is no row of that group, or {'elsewhere', queue} when
--         the job waits in another queue than the one declared
local job, group = given.job, given.group
local known = call('HEXISTS', schedules, job) + call('HEXISTS', statuses, job)
if group and known > 0 and group_of(call('HGET', groups, job)) ~= group then return {'foreign'} end
local _, home = waiting_of(call('HGET', queued, job))
if home and home ~= queue[1].name then return {'elsewhere', home} end
local record = call('HGET', running, job)
local run = run_of(record)
if run then
  run.next = NOTHING  -- what was owed or set anew during the run goes with the job
  change('HSET', running, {job, record_of(run)})
elseif record then
  change('HDEL', running, {job})
end
if home then leave_queue(queue[1], job) else change('HDEL', queued, {job}) end
change('ZREM', timeline, {job})
if call('ZCARD', followers) > 0 then
  local above = make_groups() and list_above(job)
  follows.leave(job)
  follows.note_dropped(job)
  -- Its pause does not hold a backfill of these any more.
  for i = 2, #above do make_backfills().fill(above[i], job) end
  follows.part(job, 'dropped')
  follows.settle()
end
local more = {alerts, blackouts, saved, progress}
forget(job, more)
if call('HLEN', following) > 0 then forget_backfill(job, more) end
if given.who and known > 0 then
  local own = describe_options(call('HGET', options, job))
  local text = call('HGET', schedules, job) or ''
  if own then text = text .. '; ' .. own end
  if call('HEXISTS', data, job) == 1 then text = text .. '; data removed' end
  if call('HEXISTS', pauses, job) == 1 then text = text .. '; it was paused' end
  log_change('unset', {job}, text)
end
local left = follows and table.concat(follows.list_of(job), '\n')
return write({(known > 0 or group) and 'ok' or 'missing', left})
