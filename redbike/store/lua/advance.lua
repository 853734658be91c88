#!lua flags=allow-oom
-- advance: everything due by an instant was dispatched; it never goes back, unless it was never
--          true. If the server has forgotten it since, or its clock was ahead, that is noted until
--          somebody has acknowledged it.
-- keys   dispatched, rewinds, counts, _write
-- given  instant; ahead: whether what is there is of a clock that was ahead; known: the instant up
--        to which all was dispatched, as far as a dispatcher knows
-- returns {'ok'}; and if something is noted, the instant to which the server went back, and the
--         record
local MOST, LATEST = 100, 999999999999  -- that are kept; the last instant that a record can have
-- Seconds by which a clock was ahead that are soon over: two servers may differ by some.
local SOON = 60
local score = tonumber(call('ZSCORE', dispatched, 'until') or 0)
local back, known = math.max(0, math.min(score, LATEST)), given.known
if given.ahead and back > given.instant + SOON then back, known = given.instant, back end
local change_of = {given.ahead and 'CH' or 'GT', stamp(given.instant), 'until'}
if not known or back > known - 0.001 then  -- less is lost by rounding
  call('ZADD', dispatched, unpack(change_of))  -- and no more: it is done every second
  return {'ok'}
end
local record = rewind_record_of(known)
if call('HLEN', rewinds) < MOST then change('HSET', rewinds, {stamp(back), record}) end
change('HINCRBY', counts, {'rewinds::', 1})
change('ZADD', dispatched, change_of)
return write({'ok', stamp(back), record})
