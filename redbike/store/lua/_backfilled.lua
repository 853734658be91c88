-- What backfills have: their parts, their occurrences and those of what follows their jobs.
-- keys   schedules, timeline, spent, pauses, following, followers, _occurrences
local function make_backfilled()
  local backfilled, parts, trees, HEAD, MOST = {}, {}, {}, '\30', 1000

  function backfilled.encode(value)  -- as JSON, always in the same order
    if type(value) ~= 'table' or next(value) == nil then return cjson.encode(value) end
    local names, texts, is_list = {}, {}, #value > 0
    for name in pairs(value) do names[#names + 1] = name end
    table.sort(names)
    for i, name in ipairs(names) do
      local text = backfilled.encode(value[name])
      texts[i] = is_list and text or cjson.encode(name) .. ':' .. text
    end
    local text = table.concat(texts, ',')
    return is_list and '[' .. text .. ']' or '{' .. text .. '}'
  end

  function backfilled.id_of(base, due)  -- with the instant in ISO 8601
    local days, seconds = math.floor(due / 86400), math.floor(due) % 86400
    -- From 0000-03-01: see days_from_civil() of Howard Hinnant.
    local day, era = (days + 719468) % 146097, math.floor((days + 719468) / 146097)
    local leaps = math.floor(day / 1460) - math.floor(day / 36524) + math.floor(day / 146096)
    local year = math.floor((day - leaps) / 365)
    day = day - 365 * year - math.floor(year / 4) + math.floor(year / 100)
    local month = math.floor((5 * day + 2) / 153)
    day, month = day - math.floor((153 * month + 2) / 5) + 1, month < 10 and month + 3 or month - 9
    year = year + 400 * era + (month < 3 and 1 or 0)
    local clock = {math.floor(seconds / 3600), math.floor(seconds / 60) % 60, seconds % 60}
    local fraction = stamp(due):match('%.%d+$'):gsub('%.?0+$', '')
    local instant = string.format('%04d-%02d-%02dT%02d:%02d:%02d', year, month, day, unpack(clock))
    return base .. '@' .. instant .. fraction .. 'Z'
  end

  function backfilled.link_of(base) return '\n' .. HEAD .. base end
  function backfilled.field_of(base, part) return HEAD .. base .. (part and '\n' .. part or '') end

  -- The job, and what follows it, directly or not: each behind one of its parents.
  function backfilled.tree_of(base)
    local jobs, known, at = {base}, {[base] = true}, 1
    while jobs[at] and #jobs <= MOST and not trees[base] do
      for _, job in ipairs(follows.list_of(jobs[at])) do
        if not (known[job] or job:find('%c')) then jobs[#jobs + 1], known[job] = job, true end
      end
      at = at + 1
    end
    trees[base] = trees[base] or jobs
    return trees[base]
  end

  -- What waits for its parents is over, as it is never due, and so is what waits for it.
  function backfilled.drop(id)
    local record, pause = follows.record_of(id), pause_of(call('HGET', pauses, id))
    local at = tonumber(pause and pause.due or call('ZSCORE', timeline, id) or nil)
    if not (record and record.of and at and at >= AWAITED) then return end
    follows.leave(id)
    if pause then hold(id, pause, '-') end
    change('ZREM', timeline, {id})
    -- As `end_one_off` does, which would cost every script.
    change('HSET', schedules, {id, 'STOP'})
    change('ZADD', spent, {stamp(now), id})
    mark(id, STP)
    for _, each in ipairs(follows.list_of(id)) do backfilled.drop(each) end
  end

  function backfilled.add_part(base, number, text)
    local field = backfilled.field_of(base, number)
    change('HSET', following, {field, text})
    parts[field] = object_of(text)
  end

  function backfilled.next_due(base, record)  -- takes it from what is left; nil if nothing is
    while record.part < record.parts do
      local field = backfilled.field_of(base, record.part)
      parts[field] = parts[field] or object_of(call('HGET', following, field))
      record.at = record.at + 1
      local due = tonumber(parts[field][record.at])
      if not parts[field][record.at + 1] then
        change('HDEL', following, {field})
        record.part, record.at = record.part + 1, 0
      end
      if due then return due end
    end
  end

  make_occurrences(backfilled)
  return backfilled
end
