#!lua flags=allow-oom
-- sign: a dispatcher or worker is there, or has ended; those that were not seen for long are forgotten.
-- given  owner; entry: what is known of a process that registers, JSON; since: when it has started, if it knows;
--        ended: whether it has ended; kept: seconds for which one is kept that is not seen; most: so many are forgotten
--        tells: whether its class has a method ended
-- returns {'ok', since when}; {'unknown'} for one without an entry that is not registered: nothing is changed; for one
--         that only renews and tells, the second word is 'untold' if there is something
local owner = given.owner
if not given.entry and not given.ended then
  -- Each process does that every few seconds: mostly it is one command.
  local renewed = call('ZADD', seen, 'XX', 'CH', stamp(now), owner) == 1 or call('ZSCORE', seen, owner)
  local found = given.tells and call('EXISTS', untold) == 1
  return {renewed and 'ok' or 'unknown', found and 'untold' or nil}
end
local old = call('ZRANGE', seen, '-inf', '(' .. stamp(now - given.kept), 'BYSCORE', 'LIMIT', 0, given.most)
local since = given.since or since_of(call('HGET', workers, owner)) or stamp(now)
if given.ended then old[#old + 1] = owner end
if #old > 0 then
  change('HDEL', workers, old)
  change('ZREM', seen, old)
end
if given.entry then
  change('HSET', workers, {owner, process_record_of(since, given.entry)})
  change('ZADD', seen, {stamp(now), owner})
end
return write({'ok', since})
