#!lua flags=allow-oom
-- adopt: what an older version has left → as it is kept now.
-- given  jobs: lost ones that have a lease of their own, as those that were taken together had no common one;
--        queues with buried: for each of them the jobs that are noted as {job, newline, queue} in the set `withdrawn`
-- returns {'ok'}
local held = {}  -- by tag: the jobs that are in flight under it
for _, job in ipairs(given.jobs) do
  local run = run_of(call('HGET', running, job))
  if call('ZSCORE', leases, job) and #jobs_of(call('HGET', batches, job)) == 0 then
    change('ZREM', leases, {job})
    change('HDEL', batches, {job})
    change('DEL', inflight .. job, {})
    if run then
      local jobs, known = held[run.tag] or jobs_of(call('HGET', batches, run.tag)), false
      for _, other in ipairs(jobs) do known = known or other == job end
      if not known then  -- or else the lease is none of an older version
        jobs[#jobs + 1] = job
        held[run.tag] = jobs
      end
    end
  end
end
for tag, jobs in pairs(held) do
  local batch, last = batch_of(jobs), 0
  for _, job in ipairs(jobs) do
    local run = run_of(call('HGET', running, job))
    last = math.max(last, run and run.tag == tag and run.deadline or 0)
  end
  change('HSET', batches, {tag, batch})
  change('ZADD', leases, {'NX', stamp(now), tag})  -- after those of all that are still to be adopted
  local left = math.floor((last - now) * 1000)
  if left > 0 then change('PSETEX', inflight .. tag, {left, batch}) end
end
for number, jobs in ipairs(given.buried) do
  local home = queue[number]
  for _, job in ipairs(jobs) do
    local old = job .. '\n' .. home.name
    if call('SISMEMBER', withdrawn, old) == 1 then
      local _, waits_in = waiting_of(call('HGET', queued, job))
      change('SREM', withdrawn, {old})
      if waits_in ~= home.name then
        change('SADD', home.tombstones, {job})
      elseif #call('LPOS', home.list, job, 'COUNT', 2) == 2 then  -- it was set since: it has its old entry again
        change('LREM', home.list, {1, job})
      end
    end
  end
end
return write({'ok'})
