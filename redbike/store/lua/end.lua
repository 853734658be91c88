#!lua flags=allow-oom
-- end: in flight → timeline, queue, held, stopped or (unknown), for runs of one tag.
-- keys   schedules, running, batches, leases, retry_states, failures, failure_times, spent, slots,
--        pauses, outputs, journal, untold, following, followers, inflight, _forget, _write
-- given  tag; late: seconds since they were over; deadline: the first of theirs; most: failures
--        that are kept; whole: whether none ends while one is 'changed'; queues: their own; jobs;
--        of each: homes: its queue, if there are several; schedules: that from which its place was
--        computed; dues: '' (never), 'spentN' (never; forgotten in N seconds, or 'never'), 'againN'
--        (so if it is a one-off that had ended), '+n' (in n seconds) or a time; how: {job: how it
--        ended, see runs.py}; `drops`: those of _forget.lua are the last keys; ARGV[2]: an entry
-- returns {'ok', or 'kept' when none has ended, a word for each, for each 'changed' its schedule,
--         what was left behind, and its options}; a word is a place, or see `Answer` in run.py
local USUAL = {}  -- an end that needs no further words
local TELLING = 30  -- seconds until others may tell what has ended

-- Phase 1: what is there.
local tag, jobs, homes, expected = given.tag, given.jobs, given.homes, given.schedules
local records, texts = call('HMGET', running, unpack(jobs)), call('HMGET', schedules, unpack(jobs))
local special = call('EXISTS', pauses, retry_states, failures, slots, followers) > 0  -- mostly 0
local paused = special and fetch_any(pauses, jobs) or {}
local trying = special and call('HLEN', retry_states) > 0
local failing = special and call('HLEN', failures) > 0
local linked = special and call('EXISTS', followers) == 1
local in_time, head = alive and now - given.late < given.deadline, tag .. ' '
for _, home in ipairs(queue) do home.tail, home.size = end_of(home.name), #end_of(home.name) end

-- Phase 2: whether each run ends, and where its job goes.
local words, gone, calm, well, printed, failed, failed_at = {}, {}, {}, {}, {}, {}, {}
for i = 1, #jobs do
  local job, record, schedule, run = jobs[i], records[i], texts[i], nil
  local how = given.how[job] or USUAL
  local home, pause = queue[homes[i] or 1], paused[i] and pause_of(paused[i])
  local usual = in_time and how == USUAL and schedule == expected[i] and not pause and record
  if not (usual and record:find(head, 1, true) == 1 and record:sub(-home.size) == home.tail) then
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
    if how ~= USUAL then
      if how.unbegun and make_limiter() then limiter.end_unbegun(home) end
      if how.drops then
        change('HDEL', KEYS[#KEYS], {job})
        if how.drops == 'all' then change('HDEL', KEYS[#KEYS - 1], {job}) end
      end
      if words[i] ~= 'unset' then
        for reason, number in pairs(how.skipped or {}) do count(reason, job, number) end
        if how.retry_state then change('HSET', retry_states, {job, how.retry_state}) end
        if how.output then
          local old, few = call('HGET', outputs, job) or '', '^' .. ('\30[^\30]*'):rep(how.older)
          note(printed, job, how.output .. (old:match(few) or old:match('^\30.*') or ''))
        end
        if how.failure then note(failed, job, how.failure) note(failed_at, stamp(now), job) end
      end
    end
  end
end
if given.whole and #changed > 0 then return {'kept', table.concat(words, ' '), unpack(changed)} end

-- Phase 3: what changes.
if linked or follows then note_ends(jobs, words, records, given.how, stops) end
local entry = (forgotten or #gone < #jobs) and marks_of(words) .. ARGV[2] or ARGV[2]
if #gone > 0 then
  if tells(tag) then
    -- The worker tells it at once; a dispatcher has lost runs, and tells nobody.
    local at = stamp(now + (given.whole and 0 or TELLING))
    change('HSET', untold, {tag .. ' ' .. gone[1], untold_record_of(at, 0, entry)})
  end
  change('RPUSH', journal, {entry})
  leave_flight(tag, gone, special and call('EXISTS', slots) == 1)
end
if #calm > 0 then change('HDEL', retry_states, calm) end
if #stops > 0 then change('HSET', schedules, each_with(stops, STOP)) end
if #spends > 0 then change('ZADD', spent, spends) end
if #printed > 0 then change('HSET', outputs, printed) end
if #well > 0 then change('HDEL', failures, well) change('ZREM', failure_times, well) end
if #failed > 0 then change('HSET', failures, failed) change('ZADD', failure_times, failed_at) end
write()

-- Phase 4: what must not undo that.
if #gone > 0 then redis.pcall('SPUBLISH', journal, entry) end
if #failed > 0 then drop_old_failures(given.most, #failed / 2) end
return {'ok', table.concat(words, ' '), unpack(changed)}
