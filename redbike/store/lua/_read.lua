-- What several scripts read of jobs.
-- keys   running, batches, options
local function fetch_any(key, jobs)  -- HMGET of a hash that mostly is empty: then of none
  return call('HLEN', key) > 0 and call('HMGET', key, unpack(jobs)) or {}
end

-- Whether a job is not as it was found any more, in those hashes of which these are the fields.
local function has_changed(job, found, hashes)
  for field, key in pairs(hashes) do
    if (call('HGET', key, job) or nil) ~= found[field] then return true end
  end
  return false
end

-- For how long a one-off is kept that has ended: 'never' for good.
local function kept_for(job, setting)
  return option_of(call('HGET', options, job), 'forget-after') or setting
end

-- The jobs in flight under a tag, of those that it lists and of these, and their runs.
local function runs_of(tag, jobs)
  local own, runs = {}, {}
  for _, some in ipairs({jobs_of(call('HGET', batches, tag)), jobs}) do
    for _, job in ipairs(some) do
      local run = run_of(call('HGET', running, job))
      if run and run.tag == tag and not runs[job] then own[#own + 1], runs[job] = job, run end
    end
  end
  return own, runs
end
