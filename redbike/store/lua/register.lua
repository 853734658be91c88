#!lua flags=allow-oom
-- register: a dispatcher or worker is there, or has ended; those that were not seen for long are
--           forgotten.
-- keys   workers, seen, agreed, untold, _write
-- given  owner; protocol: the number of its keys and scripts; alive: seconds after which a process
--        counts as lost; entry: what is known of a process that registers, JSON; since: when it has
--        started, if it knows; ended: whether it has ended; kept: seconds for which one is kept
--        that is not seen; most: so many are forgotten; tells: whether its class has a method
--        ended; rule: by which it names queues, if it does, with functions: the queues of these, by
--        id; stale: seconds after which a rule is forgotten that no other worker has given
-- returns {'ok', since when}; {'unknown'} for one without an entry that is not registered: nothing
--         is changed; for one that only renews and tells, the second word is 'untold' if there is
--         something; {'protocol', number} for one with another protocol than that which is agreed
--         on: a higher one is, when no other process is alive
local owner, protocol = given.owner, tonumber(call('HGET', agreed, 'protocol'))
if protocol and protocol ~= given.protocol and not given.ended then
  local alive = call('ZRANGE', seen, stamp(now - given.alive), '+inf', 'BYSCORE', 'LIMIT', 0, 2)
  local alone = #alive == 0 or #alive == 1 and alive[1] == owner
  if protocol > given.protocol or not (given.entry and alone) then
    return {'protocol', tostring(protocol)}
  end
end
if not given.entry and not given.ended then
  -- Each process does that every few seconds: mostly it is one command.
  local renewed = call('ZADD', seen, 'XX', 'CH', stamp(now), owner) == 1
    or call('ZSCORE', seen, owner)
  local found = given.tells and call('EXISTS', untold) == 1
  return {renewed and 'ok' or 'unknown', found and 'untold' or nil}
end
local latest = '(' .. stamp(now - given.kept)
local old = call('ZRANGE', seen, '-inf', latest, 'BYSCORE', 'LIMIT', 0, given.most)
local since = given.since or since_of(call('HGET', workers, owner)) or stamp(now)
if given.ended then old[#old + 1] = owner end
if #old > 0 then
  change('HDEL', workers, old)
  change('ZREM', seen, old)
end
if given.entry then
  if protocol ~= given.protocol then change('HSET', agreed, {'protocol', given.protocol}) end
  if protocol and protocol < given.protocol then
    -- Those that were suspended have to register, and may not.
    change('DEL', seen, {})
    change('DEL', workers, {})
  end
  change('HSET', workers, {owner, process_record_of(since, given.entry)})
  change('ZADD', seen, {stamp(now), owner})
end
if given.rule then
  local rules, fields = object_of(call('HGET', agreed, 'rules')), {}
  for rule, at in pairs(rules) do
    if (tonumber(at) or 0) < now - given.stale then rules[rule] = nil end
  end
  rules[given.rule] = stamp(now)
  -- Functions that no worker has given for very long, or not of late if this one has commands or a
  -- function for their jobs, are gone: or else jobs would wait for ever for a worker with them.
  local given_at, commands, gone = object_of(call('HGET', agreed, 'functions')), {}, {}
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
  for id, home in pairs(given.functions) do
    note(fields, 'job:' .. id, home)
    if #fields >= 1000 then
      change('HSET', agreed, fields)
      fields = {}
    end
  end
  note(fields, 'rules', cjson.encode(rules))
  if next(given_at) then note(fields, 'functions', cjson.encode(given_at)) end
  change('HSET', agreed, fields)
end
return write({'ok', since})
