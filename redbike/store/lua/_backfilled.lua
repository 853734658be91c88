-- The occurrences of a backfill: each is a one-off of its own, see keys.py.
-- keys   schedules, statuses, running, retry_states, spent, options, data, following, followers
local function make_backfilled()
  local backfilled, parts = {}, {}

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

  local function options_of(base, due)
    -- Who watches the job does not hear of what should have run long ago, and it is not late.
    local OTHERS = {
      'spread', 'start-within', 'finish-within', 'finish-by', 'ping-url', 'stop-after', 'catchup',
      'catchup-limit'
    }
    local KEPT = 3600  -- seconds, at most, for which one is kept that has ended well
    local own = object_of(call('HGET', options, base))
    for _, name in ipairs(OTHERS) do own[name] = nil end
    own.grace, own.expires = 0, 0
    own['forget-after'] = math.min(tonumber(own['forget-after']) or KEPT, KEPT)
    own.backfill = {of = base, due = stamp(due)}
    return backfilled.encode(own)
  end

  -- Puts an occurrence on the timeline; returns false if another job has its id, or it still runs.
  function backfilled.set(base, due, link)
    local id = backfilled.id_of(base, due)
    local event, value = event_of(call('HGET', statuses, id)), call('HGET', data, base)
    local own = object_of(call('HGET', options, id)).backfill
    local is_over = type(own) == 'table' and own.of == base and (event == STP or event == DIE)
    local is_other = call('HEXISTS', schedules, id) == 1 and not is_over
    if is_other or call('HEXISTS', running, id) == 1 then return false end
    change('HSET', schedules, {id, 'AT:' .. stamp(due):gsub('%.?0+$', '')})
    change('HSET', options, {id, options_of(base, due)})
    change(value and 'HSET' or 'HDEL', data, {id, value or nil})
    change('HDEL', retry_states, {id})
    change('ZREM', spent, {id})
    change('ZADD', followers, {0, id .. link})
    note(waits, stamp(now), id)
    mark(id, TML)
    return true
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

  return backfilled
end
