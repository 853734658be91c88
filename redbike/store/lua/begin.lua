#!lua flags=allow-oom
-- begin: a blackout begins: the job, the queue or everything is paused until its end, and its timer
--        is set to the next window. A pause by hand that ends earlier is lengthened until then, and
--        gets its own end back if no blackout is on; one that ends later stays. The pause of a
--        replaced blackout gets the end of this one, or ends now if this one is not on. The pause
--        of a host that is gone is replaced.
-- keys   schedules, timeline, queued, blackouts, pauses, queue_limits, timers, _write
-- given  name: job:ID, queue:NAME, or queue: for everything; queues: of a job its own, or the
--        queue; record, at: the blackout and the time of its timer, as they were found; next: when
--        it begins again, or none; and if it is on now: since, till: from when until when; note: of
--        the pause of a job; by, reason: of any other
-- returns {'ok', what was paused: 'held' or 'paused', 'extended', 'shortened' or 'unchanged'},
--         {'stale'} if it has changed, {'gone'} if its job has, or {'elsewhere', queue} when the
--         job waits in another queue than the one declared
local name, job = given.name, given.name:match('^job:(.*)$')
local timer, till = 'blackout:' .. name, given.till and stamp(given.till)
local score = tonumber(call('ZSCORE', timers, timer) or nil)
if (call('HGET', blackouts, name) or nil) ~= given.record or score ~= given.at then
  return {'stale'}
end

local function word_of(ends, ending)
  return ends < ending and 'shortened' or ends > ending and 'extended' or 'unchanged'
end

local function change_job(found)
  local kept, ending = object_of(found.note), tonumber(found.till) or math.huge
  local gives_way, before = kept.every or till and is_of_gone(found), tonumber(kept.own_end)
  local ends, own = end_beside(given.till, ending, before, gives_way)
  if ends == ending and own == before and not gives_way then return 'unchanged' end
  kept.own_end = own and stamp(own)
  local note = not gives_way and cjson.encode(kept) or given.note or found.note
  wake_dispatcher(timers, ends)
  change('ZADD', timers, {stamp(ends), 'job:' .. job})
  hold(job, {since = found.since, till = stamp(ends), note = note}, found.due)
  return word_of(ends, ending)
end

local function begin_of_job()
  local entry, found = call('HGET', queued, job), pause_of(call('HGET', pauses, job))
  local _, home = waiting_of(entry)
  if found then return change_job(found) end
  if not given.till then return 'unchanged' end
  if home and not queue[home] then return nil, home end
  wake_dispatcher(timers, given.till)
  change('ZADD', timers, {till, 'job:' .. job})
  local pause = {since = stamp(given.since), till = till, note = given.note}
  local held = hold_waiting(job, pause, entry, call('ZSCORE', timeline, job))
  return held == '-' and 'paused' or 'held'
end

local function begin_of_queue(title)
  local limiter = make_limiter(true)
  local limits, word = limiter.limits_of(title), 'paused'
  local before, ending = limits.paused, limiter.end_of_pause(limits)
  local ends, own = given.till, nil
  if before then
    ends, own = end_beside(given.till, ending, tonumber(before.own_end), before.code)
  end
  if not ends or ends == math.huge then return 'unchanged' end
  if before and ending >= (given.since or 0) then
    before['until'], before.own_end, word = stamp(ends), own and stamp(own), word_of(ends, ending)
    if before.code and given.till then before.by, before.reason = given.by, given.reason end
  else
    -- One that is over, which no dispatcher has seen.
    if before then limits.last = {since = before.since, ended = stamp(ending - 0.000001)} end
    limits.paused = {
      since = stamp(given.since), ['until'] = till, by = given.by, reason = given.reason,
      code = true
    }
  end
  limiter.timer(title, ends)
  change('HSET', queue_limits, {title, limiter.record_of(limits)})
  return word
end

local word, home = 'unchanged', nil
local is_gone = job and call('HEXISTS', schedules, job) == 0
if not is_gone then
  if job then word, home = begin_of_job() else word = begin_of_queue(name:sub(#'queue:' + 1)) end
end
if not word then return {'elsewhere', home} end
if given.next and not is_gone then
  wake_dispatcher(timers, given.next)
  change('ZADD', timers, {stamp(given.next), timer})
else
  change('HDEL', blackouts, {name})
  change('ZREM', timers, {timer})
end
return write(is_gone and {'gone'} or {'ok', word})
