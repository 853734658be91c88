#!lua flags=allow-oom
-- claim: an entry that nobody has told in time: whoever asks is the only one that may tell it for some seconds.
-- given  field: of -untold; seconds
-- returns {'ok', entry}, or {'stale'} if it is not there any more, or is not to be told by others yet
local time, entry = (call('HGET', untold, given.field) or ''):match('^(%d+%.%d+)\n(.*)$')
if not entry or tonumber(time) > now then return {'stale'} end
change('HSET', untold, {given.field, stamp(now + given.seconds) .. '\n' .. entry})
return write({'ok', entry})
