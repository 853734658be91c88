#!lua flags=allow-oom
-- heartbeat: in flight → in flight; renews the lease of the worker's runs, until their deadlines.
-- keys   running, leases, _write
-- given  jobs and tags, one of each for each run; lease: seconds without a heartbeat until the
--        worker counts as dead; grace: seconds after a deadline
-- returns {'ok', a word for each run}: 'ok', 'cancelled' (it goes on, but is to end), 'overrun'
--         (its deadline has passed), 'stale' (it is another tag's by now)
local words, last = {'ok'}, {}
for i, record in ipairs(call('HMGET', running, unpack(given.jobs))) do
  local run, tag = run_of(record), given.tags[i]
  local deadline = run and run.tag == tag and tonumber(run.deadline)
  local lives = deadline and now < deadline
  words[i + 1] = not deadline and 'stale' or not lives and 'overrun'
    or run.cancelled and 'cancelled' or 'ok'
  if lives then last[tag] = math.max(last[tag] or 0, deadline) end
end
for tag, deadline in pairs(last) do
  change('ZADD', leases, {'XX', stamp(math.min(now + given.lease, deadline + given.grace)), tag})
end
return write(words)
