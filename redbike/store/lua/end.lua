#!lua flags=allow-oom
-- end: in flight → timeline, queue, held, stopped or (unknown), for runs of one tag, however each
--      of them ended.
-- keys   schedules, timeline, running, batches, leases, retry_states, failures, failure_times,
--        spent, slots, pauses, options, outputs, journal, untold, inflight, _forget, _write
-- given  tag; late: seconds for which they have been over; deadline: the first of theirs; most:
--        failures that are kept; whole: whether none ends while one is 'changed'; queues: their
--        own; jobs, and of each: homes: its queue, if there are several; schedules: that from which
--        its place was computed; dues: '' (never), 'spentN' (never, for a one-off; it is forgotten
--        in N seconds, or 'never'), '+n' (in n seconds) or a time; how: {job: how it ended, see
--        runs.py}. ARGV[2]: the entry of the journal, see entries.py
-- returns {'ok', or 'kept' when none has ended, a word for each with spaces between, for each
--         'changed' its schedule, what was left behind, and its options}; a word is a place, or why
--         it is not there, see `Answer` in runs.py
local USUAL, TRIMMED = {}, 1000  -- an end that needs no further words; oldest failures that are dropped, at most
local TELLING = 30  -- seconds until others may tell what has ended
local tag, jobs, homes, expected, how_of = given.tag, given.jobs, given.homes, given.schedules, given.how
local records, texts = call('HMGET', running, unpack(jobs)), call('HMGET', schedules, unpack(jobs))
local special = call('EXISTS', pauses, retry_states, failures, slots) > 0  -- mostly no job is
local paused = special and call('HLEN', pauses) > 0 and call('HMGET', pauses, unpack(jobs)) or {}
local trying, failing = special and call('HLEN', retry_states) > 0, special and call('HLEN', failures) > 0
local alive = call('EXISTS', inflight .. tag) == 1  -- until the last deadline
local in_time, head = alive and now - given.late < given.deadline, tag .. ' '
for _, home in ipairs(queue) do home.tail, home.size = end_of(home.name), #end_of(home.name) end
local words, changed, gone, calm, well, stops, failed, failed_at, printed = {}, {}, {}, {}, {}, {}, {}, {}, {}
local spends = {}  -- when one-offs are forgotten
-- Guard: why a run cannot end like that.
local function guard(run, how)
  if not run or run.tag ~= tag then return 'stale' end
  local over = now - given.late >= tonumber(run.deadline) or given.late == 0 and not alive
  if not how.why and over then return 'overrun' end
  local heard_of = how.why == 'lost' and tonumber(call('ZSCORE', leases, tag) or 0) > now
  if how.why == 'overrun' and not over or heard_of then return 'alive' end
end
-- Conflict: what was set during the run counts, not how it ended: a schedule, an owed run, a place on the timeline.
local function conflict(job, run, how, schedule, expected, pause)
  local waits_on = pause and pause.due ~= '-' or run.next ~= '-' and call('ZSCORE', timeline, job)
  local left = left_of(run) .. (waits_on and '+timeline' or '') .. (pause and '+paused:' .. pause.since or '')
  if not schedule or schedule == expected and left == (how.left or '-') then return end
  note(changed, schedule, left)
  changed[#changed + 1] = call('HGET', options, job) or ''
  return 'changed'
end
local forgotten = false  -- whether any job is unset
-- NextState: where the job goes, by how its run ended.
local function next_state(job, how, due, home, run, pause)
  local place = how.place
  if place == 'unset' then
    forget(job)
    forgotten = true
    return 'unset'
  elseif place == 'stop' or place == 'die' or (due == '' or due:sub(1, 5) == 'spent') and place ~= 'stay' then
    local after = due:match('^spent(.*)$')
    -- A one-off that has ended would run again wherever its text is set again.
    if place == 'stop' or after then stops[#stops + 1] = job end
    if after and after ~= 'never' then note(spends, stamp(now + after), job) end
    mark(job, place == 'die' and DIE or STP)
    return 'stopped'
  end
  local at = due:sub(1, 1) == '+' and now + due or tonumber(due)
  if pause then
    -- A run is held, unless it was taken or asked for since: then somebody wants it all the same.
    local asked = run.next:find('^from:') and 0 or math.max(run.start, run.next:match('due:(%d+%.%d+)') or 0)
    if place ~= 'due' or not at or at > now or asked <= tonumber(pause.since) then
      if at then hold(job, pause, stamp(at)) end
      mark(job, TML)
      return 'held'
    end
  end
  if at and at <= now then enqueue(job, how.tried or stamp(at), home) return 'queue' end  -- a try keeps its due time
  if at then note(waits, stamp(at), job) end
  mark(job, TML)
  return 'timeline'
end
for i = 1, #jobs do
  local job, record, schedule, how, run = jobs[i], records[i], texts[i], how_of[jobs[i]] or USUAL, nil
  local pause = paused[i] and pause_of(paused[i])
  local home, usual = queue[homes[i] or 1], in_time and how == USUAL and schedule == expected[i] and not pause
  if not (usual and record and record:find(head, 1, true) == 1 and record:sub(-home.size) == home.tail) then
    run = run_of(record)
    words[i] = guard(run, how) or conflict(job, run, how, schedule, expected[i], pause)
  end
  if not words[i] then
    gone[#gone + 1] = job
    if schedule then
      words[i] = next_state(job, how, given.dues[i], home, run, pause)
    else
      words[i], forgotten = 'unset', true
    end
    if trying and not how.retry_state then calm[#calm + 1] = job end
    if failing and not (how.failure or how.why or how.retried) then well[#well + 1] = job end
    if how ~= USUAL and words[i] ~= 'unset' then
      for reason, number in pairs(how.skipped or {}) do count(reason, job, number) end
      if how.retry_state then change('HSET', retry_states, {job, how.retry_state}) end
      if how.output then note(printed, job, how.output) end
      if how.failure then note(failed, job, how.failure) note(failed_at, stamp(now), job) end
    end
  end
end
if given.whole and #changed > 0 then return {'kept', table.concat(words, ' '), unpack(changed)} end
local entry = (forgotten or #gone < #jobs) and marks_of(words) .. ARGV[2] or ARGV[2]
if #gone > 0 and tells(tag) then
  -- The worker tells it at once; a dispatcher has lost runs, and tells nobody.
  local at = stamp(now + (given.whole and 0 or TELLING))
  change('HSET', untold, {tag .. ' ' .. gone[1], untold_record_of(at, 0, entry)})
end
if #gone > 0 then change('RPUSH', journal, {entry}) leave_flight(tag, gone, special and call('EXISTS', slots) == 1) end
if #calm > 0 then change('HDEL', retry_states, calm) end
if #stops > 0 then change('HSET', schedules, each_with(stops, 'STOP')) end
if #spends > 0 then change('ZADD', spent, spends) end
if #printed > 0 then change('HSET', outputs, printed) end
if #well > 0 then change('HDEL', failures, well) change('ZREM', failure_times, well) end
if #failed > 0 then change('HSET', failures, failed) change('ZADD', failure_times, failed_at) end
write()
if #gone > 0 then redis.pcall('SPUBLISH', journal, entry) end  -- that must not undo what is done
local old = #failed > 0 and call('ZREVRANGE', failure_times, given.most, given.most + TRIMMED - 1) or {}
if #old > 0 then call('HDEL', failures, unpack(old)) call('ZREM', failure_times, unpack(old)) end
return {'ok', table.concat(words, ' '), unpack(changed)}
