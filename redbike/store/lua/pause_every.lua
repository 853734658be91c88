#!lua flags=allow-oom
-- pause_every: blackouts are set, or ended. A dispatcher begins each when its timer comes. A pause
--              that is there stays.
-- keys   schedules, blackouts, timers, _write
-- given  names: queue:NAME, queue: for everything, or of jobs job:ID; jobs: the ids of these;
--        record: what all of them are to have, none to end them; at: when they begin;
--        mends: whether their timers may be wrong
-- returns {'ok', a word for each}: 'set', 'replaced' (it had one), 'missing'; or without a record
--         'ended', 'unchanged' (it had none)
local names, reply, done, begins = given.names, {'ok'}, {}, {}
local changed = false
local before, jobs = call('HMGET', blackouts, unpack(names)), given.jobs or {}
local known = #jobs > 0 and call('HMGET', schedules, unpack(jobs)) or {}

for i, name in ipairs(names) do
  local timer = 'blackout:' .. name
  if given.record and jobs[i] and not known[i] then
    reply[i + 1] = 'missing'
  elseif before[i] and before[i] == given.record and not given.mends
         and call('ZSCORE', timers, timer) then
    reply[i + 1] = 'set'  -- by the same request
  elseif given.record then
    reply[i + 1] = before[i] and 'replaced' or 'set'
    change('HSET', blackouts, {name, given.record})
    note(begins, stamp(given.at), timer)
    done[#done + 1], changed = jobs[i], true
  else
    reply[i + 1] = before[i] and 'ended' or 'unchanged'
    change('HDEL', blackouts, {name})
    change('ZREM', timers, {timer})
    if before[i] then done[#done + 1], changed = jobs[i], true end
  end
end
if #begins > 0 then
  wake_dispatcher(timers, given.at)
  change('ZADD', timers, begins)
end
if given.who and changed then
  log_change(given.record and 'pause --every' or 'resume --every', done)
end
return write(reply)
