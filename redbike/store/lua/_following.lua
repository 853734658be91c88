-- Which jobs follow which, see keys.py. `settle` makes the changes.
-- keys   following, followers
local links, follower_lists, altered_lists, awaiting = {}, {}, {}, {}

local function following_of(job)  -- its record; false if it does not follow any
  if links[job] == nil then
    local record = object_of(call('HGET', following, job))
    if type(record.ended) ~= 'table' then record.ended = {} end
    links[job] = type(record.parents) == 'table' and record
  end
  return links[job]
end

local function list_of(parent)  -- its followers, each between newlines
  local list = follower_lists[parent] or call('HGET', followers, parent)
  list = follower_lists[parent] or list and '\n' .. list .. '\n' or '\n'
  follower_lists[parent] = list
  return list
end

local function leave_parents(job)  -- it does not follow any more
  local record = following_of(job)
  for _, parent in ipairs(record and record.parents or {}) do
    follower_lists[parent], altered_lists[parent] = without(list_of(parent), {job}), true
  end
  if record then change('HDEL', following, {job}) end
  links[job], awaiting[job] = false, nil
end

local function list_follower(parent, job)
  local list = list_of(parent)
  if not list:find('\n' .. job .. '\n', 1, true) then
    follower_lists[parent], altered_lists[parent] = list .. job .. '\n', true
  end
end

local function follow(job, given)  -- from now on; `given` has its parents, and when it is due
  leave_parents(job)
  links[job] = {parents = given.parents, when = given.when, ended = {}, is_new = true}
  for _, parent in ipairs(given.parents) do list_follower(parent, job) end
end
