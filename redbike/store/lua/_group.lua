-- Groups, see keys.py: how many of one are left, and what comes of it when none is any more.
-- keys   following, followers, _mail
local MARK = '\29'  -- see group_names.py

local function add_groups(follows)  -- its functions that read and write groups
  local known = {}

  function follows.read_group(group)
    if not known[group] then
      local found, names = object_of(call('HGET', following, group)), MARK .. group
      found.left = call('ZLEXCOUNT', followers, '[' .. names .. '\n', '(' .. names .. '\v')
      for _, field in ipairs({'total', 'failed', 'dropped', 'due'}) do
        found[field] = tonumber(found[field]) or 0
      end
      if type(found.owed) ~= 'table' then found.owed = {} end
      found.before = found.left
      known[group] = found
    end
    return known[group]
  end

  -- When what follows it is due: when the last of those was that have run, or else now.
  local function due_of_all(found) return found.due > 0 and found.due or now end

  -- A job is set that follows the group: it is not kept open for more any longer. Returns when the
  -- job is due at once; nil if some are left.
  function follows.close(job, group)
    local found = follows.read_group(group)
    found.open = nil
    if found.left > 0 then return end
    follows.record_of(job).group = found
    local list = follows.list_of(group)
    for i = #list, 1, -1 do if list[i] == job then table.remove(list, i) end end
    return math.min(due_of_all(found), now)
  end

  local function record_of_group(found)  -- always in the same order
    local due, owed = found.due > 0 and ',"due":"' .. stamp(found.due) .. '"' or '', {}
    for job, tag in pairs(found.owed) do
      owed[#owed + 1] = cjson.encode(job) .. ':' .. cjson.encode(tag)
    end
    table.sort(owed)
    return '{' .. follows.counts_of(found) .. due .. (found.open and ',"open":true' or '')
      .. (found.home and ',"home":"' .. found.home .. '"' or '')
      .. (#owed > 0 and ',"owed":{' .. table.concat(owed, ',') .. '}' or '') .. '}'
  end

  function follows.keep_numbers(group, numbers)  -- with those that follow it, for people
    for _, job in ipairs(follows.list_of(group)) do
      (follows.record_of(job) or {}).group = numbers
    end
  end

  local function describe(word, found)  -- as a message has it
    return ('%s:%.0f:%.0f:%.0f'):format(word, found.total, found.failed, found.dropped)
  end

  -- This shard has only some of its jobs: the shard of the group hears when that begins, and ends.
  local function tell_home(group, found)
    if found.left > 0 and (found.before <= 0 or found.tells) then
      make_mail().post(found.home, group, 'joined', 0)
    elseif found.left <= 0 and (found.before > 0 or found.total > 0 or found.tells) then
      make_mail().post(found.home, group, describe('left', found), found.due)
    end
  end

  function follows.settle_groups()
    follows.note_owed()
    for group, found in pairs(known) do
      if found.home then tell_home(group, found) end
      if found.left > 0 or found.open then
        change('HSET', following, {group, record_of_group(found)})
      else
        change('HDEL', following, {group})
        if not found.home then
          follows.keep_numbers(group, found)
          follows.note_end(group, describe('any', found), due_of_all(found))
        end
      end
    end
  end
end
