#!lua flags=allow-oom
-- take: queue → in flight, the oldest job of each turn's queue, or of the first queue after it that
--       has one.
-- keys   schedules, statuses, timeline, queued, running, batches, leases, retry_states, control,
--        queue_limits, pauses, options, data, seen, untold, inflight, _write
-- given  tag; control: the signal that the worker found when it started; repeated: whether this tag
--        may have been served already; most: how many jobs, 0 for no others; queues, timeouts:
--        names, and seconds for a job of each; turns: their numbers, over and over, or if strict
--        each as long as it has jobs; lease, grace: seconds without a sign of life, and after the
--        deadline; idle_owner: the owner of a worker that is idle
-- returns {'ok', JSON of [start, {queue: deadline}, {job: record of its retry state}, jobs, and of
--         each: due time, schedule, queue unless there is but one; {job: its own deadline, options,
--         data}, {queue: the last pause}]}, {'empty'}, {'halted'}, {'again'} if all that was looked
--         at was thrown away; {'empty', 'seen' or 'unknown'} to a idle_owner, if nothing is in its
--         queues: whether it is registered; and 'untold' if its class tells, and may have to
local LOOK, NO_RETRY, most = 64, retry_state_of(), given.most  -- LOOK entries at least, where some of them are tombstones
if given.idle_owner then
  -- Mostly nothing is there. Then the worker is seen, which cannot fail, and no more is done.
  local watched = {inflight .. given.tag}
  for _, home in ipairs(queue) do watched[#watched + 1] = home.list end
  if given.control == '' then watched[#watched + 1] = control end
  if call('EXISTS', unpack(watched)) == 0 and (given.control == '' or call('GET', control) == given.control) then
    local renewed = redis.pcall('ZADD', seen, 'XX', 'CH', stamp(now), given.idle_owner)
    local found = tells(given.tag) and call('EXISTS', untold) == 1
    return {'empty', renewed == 1 and 'seen' or 'unknown', found and 'untold' or nil}
  end
end
local signal, served = unpack(call('MGET', control, inflight .. given.tag))
local started, names, dues, texts, homes, deadlines, kept, more = stamp(now), {}, {}, {}, {}, {}, {}, {}
local HEAVY, weight = 65536, 0  -- bytes of data with which no further job is taken
local special = call('EXISTS', queue_limits, options, data, pauses, retry_states) > 0  -- mostly no job and no queue is
local limiter, pausing = special and make_limiter(), special and call('HLEN', pauses) > 0
local with_options, with_data = special and call('HLEN', options) > 0, special and call('HLEN', data) > 0
local all = limiter and limiter.limits_of('')
local ended = limiter and limiter.read_limits(all) or nil
-- Who asks does not always know that it asks twice.
local own, known_as = unpack((given.repeated or served) and {runs_of(given.tag, {})} or {{}})
for i, job in ipairs(own) do
  local run = known_as[job]
  started, deadlines[run.home], kept[job] = run.start, run.deadline, call('HGET', retry_states, job) or nil
  dues[i], homes[i], texts[i] = run.due, run.home, call('HGET', schedules, job) or ''
  local value = with_data and call('HGET', data, job) or nil
  if with_options or value then
    more[job] = {deadline = run.deadline, options = call('HGET', options, job) or nil, data = value}
  end
end
if #own > 0 then return {'ok', cjson.encode({started, deadlines, kept, own, dues, texts, homes, more, ended})} end
if (signal or given.control) ~= given.control then return {'halted'} end
-- The oldest entries are lined up, turn by turn; a queue that has no more is passed over.
local jobs, home_of, turns, looked, look, position, idle = {}, {}, {}, 0, most, 0, 0
for number, home in ipairs(queue) do
  home.length, home.left, home.scanned, home.used = call('LLEN', home.list), 0, 0, 0
  home.total = home.length
  if limiter then limiter.close(home, all) end
  if home.length > 0 then
    home.deadline = stamp(now + given.timeouts[number])
    home.head, home.tail = begin_of(given.tag, started, home.deadline), end_of(home.name)
    home.timeout, home.buried = given.timeouts[number], call('SCARD', home.tombstones) > 0
    look = home.buried and math.max(look, LOOK) or look
  end
end
for _, number in ipairs(given.turns) do if queue[number].length > 0 then table.insert(turns, queue[number]) end end
if most == 0 then return {'empty'} end
if #turns == 0 then
  -- Of a queue without jobs the token is old. Each would wake a worker, which would look into all of its queues again.
  for _, home in ipairs(queue) do if #queue > 1 and home.total == 0 then call('RPOP', home.wake) end end
  return {'empty'}
end
while looked < look and idle < #turns do
  position, idle = position % #turns + 1, idle + 1
  local home = turns[position]
  if home.left == 0 and home.scanned < home.length then
    local further = math.min(given.strict and look - looked or math.ceil(look / #turns), home.length - home.scanned)
    home.jobs = call('LRANGE', home.list, -home.scanned - further, -home.scanned - 1)
    home.left, home.scanned = #home.jobs, home.scanned + #home.jobs
  end
  for _ = 1, math.min(home.left, (given.strict or #turns == 1) and look - looked or 1) do
    looked, idle, home.left = looked + 1, 0, home.left - 1
    jobs[looked], home_of[looked] = home.jobs[home.left + 1], home
  end
end
-- Those that may run are taken, until there are enough; what nobody waits with is thrown away.
local waiting, known = call('HMGET', queued, unpack(jobs)), call('HMGET', schedules, unpack(jobs))
local retry_state = special and call('HLEN', retry_states) > 0 and call('HMGET', retry_states, unpack(jobs)) or {}
local optional = with_options and call('HMGET', options, unpack(jobs)) or {}
local runs, taken, size, longest = {}, {}, 0, 0
for i = 1, looked do
  local job, home, place, schedule = jobs[i], home_of[i], waiting[i], known[i]
  local dead = home.buried and call('SISMEMBER', home.tombstones, job) == 1
  local tried = retry_state[i] and retry_state_of(retry_state[i]) or NO_RETRY
  -- An entry without a record was pushed by an older version or by hand: it counts if the job is known and idle.
  local free = place or call('HEXISTS', running, job) == 0 and not (pausing and call('HEXISTS', pauses, job) == 1)
  local fit = not dead and schedule and not taken[job] and free
  local limit, alone
  if optional[i] then limit, alone = own_timeout_of(optional[i]) end
  -- One that may have killed a worker, with others about it, runs alone until it has run.
  alone = alone or tried.alone
  if size == most or weight > HEAVY or fit and alone and size > 0 then break end
  home.used = home.used + 1
  if fit then
    local due = due_of(place) or started
    size, taken[job], kept[job] = size + 1, true, retry_state[i] or nil
    names[size], dues[size], texts[size] = job, due, schedule
    if #turns > 1 then homes[size] = home.name end
    local head, value = home.head, with_data and call('HGET', data, job) or nil
    if optional[i] or value then
      local deadline = limit and stamp(now + limit) or home.deadline
      head, weight = limit and begin_of(given.tag, started, deadline) or head, weight + (value and #value or 0)
      more[job] = {deadline = deadline, options = optional[i] or nil, data = value}
    end
    local lasts = limit or home.timeout
    if lasts > longest then longest = lasts end
    runs[2 * size - 1], runs[2 * size] = job, head .. due .. tried.counts .. home.tail
    if limiter then home.taken = home.taken + 1 note(home.slots, 0, limiter.slot_of(home.name, job)) end
    if not place then change('ZREM', timeline, {job}) end
    if alone then break end
  elseif dead then
    change('SREM', home.tombstones, {job})
  else
    change('HDEL', queued, {job})
    if not schedule then change('HDEL', statuses, {job}) end
  end
end
for _, home in ipairs(queue) do
  if home.used > 0 then
    deadlines[home.name] = home.deadline
    change('RPOP', home.list, {home.used})
    if limiter then limiter.spend(home, home.taken) end
    if home.total > home.used then if limiter then wake(home) else token(home.wake) end end
  end
end
if size == 0 then return write({'again'}) end
marks[WRK] = names
change('HDEL', queued, names)
change('HSET', running, runs)
change('HSET', batches, {given.tag, batch_of(names)})
change('ZADD', leases, {stamp(now + math.min(given.lease, longest + given.grace)), given.tag})
change('SET', inflight .. given.tag, {batch_of(names), 'PX', math.max(1, math.floor(longest * 1000))})
return write({'ok', cjson.encode({started, deadlines, kept, names, dues, texts, homes, more, ended})})
