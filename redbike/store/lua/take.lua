#!lua flags=allow-oom
-- take: queue → in flight, the oldest job of each turn's queue, or of the first queue after it that
--       has one.
-- keys   schedules, statuses, timeline, queued, running, batches, leases, retry_states, queues,
--        control, queue_limits, pauses, options, data, seen, untold, inflight, _write
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
-- Phase 1: whether there is anything to take.
local idle = given.idle_owner and answer_idle()
if idle then return idle end
local signal, served = unpack(call('MGET', control, inflight .. given.tag))
-- Mostly no job and no queue is.
local special = call('EXISTS', queue_limits, options, data, pauses, retry_states) > 0
local limiter, pausing = special and make_limiter(), special and call('HLEN', pauses) > 0
local with_options = special and call('HLEN', options) > 0
local with_data = special and call('HLEN', data) > 0
local all = limiter and limiter.limits_of('')
local ended = limiter and limiter.read_limits(all) or nil
local again = (given.repeated or served) and answer_again(with_options, with_data, ended)
if again then return again end
if (signal or given.control) ~= given.control then return {'halted'} end

-- Phase 2: the oldest entries are lined up.
local started, most, NO_RETRY = stamp(now), given.most, retry_state_of()
local turns, look = measure(limiter, all, started)
if most == 0 then return {'empty'} end
if #turns == 0 then return answer_empty() end
local jobs, home_of = line_up(turns, look)

-- Phase 3: those that may run are taken, until there are enough.
local waiting, known = call('HMGET', queued, unpack(jobs)), call('HMGET', schedules, unpack(jobs))
local retry_state = special and fetch_any(retry_states, jobs) or {}
local optional = with_options and call('HMGET', options, unpack(jobs)) or {}
local HEAVY, weight = 65536, 0  -- bytes of data with which no further job is taken
local names, dues, texts, homes, kept, more = {}, {}, {}, {}, {}, {}
local runs, taken, size, longest = {}, {}, 0, 0
for i = 1, #jobs do
  local job, home, place, schedule = jobs[i], home_of[i], waiting[i], known[i]
  local dead = home.buried and call('SISMEMBER', home.tombstones, job) == 1
  local tried = retry_state[i] and retry_state_of(retry_state[i]) or NO_RETRY
  -- An entry without a record was pushed by an older version or by hand: it counts if the job is
  -- known and idle. 0.13.1 left one there that it stopped. It did not add the queue to the set.
  local free = place or call('HEXISTS', running, job) == 0
    and not (pausing and call('HEXISTS', pauses, job) == 1)
    and not (schedule == STOP and event_of(call('HGET', statuses, job)) == STP)
  local fit = not dead and schedule and not taken[job] and free
  local limit, alone
  if optional[i] then limit, alone = own_timeout_of(optional[i]) end
  -- One that may have killed a worker, with others about it, runs alone until it has run.
  alone = alone or tried.alone
  if size == most or weight > HEAVY or fit and alone and size > 0 then break end
  home.used = home.used + 1
  if not place and not dead then change('SADD', queues, {home.name}) end
  if fit then
    local due = due_of(place) or started
    size, taken[job], kept[job] = size + 1, true, retry_state[i] or nil
    names[size], dues[size], texts[size] = job, due, schedule
    if #turns > 1 then homes[size] = home.name end
    local head, value = home.head, with_data and call('HGET', data, job) or nil
    if optional[i] or value then
      local deadline = limit and stamp(now + limit) or home.deadline
      head = limit and begin_of(given.tag, started, deadline) or head
      weight = weight + (value and #value or 0)
      more[job] = {deadline = deadline, options = optional[i] or nil, data = value}
    end
    longest = math.max(longest, limit or home.timeout)
    runs[2 * size - 1], runs[2 * size] = job, head .. due .. tried.counts .. home.tail
    if limiter then limiter.take(home, job) end
    if not place then change('ZREM', timeline, {job}) end
    if alone then break end
  else
    discard(job, home, dead, schedule)
  end
end

-- Phase 4: they leave their queues, and are in flight.
local deadlines = leave_queues(limiter)
if size == 0 then return write({'again'}) end
enter_flight(names, runs, longest)
local found = {started, deadlines, kept, names, dues, texts, homes, more, ended}
return write({'ok', cjson.encode(found)})
