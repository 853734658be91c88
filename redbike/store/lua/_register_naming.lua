-- How queues are named, as a worker that registers does it.
-- keys   agreed

local function has_functions() return call('HEXISTS', agreed, 'functions') == 1 end

-- Returns when each was given last. A clock that was ahead may have put that into the future.
local function read_instants(field)
  local found = object_of(call('HGET', agreed, field))
  for name, at in pairs(found) do
    if (tonumber(at) or 0) > now + CLOCKS_DIFFER then found[name] = stamp(now) end
  end
  return found
end

-- Returns whether it has functions that nobody has had, or had in another queue.
local function note_naming()
  local rules, fields = read_instants('rules'), {}
  for rule, at in pairs(rules) do
    if (tonumber(at) or 0) < now - given.stale then rules[rule] = nil end
  end
  rules[given.rule] = stamp(now)
  -- Functions that no worker has given for very long, or not of late if this one has commands or a
  -- function for their jobs, are gone: or else jobs would wait for ever for a worker with them.
  local given_at, commands, gone = read_instants('functions'), {}, {}
  for _, id in ipairs(given.commands) do commands[id] = true end
  local function is_taken(id)
    local shorter = commands[id] and id or id:match('^(.*):')
    while shorter and not (commands[shorter] or given.functions[shorter]) do
      shorter = shorter:match('^(.*):')
    end
    return shorter
  end
  for id in pairs(given.functions) do given_at[id] = stamp(now) end
  for id, at in pairs(given_at) do
    local is_gone = (tonumber(at) or 0) < now - (is_taken(id) and given.stale or given.away)
    if is_gone and #gone < 1000 then given_at[id], gone[#gone + 1] = nil, 'job:' .. id end
  end
  if #gone > 0 then
    if not next(given_at) then gone[#gone + 1] = 'functions' end
    change('HDEL', agreed, gone)
  end
  local is_new = false
  for id, home in pairs(given.functions) do
    is_new = is_new or call('HGET', agreed, 'job:' .. id) ~= home
    note(fields, 'job:' .. id, home)
    if #fields >= 1000 then
      change('HSET', agreed, fields)
      fields = {}
    end
  end
  note(fields, 'rules', cjson.encode(rules))
  if next(given_at) then note(fields, 'functions', cjson.encode(given_at)) end
  change('HSET', agreed, fields)
  return is_new
end
