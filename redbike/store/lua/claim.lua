#!lua flags=allow-oom
-- claim: an overdue entry of the outbox: for some seconds, only the caller may call ended() for it.
-- keys   untold, _write
-- given  field: of -untold; seconds; most: how often it may be claimed; mine: the number of the
--        caller's claim, to renew it
-- returns {'ok', number of the claim}; {'dropped'} if it was claimed too often; {'stale'} if it is
--         not there any more, or another process has it
local time, claims, entry = untold_of(call('HGET', untold, given.field))
if not entry then return {'stale'} end
if given.mine and given.mine ~= claims or not given.mine and time > now then return {'stale'} end
local number = given.mine or claims + 1
if number > given.most then
  change('HDEL', untold, {given.field})
  return write({'dropped'})
end
change('HSET', untold, {given.field, untold_record_of(stamp(now + given.seconds), number, entry)})
return write({'ok', number})
