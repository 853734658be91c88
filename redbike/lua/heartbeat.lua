#!lua flags=allow-oom
-- heartbeat: in flight → in flight, the worker's sign of life for each of its runs, until their deadline.
-- KEYS  common
-- ARGV  now, lease in seconds, grace after the deadline, then job and tag of each run
-- returns {'ok', a word for each run}: 'ok', 'overrun' (the deadline has passed) or 'stale' (the run is no longer this worker's).
check_types()
local now, lease, grace = clock(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local words = {'ok'}
for i = 4, #ARGV, 2 do
  local job, tag = ARGV[i], ARGV[i + 1]
  local own, _, deadline = string.match(call('HGET', running, job) or '', RUN)
  if own ~= tag then
    words[#words + 1] = 'stale'
  elseif now >= tonumber(deadline) then
    words[#words + 1] = 'overrun'
  else
    call('ZADD', leases, 'XX', stamp(math.min(now + lease, tonumber(deadline) + grace)), job)
    words[#words + 1] = 'ok'
  end
end
return words
