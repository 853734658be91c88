#!lua flags=allow-oom
-- quota: this shard's part of the limits of a queue over all shards. A division of the limits has
--        two steps. First it holds all shards: no job is taken from the queue, so the number of
--        runs in flight only falls. Then each shard gets its part. Only the division that held a
--        shard last may give it a part, so two divisions at once cannot give more than the limits.
-- keys   running, queued, wakeup, queue_limits, slots, timers, _write
-- given  queues: the queue; step: 'later' for nothing but the timer, 'hold', 'look', which is
--        'hold' if it is held already, 'free' for the end of that, as no part was given to any
--        shard, or 'give'; first: with 'later', whether it must have come; epoch: the number of
--        this division; at_once: with 'hold', whether slots are to be kept from now on; with
--        'give', a part of the runs at once; of: the limits, {at_once, count}; count, seconds,
--        tokens: a part of the rate, and how much of it may be taken now; parts: a text, those of
--        all shards; flying: what 'look' has found; wanted: whether a shard wants more; took:
--        seconds so far; again: in how many to divide again, or none; code: see limit.lua
-- returns {'ok'}, {'late'} if another process has held it since, or handled the timer; to 'hold'
--         and 'look' JSON of epoch, divided: the epoch of `of` and `parts`, moving, of, parts,
--         at_once, count, seconds: as they were; flying, waiting, first: since when, and tokens
local SAFE = 2  -- seconds after which another dispatcher divides, if this one has died
local home, limiter, step = queue[1], make_limiter(true), given.step
local name, limits = home.name, limiter.limits_of(home.name)
local first, last = limiter.range_of_slots(name)

local function flying_of()
  return call('ZLEXCOUNT', slots, first, last) + limiter.reserved_of(limits)
end
local function later(seconds) change('ZADD', timers, {stamp(now + seconds), 'quota:' .. name}) end
local function tokens_of()
  return limits.count and limits.count * (1 - limiter.lack_of(limits) / limits.seconds) or 0
end

local function look()
  local waiting = call('LLEN', home.list) - call('SCARD', home.tombstones)
  if limiter.is_paused(limits) or limiter.is_paused(limiter.limits_of('')) then waiting = 0 end
  local place = waiting > 0 and call('HGET', queued, call('LINDEX', home.list, -1))
  return {
    epoch = limits.epoch or 0, moving = limits.moving or false, code = limits.code or false,
    divided = limits.divided, of = limits.of, parts = limits.parts, at_once = limits.at_once,
    count = limits.count, seconds = limits.seconds, flying = flying_of(), tokens = tokens_of(),
    waiting = math.max(0, waiting), first = tonumber(place and due_of(place) or now)
  }
end

local function keep()
  change('HSET', queue_limits, {name, limiter.record_of(limits)})
  if call('LLEN', home.list) > 0 then
    home.limits = limits
    wake(home)
  end
  return write({'ok'})
end

if step == 'later' then
  local at = tonumber(call('ZSCORE', timers, 'quota:' .. name))
  if given.first and not (at and at <= tonumber(stamp(now))) then return {'late'} end
  later(SAFE)
  return write({'ok'})
end
local known, is_own = limits.epoch or 0, limits.epoch == given.epoch and limits.moving
if step ~= 'hold' and not is_own or step == 'hold' and known >= given.epoch then return {'late'} end
if step == 'free' then
  limits.moving = nil
  return keep()
elseif step ~= 'give' then
  local found = look()
  if step == 'hold' then
    if given.at_once and not limits.at_once then limits.at_once = 0 end
    limits.divided, limits.epoch = limits.divided or known, given.epoch
    limits.moving, limits.of = true, limits.of or {}
    change('HSET', queue_limits, {name, limiter.record_of(limits)})
    later(SAFE)
  end
  return write({'ok', cjson.encode(found)})
end

limits.of, limits.parts, limits.divided, limits.moving = given.of, given.parts, known
limits.moved, limits.took, limits.full_at = now, given.took
limits.at_once, limits.count, limits.seconds = given.at_once, given.count, given.seconds
if not given.at_once then
  limits.held = nil
  change('ZREMRANGEBYLEX', slots, {first, last})
end
if given.count and given.count > 0 and given.tokens < given.count then
  limits.full_at = stamp(now + given.seconds * (1 - given.tokens / given.count))
end
limits.code, limits.wanted = given.code or nil, given.wanted or nil
change('ZREM', timers, {'quota:' .. name})
if given.again then limiter.divide(name, now + given.again) end
if given.wanted and flying_of() < given.flying then limiter.ask_for_places(name, limits, true) end
if given.who then log_change('limit', {}) end
return keep()
