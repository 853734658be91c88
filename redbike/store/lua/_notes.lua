-- How a script makes its changes.
-- Every script keeps this order: it reads, decides, notes each change, and then `write` makes them
-- all. Before the first one `write` sees to it that none can fail: an error in between would leave
-- half of a change behind.
-- keys   skipped, wakeup, requests, pauses
local changes, marks, homes, woken = {}, {}, {}, {}
local waits = {}  -- due time and job, of those that go on the timeline
local function change(command, key, arguments)
  changes[#changes + 1] = {command, key, arguments}
end
local function note(list, one, other)
  list[#list + 1] = one
  list[#list + 1] = other
end
local function mark(job, event)
  local jobs = marks[event] or {}
  jobs[#jobs + 1], marks[event] = job, jobs
end
local totals = {}  -- of all jobs, by reason
local function count(reason, job, number)
  -- First of all: it fails where somebody has put something else.
  table.insert(changes, 1, {'HINCRBY', skipped, {reason .. ':' .. job, number}})
  local total = totals[reason]
  if not total then
    total = {reason .. ':', tonumber(call('HGET', skipped, reason .. ':')) or 0}
    totals[reason] = total
    change('HSET', skipped, total)
  end
  total[2] = string.format('%.0f', total[2] + number)
end
local function is_repeated()  -- whether the request was made before; if not, it is remembered
  if call('ZSCORE', requests, given.request) then return true end
  change('ZADD', requests, {stamp(now), given.request})
  if call('ZCARD', requests) >= REMEMBERED then
    change('ZREMRANGEBYRANK', requests, {0, -REMEMBERED - 1})
  end
end
local function hold(job, pause, due) change('HSET', pauses, {job, pause_record_of(pause, due)}) end
local function token(list)
  if not woken[list] and call('LLEN', list) == 0 then change('LPUSH', list, {'1'}) end
  woken[list] = true
end
local function wake_dispatcher(key, instant)  -- if that is before all for which it waits there
  local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
  if not first or instant - first < 0 then token(wakeup) end
end
