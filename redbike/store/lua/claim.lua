#!lua flags=allow-oom
-- claim: an entry that nobody has told in time: whoever asks is the only one that may tell it for
--        some seconds.
-- keys   untold, _write
-- given  field: of -untold; seconds; most: so many claims there are; mine: the number of the claim
--        of somebody who is at it, and needs longer
-- returns {'ok', number of the claim}; {'dropped'} if it was claimed so often; {'stale'} if it is
--         not there any more, or is not to be told by others yet, or is somebody else's by now
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
