#!lua flags=allow-oom
-- advance: stores that everything due by an instant was dispatched. The stored instant goes back
--          only if it is of a clock that was ahead. If so, or if the server has lost an instant, a
--          rewind is noted, until a person has acknowledged it.
-- keys   failure_times, dispatched, rewinds, requests, counts, _write
-- given  instant; ahead: whether the stored one is of a clock that was ahead; known: the instant up
--        to which all was dispatched, as far as a dispatcher knows; owner: the owner of this
--        dispatcher; mine: the instant that it has stored last; ended: whether it has ended
-- returns {'ok'}; and if a rewind is noted, the instant to which the server went back, and the
--         record
-- The most rewinds, and instants of dispatchers, that are kept; the last instant of a record.
local MOST, LATEST = 100, 999999999999
-- Seconds by which a clock may be ahead without a rewind: the clocks of two servers may differ.
local SOON = 60
-- Seconds by which the instants of two dispatchers may differ: one of them notes a rewind for both.
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
  -- The common instant may be of another dispatcher, which has used this server for longer.
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
-- The oldest requests and failures are forgotten first: so none may have a time in the future.
for _, key in ipairs(given.ahead and {requests, failure_times} or {}) do
  local times = {}
  local late = call('ZRANGE', key, '(' .. stamp(now + CLOCKS_DIFFER), '+inf', 'BYSCORE')
  for _, member in ipairs(late) do note(times, stamp(now), member) end
  if #late > 0 then change('ZADD', key, times) end
end
-- Killed dispatchers leave their instants: keep only the latest.
if not scores[2] then change('ZREMRANGEBYRANK', dispatched, {0, -MOST - 1}) end
if given.ended then change('ZREM', dispatched, {member}) end
change('ZADD', dispatched, change_of)
if is_well then return write({'ok'}) end
local record = rewind_record_of(known)
if call('HLEN', rewinds) < MOST then change('HSET', rewinds, {stamp(back), record}) end
change('HINCRBY', counts, {'rewinds::', 1})
if not was_ahead then change('ZADD', dispatched, {stamp(known), 'noted'}) end
return write({'ok', stamp(back), record})
