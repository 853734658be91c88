-- A job that is set to follow others.
-- keys   statuses, timeline, retry_states, skipped, wakeup, pauses, following, followers, _backfill

-- Returns how a job would wait for itself if it had these parents, from it to it; nil if it would
-- not.
local function find_cycle(job, parents)
  local visited, follows = {}, make_follows()
  local function climb(from, path)
    for _, parent in ipairs(from) do
      if parent == job then return path .. '\n' .. job end
      local record = not visited[parent] and follows.record_of(parent)
      visited[parent] = true
      local found = record and climb(record.parents, path .. '\n' .. parent)
      if found then return found end
    end
  end
  return climb(parents, job)
end

local function set_parents(job)
  local follows = make_follows()
  if job.follows then follows.begin(job.id, job.follows) else follows.leave(job.id) end
end
