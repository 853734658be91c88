-- Of which group a job is one, and how many are left of the one that it follows.
-- keys   options, followers

-- Returns its name, and whether both links are there: the job has it, and it counts the job. One
-- alone is damage. Returns nil if it is one of none.
local function membership_of(job)
  local names, own = {}, option_of(call('HGET', options, job), 'group-of')
  for _, each in ipairs(follows.list_of(job)) do
    if each:sub(1, 1) == MARK then names[#names + 1] = each:sub(2) end
  end
  if #names == 0 and type(own) == 'string' then names[1] = own end
  for _, name in ipairs(names) do
    local group = MARK .. name
    local has = call('ZSCORE', followers, follows.link_of(job, group)) ~= false
    local knows = call('ZSCORE', followers, follows.link_of(MARK .. group, job)) ~= false
    if has or knows then return name, has and knows end
  end
end

local function left_of_group(group)  -- how many jobs
  local names = MARK .. group
  return call('ZLEXCOUNT', followers, '[' .. names .. '\n', '(' .. names .. '\v')
end
