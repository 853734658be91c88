#!lua flags=allow-oom
-- repair: wherever damage has left a job → where it belongs, unless it is not as it was found any more.
-- KEYS  common, in-flight key, failures, failure times, then queue and wake of each queue
-- ARGV  now, job; how it was found: schedule, status, timeline score, queued record, running record, in-flight tag; how it
--       is to be ('' = not at all, '=' = as it is): event of its status, due time on the timeline, queued record, running
--       record, lease, in-flight tag with its end in milliseconds, streak, failure; how many queues; for each of them its
--       name, how often the job was found there, how often it is to be, and whether one of these entries was noted to wait
--       for nothing, and whether it is to be ('1' or '0'); then fields of the job in the hash of skips, each with how many more they are to be ('' = not
--       at all)
-- returns {'ok'}, or {'stale'} when anything that was found has changed, as after the first of two requests.
check_types()
local inflight, failures, failure_times = KEYS[12], KEYS[13], KEYS[14]
local _, job, count = clock(ARGV[1]), ARGV[2], tonumber(ARGV[17])
local event, due, home, record, lease, hold, streak, failure = unpack(ARGV, 9, 16)
expect('hash', failures); expect('zset', failure_times)
expect('list', unpack(KEYS, 15))

local tag = redis.pcall('GET', inflight)
if type(tag) == 'table' then
  local kind = call('TYPE', inflight).ok
  if kind == 'string' then error(tag) end  -- it may not be read
  tag = '(' .. kind .. ')'
end
local found = {call('HGET', schedules, job), call('HGET', statuses, job), call('ZSCORE', timeline, job),
               call('HGET', queued, job), call('HGET', running, job), tag}
for i = 1, 6 do
  if (found[i] or '') ~= ARGV[2 + i] then return {'stale'} end
end
for i = 1, count do
  if #call('LPOS', KEYS[13 + 2 * i], job, 'COUNT', 0) ~= tonumber(ARGV[14 + 5 * i]) then return {'stale'} end
  if call('SISMEMBER', withdrawn, entry(job, ARGV[13 + 5 * i])) ~= tonumber(ARGV[16 + 5 * i]) then return {'stale'} end
end

local function put(wanted, set, remove)
  if wanted == '' then remove() elseif wanted ~= '=' then set() end
end
put(event, function() mark(job, event) end, function() call('HDEL', statuses, job) end)
put(due, function() postpone(job, due) end, function() call('ZREM', timeline, job) end)
put(home, function() note(homes, job, home) end, function() call('HDEL', queued, job) end)
put(record, function() call('HSET', running, job, record) end, function() call('HDEL', running, job) end)
put(lease, function() call('ZADD', leases, lease, job) end, function() call('ZREM', leases, job) end)
put(hold, function()
  local own, finish = string.match(hold, '^(%S+) (%d+)$')
  call('SET', inflight, own, 'PXAT', finish)
end, function() call('DEL', inflight) end)
put(streak, error, function() call('HDEL', streaks, job) end)
put(failure, error, function() call('HDEL', failures, job); call('ZREM', failure_times, job) end)
for i = 1, count do
  local name, found, wanted, _, noted = unpack(ARGV, 13 + 5 * i, 17 + 5 * i)
  local queue, surplus = KEYS[13 + 2 * i], found - wanted
  if noted == '0' then call('SREM', withdrawn, entry(job, name)) end
  if surplus > 0 then call('LREM', queue, surplus, job) end  -- from the left: the oldest keeps its turn
  if surplus < 0 then pushes[queue] = {job, name = name, wake = KEYS[14 + 2 * i]} end
end
for i = 18 + 5 * count, #ARGV, 2 do
  put(ARGV[i + 1], function() call('HINCRBY', skipped, ARGV[i], ARGV[i + 1]) end, function() call('HDEL', skipped, ARGV[i]) end)
end
return write({'ok'})
