-- Lists of jobs: those in flight under a tag, and those that a command is given.
-- Pairs of a field and its value, for commands that take them.
local function each_with(jobs, value)
  local pairs = {}
  for i = 1, #jobs do pairs[2 * i - 1], pairs[2 * i] = jobs[i], value end
  return pairs
end

local function batch_of(jobs) return '\n' .. table.concat(jobs, '\n') .. '\n' end

local function jobs_of(batch)  -- those in flight under a tag, in the order in which they are run
  local jobs = {}
  for job in string.gmatch(batch or '', '[^\n]+') do jobs[#jobs + 1] = job end
  return jobs
end

local function without(batch, jobs)  -- mostly they stand there in a row
  local from, to = batch:find(batch_of(jobs), 1, true)
  if from then return batch:sub(1, from) .. batch:sub(to + 1) end
  for _, job in ipairs(#jobs > 1 and jobs or {}) do batch = without(batch, {job}) end
  return batch
end
