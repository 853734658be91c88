#!lua flags=allow-oom
-- register: a dispatcher or worker is there, or has ended; those that were not seen for long are
--           forgotten.
-- keys   workers, seen, agreed, untold, timers, _write
-- given  owner; protocol: the number of its keys and scripts; alive: seconds after which a process
--        counts as lost; entry: what is known of a process that registers, JSON; since: when it has
--        started, if it knows; ended: whether it has ended; kept: seconds for which one is kept
--        that is not seen; most: so many are forgotten; tells: whether its class has a method
--        ended; rule: by which it names queues, if it does, with functions: the queues of these, by
--        id; stale: seconds after which a rule is forgotten that no other worker has given;
--        settled: seconds after which everybody has read how queues are named
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
local has_new = given.rule and note_naming()
if has_new or given.entry and not given.since and has_functions() then
  -- Jobs may wait where no worker looks. By then everybody has read how queues are named.
  local soon = now + given.settled
  wake_dispatcher(timers, soon)
  change('ZADD', timers, {has_new and 'GT' or 'NX', stamp(soon), 'naming:'})
end
return write({'ok', since})
