-- A job that is set to follow others.
-- keys   following
-- Returns how a job would wait for itself if it had these parents, from it to it; nil if it would
-- not.
local function find_cycle(job, parents)
  local visited = {}
  local function climb(from, path)
    for _, parent in ipairs(from) do
      if parent == job then return path .. '\n' .. job end
      local record = not visited[parent] and following_of(parent)
      visited[parent] = true
      local found = record and climb(record.parents, path .. '\n' .. parent)
      if found then return found end
    end
  end
  return climb(parents, job)
end
