-- A job that is set to follow others, or to be one of a group.
-- keys   schedules, statuses, timeline, queued, retry_states, skipped, wakeup, pauses, following,
--        followers, _backfill

-- Returns how a job would wait for itself with these links, from it to it; nil if it would not.
local function find_cycle(job, given)
  local visited, follows, below = {}, make_groups(), {given.member and MARK .. given.member}
  for _, each in ipairs(follows.list_of(job)) do
    if not (given.member and each:sub(1, 1) == MARK) then below[#below + 1] = each end
  end
  local function descend(jobs, group, tried)  -- returns the way back from the group to one of them
    for _, each in ipairs(jobs) do
      if each == group then return group end
      local is_new = not tried[each]
      tried[each] = true
      local found = is_new and descend(follows.list_of(each), group, tried)
      if found then return found .. '\n' .. each end
    end
  end
  local function climb(from, path)
    for _, parent in ipairs(from) do
      if parent == job then return path .. '\n' .. job end
      local is_new = not visited[parent]
      visited[parent] = true
      if is_new and parent:sub(1, 1) == MARK then
        local found = descend(below, parent, {[job] = true})
        if found then return path .. '\n' .. found .. '\n' .. job end
      end
      local record = is_new and follows.record_of(parent)
      local found = record and climb(record.parents, path .. '\n' .. parent)
      if found then return found end
    end
  end
  return given.parents and climb(given.parents, job)
end

-- Of which group it is one from now on, if that is given. What never runs is of none.
local function set_member(job, run, is_to_come)
  local group = job.follows and job.follows.member
  if not group then return end
  if group ~= '' and is_to_come then
    make_groups().join(job.id, MARK .. group, run, job.follows.home)
  else
    make_groups().part(job.id, 'dropped')
  end
end

-- Whether something of it is to come, or goes on, where it is.
local function is_busy(job, run)
  return run or call('HEXISTS', queued, job.id) == 1 or call('ZSCORE', timeline, job.id)
    or job.pause and job.pause.due ~= '-'
end

-- It stays as it is. If its parents are `turned`, they have this order now: what of them has ended
-- counts still.
local function keep_links(job, run, turned)
  set_member(job, run, is_busy(job, run))
  if not turned then return end
  local record = make_follows().record_of(job.id)
  record.parents, record.is_new = job.follows.parents, true
  change('HSET', schedules, {job.id, job.schedule})
end

-- What it follows, and of which group it is one. Returns when it is due, which may be at once, and
-- whether it has this schedule already: to wait for a group once more is another one.
local function set_links(job, run, due, same)
  local follows, parents = make_follows(), job.follows and job.follows.parents
  set_member(job, run, due or run)
  if not parents then
    local above = job.pause and list_above(job.id) or {}
    follows.leave(job.id)
    -- Its pause does not hold a backfill of these any more.
    for i = 2, #above do make_backfills().fill(above[i], job.id) end
    return due, same
  end
  follows.begin(job.id, job.follows)
  local is_group = parents[1]:sub(1, 1) == MARK
  -- A group of another shard is closed there, after this.
  local at_once = is_group and not job.follows.is_away and make_groups().close(job.id, parents[1])
  return at_once or due, same and not (is_group and not at_once)
end
