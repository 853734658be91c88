-- How a script makes its changes.
-- Every script keeps this order: it reads, decides, notes each change, and then `write` makes them all. Before the
-- first one `write` sees to it that none can fail: an error in between would leave half of a change behind.
local changes, marks, homes, tokens = {}, {}, {}, {}
local waits = {}  -- due time and job, of those that go on the timeline
local function change(command, key, arguments) changes[#changes + 1] = {command, key, arguments} end
local function note(list, one, other) list[#list + 1] = one list[#list + 1] = other end
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
local REMEMBERED = 10000  -- requests
local function is_repeated()  -- whether the request was made before; if not, it is remembered
  if call('ZSCORE', requests, given.request) then return true end
  change('ZADD', requests, {stamp(now), given.request})
  if call('ZCARD', requests) >= REMEMBERED then change('ZREMRANGEBYRANK', requests, {0, -REMEMBERED - 1}) end
end
local function hold(job, pause, due) change('HSET', pauses, {job, pause_record_of(pause, due)}) end
local function forget(job)  -- all that is kept of it, wherever it is
  for _, key in ipairs({schedules, statuses, retry_states, failures, pauses, options, data, outputs, groups, history}) do
    change('HDEL', key, {job})
  end
  change('ZREM', failure_times, {job})
  change('ZREM', timers, {'job:' .. job})
  change('ZREM', spent, {job})
  change('HDEL', skipped, skip_fields(job))
  if call('LLEN', journal) > 0 and call('HEXISTS', schedules, job) == 1 then
    change('RPUSH', journal, {'F' .. job})  -- its runs there are not to be archived
  end
end
local function end_one_off(job, after)  -- a one-off has ended: it would run again wherever its text is set again
  change('HSET', schedules, {job, 'STOP'})
  if after ~= 'never' then change('ZADD', spent, {stamp(now + after), job}) end
end
local function token(list)
  if not tokens[list] and call('LLEN', list) == 0 then change('LPUSH', list, {'1'}) end
  tokens[list] = true
end
local function wake_dispatcher(key, instant)  -- if that is before all for which it waits there
  local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
  if not first or instant - first < 0 then token(wakeup) end
end
-- The log of what people change, see keys.py. Programs are not in it, and these functions cost them nothing.
local clip = given.who and function(text, most)  -- to so many bytes, but not in the middle of a character of UTF-8
  return #text > most and text:sub(1, most):gsub('[\192-\255][\128-\191]*$', '') .. '...' or text
end
local log_change = given.who and function(action, jobs, detail)  -- once in a script, and last of all: all that it changed
  local key, ENTRIES, JOBS, LONGEST = KEYS[#KEYS], 10000, 100, 500
  local entry = {stamp(now), given.who, action, clip(detail or given.detail or '', LONGEST)}
  local last = object_of(call('LINDEX', key, 0))
  local ago, joins = now - (tonumber(last[1]) or math.huge), #last > 4 and #jobs > 0 and #last - 4 + #jobs <= JOBS
  for field = 2, 4 do joins = joins and last[field] == entry[field] end
  for _, text in ipairs(last) do joins = joins and type(text) == 'string' end
  joins = joins and ago >= 0 and ago < 1  -- what is one command with a pattern should not fill the list
  if joins then entry = last end
  for _, job in ipairs(jobs) do entry[#entry + 1] = job end
  -- First of all: a user of the server without the right to do this changes nothing.
  table.insert(changes, 1, {'LTRIM', key, {0, ENTRIES - (joins and 1 or 2)}})
  if joins then change('LSET', key, {0, cjson.encode(entry)}) else change('LPUSH', key, {cjson.encode(entry)}) end
  local news = {unpack(entry, 1, 4)}  -- for those who listen, without what it has joined
  for _, job in ipairs(jobs) do news[#news + 1] = job end
  change('SPUBLISH', key, {cjson.encode(news)})
end
