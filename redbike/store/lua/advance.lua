#!lua flags=allow-oom
-- advance: everything due by an instant was dispatched; it never goes back, unless it was never
--          true. If the server has forgotten it since, or its clock was ahead, that is noted until
--          somebody has acknowledged it.
-- keys   failure_times, dispatched, rewinds, requests, counts, _write
-- given  instant; ahead: whether what is there is of a clock that was ahead; known: the instant up
--        to which all was dispatched, as far as a dispatcher knows; owner: that of this dispatcher,
--        if it goes on; mine: the instant that it has kept last itself; ended: whether it has ended
-- returns {'ok'}; and if something is noted, the instant to which the server went back, and the
--         record
-- Rewinds that are kept, and instants of dispatchers; the last instant that a record can have.
local MOST, LATEST = 100, 999999999999
-- Seconds by which a clock was ahead that are soon over: two servers may differ by some.
local SOON = 60
-- Seconds between what two dispatchers have kept: one of them notes a rewind for both.
local APART = 2
local member = 'until:' .. (given.owner or '')
local scores = call('ZMSCORE', dispatched, 'until', member, 'noted')
local function instant_of(score) return math.max(0, math.min(tonumber(score or 0), LATEST)) end

local back, known = instant_of(scores[1]), given.known
local was_ahead = given.ahead and back > given.instant + SOON
local own, mine = instant_of(scores[2]), given.mine
if was_ahead then
  back, known = given.instant, back
elseif scores[2] and mine and own <= mine - 0.001 and instant_of(scores[3]) < mine - APART then
  -- What all dispatchers keep may be of another one, which works at this server for longer.
  back, known = own, mine
end
local change_of = {given.ahead and 'CH' or 'GT', stamp(given.instant), 'until'}
if given.owner and not given.ended then
  change_of[4], change_of[5] = change_of[2], member
end
local is_well = not known or back > known - 0.001  -- less is lost by rounding
if is_well and (scores[2] or not given.owner) and not (given.ended or given.ahead) then
  call('ZADD', dispatched, unpack(change_of))  -- and no more: it is done every second
  return {'ok'}
end
-- Of requests and failures the first ones are forgotten: what is new must not come before these.
for _, key in ipairs(given.ahead and {requests, failure_times} or {}) do
  local times = {}
  local late = call('ZRANGE', key, '(' .. stamp(now + CLOCKS_DIFFER), '+inf', 'BYSCORE')
  for _, member in ipairs(late) do note(times, stamp(now), member) end
  if #late > 0 then change('ZADD', key, times) end
end
-- Those that were killed leave theirs.
if not scores[2] then change('ZREMRANGEBYRANK', dispatched, {0, -MOST - 1}) end
if given.ended then change('ZREM', dispatched, {member}) end
change('ZADD', dispatched, change_of)
if is_well then return write({'ok'}) end
local record = rewind_record_of(known)
if call('HLEN', rewinds) < MOST then change('HSET', rewinds, {stamp(back), record}) end
change('HINCRBY', counts, {'rewinds::', 1})
if not was_ahead then change('ZADD', dispatched, {stamp(known), 'noted'}) end
return write({'ok', stamp(back), record})
