#!lua flags=allow-oom
-- end: in flight → timeline, queue, stopped or (unknown), for runs of one tag, however each of them ended.
-- KEYS  common, failures, failure times, then queue and wake of each queue, then the in-flight key of each run
-- ARGV  now, tag, seconds for which the runs have been over, failures kept at most, how many queues, their names, then
--       for each run: job, schedule that its place was computed from, due ('' = none, '+n' = in n seconds, or a time),
--       and how it ended, as JSON. '' is short for
--       {place: 'next' (due as computed from that schedule; else 'due' = due whatever the schedule, 'stop', 'die' or
--       'unset'), why: '' (the worker is done; else 'overrun' or 'lost'), streak: '' (none), failure: '' (none, else
--       JSON), missed: 0, overlapped: 0 (occurrences skipped while none ran, or while this one did)}
-- returns {'ok', a word for each run, with spaces between, and the schedule for each 'changed'}. The words: where the
--         job is now ('timeline', 'queue', 'stopped', 'unset'), or why nothing was changed: 'stale' (the run is not the
--         tag's any more), 'overrun' (too late: the caller must say so), 'alive' (not lost, or not overrun), 'changed'
--         (compute the place again, from this schedule).
check_types()
local failures, failure_times = KEYS[12], KEYS[13]
local now, tag, late, most, count = clock(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local own_keys, first, numbers = 13 + 2 * count, 6 + count, {}
expect('hash', failures)
expect('zset', failure_times)
if count > 0 then expect('list', unpack(KEYS, 14, own_keys)) end
for i = 1, count do numbers[ARGV[5 + i]] = i end
local jobs = {}
for i = first, #ARGV, 4 do jobs[#jobs + 1] = ARGV[i] end
local records, texts = call('HMGET', running, unpack(jobs)), call('HMGET', schedules, unpack(jobs))
local tags = call('MGET', unpack(KEYS, own_keys + 1))
for i = 1, #jobs do
  if not tags[i] then expect('string', KEYS[own_keys + i]) end
end

local words, changed, gone, keys, calm, well, stops = {}, {}, {}, {}, {}, {}, {}
local SHORT = '^(%S+) %S+ (%S+) (%S+) %S+ %S+ (%S+) (.*)$'  -- of RUN what matters here
local DONE = {place = 'next', why = '', streak = '', failure = '', missed = 0, overlapped = 0}

local function forget(job)
  call('HDEL', schedules, job)
  call('HDEL', statuses, job)
  call('HDEL', streaks, job)
  call('HDEL', skipped, 'missed:' .. job, 'running:' .. job, 'withdrawn:' .. job)
  call('HDEL', failures, job)
  call('ZREM', failure_times, job)
end

local function keep(job, failure)
  call('HSET', failures, job, failure)
  call('ZADD', failure_times, stamp(now), job)
  local surplus = call('ZCARD', failure_times) - most
  if surplus > 0 then
    for i, old in ipairs(call('ZPOPMIN', failure_times, surplus)) do
      if i % 2 == 1 then call('HDEL', failures, old) end
    end
  end
end

local function one_off(schedule) return schedule == 'NOW' or string.sub(schedule, 1, 3) == 'AT:' end

local function move(job, schedule, due, place, home, occurrence)
  local at = tonumber(due)
  if place == 'stop' or place == 'die' or not at then
    -- A one-off that has ended would run again wherever its text is set again.
    if place == 'stop' or one_off(schedule) then note(stops, job, 'STOP') end
    mark(job, place == 'die' and 'DIE' or 'STP')
    return 'stopped'
  end
  local after = string.sub(due, 1, 1) == '+'
  at = after and now + at or at
  if at <= now then
    local number = numbers[home]
    enqueue(job, occurrence or stamp(at), home, KEYS[12 + 2 * number], KEYS[13 + 2 * number])
    return 'queue'
  end
  postpone(job, after and stamp(at) or due)
  mark(job, 'TML')
  return 'timeline'
end

local function again(due, how)  -- the due time of the occurrence that is tried again; nil if it is not
  return how.place == 'due' and (string.match(how.streak, TRIED) or string.match(due, '^%d.*')) or nil
end

local function resume(due, how, occurrence)  -- what was asked for goes between: then the schedule goes on where it was
  local goes_on = tonumber(occurrence)
  if how.place == 'next' then
    local at = tonumber(string.match(due, '^%d.*') or nil)
    goes_on = at and at - BEFORE
  end
  return goes_on and '0 0 0 - ' .. stamp(goes_on)
end

local function finish(i, job, expected, due, how)
  local own, deadline, occurrence, next, home = string.match(records[i] or '', SHORT)
  if own ~= tag then return 'stale' end
  local over = now - late >= tonumber(deadline) or tags[i] ~= tag and (tags[i] or late == 0)
  if how.why == '' and over then return 'overrun' end
  if how.why == 'overrun' and not over then return 'alive' end
  if how.why == 'lost' and tonumber(call('ZSCORE', leases, job) or 0) > now then return 'alive' end

  -- What was set during the run counts, not how the run ended.
  local schedule = texts[i]
  local owed, postponed
  if next ~= '-' then owed, postponed = string.match(next, '^due:(.*)$'), call('ZSCORE', timeline, job) end
  local free = schedule and not owed and not postponed
  if free and (schedule ~= expected or (next ~= '-' and how.place ~= 'next')) then
    changed[#changed + 1] = schedule
    return 'changed'
  end

  gone[#gone + 1], keys[#keys + 1] = job, KEYS[own_keys + i]
  if not schedule then return 'unset' end
  if how.place == 'unset' and next == '-' then
    forget(job)
    return 'unset'
  end
  if how.failure ~= '' then
    keep(job, how.failure)
  elseif sizes[failures] > 0 and how.why == '' and how.place ~= 'due' then
    well[#well + 1] = job
  end
  if how.missed > 0 then call('HINCRBY', skipped, 'missed:' .. job, how.missed) end
  if how.overlapped > 0 then call('HINCRBY', skipped, 'running:' .. job, how.overlapped) end
  local streak, tried = how.streak, nil
  if owed then
    -- If this run is to happen again, that is the one that was asked for.
    local goes_on = not one_off(schedule)
    tried = goes_on and again(due, how)
    if not tried then streak = goes_on and schedule == expected and resume(due, how, occurrence) or '' end
  elseif postponed then
    streak = ''
  end
  if streak == '' then calm[#calm + 1] = job else call('HSET', streaks, job, streak) end
  if owed then
    call('ZREM', timeline, job)
    return move(job, schedule, tried or owed, 'due', home)
  elseif postponed then
    mark(job, 'TML')
    return 'timeline'
  end
  return move(job, schedule, due, how.place, home, streak ~= '' and string.match(streak, TRIED) or nil)
end

for i, job in ipairs(jobs) do
  local at = first + 4 * i - 4
  words[i] = finish(i, job, ARGV[at + 1], ARGV[at + 2], ARGV[at + 3] == '' and DONE or cjson.decode(ARGV[at + 3]))
end
land(gone, keys)
if streaking and #calm > 0 then call('HDEL', streaks, unpack(calm)) end
if #stops > 0 then call('HSET', schedules, unpack(stops)) end
if #well > 0 then
  call('HDEL', failures, unpack(well))
  call('ZREM', failure_times, unpack(well))
end
return write({'ok', table.concat(words, ' '), unpack(changed)})
