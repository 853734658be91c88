-- What a job follows.
local function list_above(job)  -- it, and those that it follows, directly or not
  local jobs, known, at = {job}, {[job] = true}, 1
  while jobs[at] do
    local record = follows.record_of(jobs[at])
    for _, parent in ipairs(record and record.parents or {}) do
      if not known[parent] then jobs[#jobs + 1], known[parent] = parent, true end
    end
    at = at + 1
  end
  return jobs
end
