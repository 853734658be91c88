-- Which jobs follow which, see keys.py. Most systems have no followers, and each function costs a
-- script at every call: so these are made only where there are some. `settle` makes the changes.
-- keys   following, followers
local follows, backfills
local function make_links()  -- its functions that read and write who follows whom
  local links, lists, added = {}, {}, {}
  follows = {}

  function follows.record_of(job)  -- of a follower; false if it does not follow any
    if links[job] == nil then
      local record = object_of(call('HGET', following, job))
      if type(record.ended) ~= 'table' then record.ended = {} end
      links[job] = type(record.parents) == 'table' and record
    end
    return links[job]
  end

  function follows.link_of(parent, job) return parent .. '\n' .. job end

  -- Its followers, with those that it gets in this script. Behind a control character is what is
  -- no job: the group of which it is one.
  function follows.list_of(parent)
    if lists[parent] then return lists[parent] end
    local found = call('ZRANGE', followers, '[' .. parent .. '\n', '(' .. parent .. '\v', 'BYLEX')
    local new = {}
    for _, job in ipairs(added[parent] or {}) do new[job] = true end
    for i, link in ipairs(found) do
      found[i] = link:sub(#parent + 2)
      new[found[i]] = nil
    end
    for job in pairs(new) do found[#found + 1] = job end
    lists[parent] = found
    return found
  end

  function follows.link(parent, job)
    change('ZADD', followers, {0, follows.link_of(parent, job)})
    if not lists[parent] then added[parent] = added[parent] or {} end
    table.insert(lists[parent] or added[parent], job)
  end

  function follows.counts_of(group)  -- of which jobs have ended, as its record and others have them
    local numbers = {}
    for i, field in ipairs({'total', 'failed', 'dropped'}) do
      numbers[i] = string.format('"%s":%.0f', field, tonumber(group[field]) or 0)
    end
    return table.concat(numbers, ',')
  end

  function follows.leave(job)  -- it does not follow any more
    local record = follows.record_of(job)
    for _, parent in ipairs(record and record.parents or {}) do
      change('ZREM', followers, {follows.link_of(parent, job)})
    end
    if record and record.of then change('ZREM', followers, {follows.link_of(record.of, job)}) end
    change('HDEL', following, {job})  -- also a damaged one
    links[job] = false
  end

  function follows.begin(job, given)  -- from now on; `given` has its parents, and when it is due
    follows.leave(job)
    links[job] = {parents = given.parents, when = given.when, ended = {}, is_new = true}
    for _, parent in ipairs(given.parents) do follows.link(parent, job) end
  end

  local function follower_record_of(record)  -- always in the same order
    local function members_of(ended)
      local members = {}
      for _, parent in ipairs(record.parents) do
        local due = ended[parent]
        if due then members[#members + 1] = cjson.encode(parent) .. ':' .. cjson.encode(due) end
      end
      return '{' .. table.concat(members, ',') .. '}'
    end
    local again = record.again and ',"again":' .. members_of(record.again) or ''
    if type(record.group) == 'table' then
      again = again .. ',"group":{' .. follows.counts_of(record.group) .. '}'
    end
    if record.of then again = again .. ',"of":' .. cjson.encode(record.of) end
    return '{"parents":' .. cjson.encode(record.parents) .. ',"when":' .. cjson.encode(record.when)
      .. ',"ended":' .. members_of(record.ended) .. again .. '}'
  end

  function follows.write_links()
    for job, record in pairs(links) do
      local is_new = record and record.is_new
      if is_new then change('HSET', following, {job, follower_record_of(record)}) end
    end
  end
end
