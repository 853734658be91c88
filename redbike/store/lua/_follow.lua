-- When followers are due: when each of their parents has ended since they were due last.
-- keys   pauses, following, followers
-- A job has no due time of its own: it waits for its parents, unless they have ended already. It is
-- on the timeline, or held by that pause.
local function await(job, pause) awaiting[job] = {pause = pause, is_new = true} end
local function wait_on(due, job)
  if due < AWAITED then note(waits, stamp(due), job) else await(job) end
end

local function has_all(record, ended)
  for _, parent in ipairs(record.parents) do if not ended[parent] then return false end end
  return true
end

local function follower_record_of(record)  -- always in the same order
  local function members_of(ended)
    local members = {}
    for _, parent in ipairs(record.parents) do
      local due = ended and ended[parent]
      if due then members[#members + 1] = cjson.encode(parent) .. ':' .. cjson.encode(due) end
    end
    return '{' .. table.concat(members, ',') .. '}'
  end
  local again = record.again and ',"again":' .. members_of(record.again) or ''
  return '{"parents":' .. cjson.encode(record.parents) .. ',"when":' .. cjson.encode(record.when)
    .. ',"ended":' .. members_of(record.ended) .. again .. '}'
end

local function settle()
  for job, place in pairs(awaiting) do
    local record, due = following_of(job), 0
    local is_due = record and has_all(record, record.ended)
    if is_due then
      for _, each in pairs(record.ended) do due = math.max(due, tonumber(each) or 0) end
      record.ended, record.again, record.is_new = {}, nil, true
    end
    local at = stamp(is_due and due or AWAITED)
    if not (is_due or place.is_new) then
      at = nil  -- it stays there
    elseif place.pause then
      hold(job, place.pause, at)
    else
      note(waits, at, job)
    end
  end
  for job, record in pairs(links) do
    if record and record.is_new then
      change('HSET', following, {job, follower_record_of(record)})
    end
  end
  for parent in pairs(altered_lists) do
    local list = follower_lists[parent]:sub(2, -2)
    change(list == '' and 'HDEL' or 'HSET', followers, {parent, list ~= '' and list or nil})
  end
end
