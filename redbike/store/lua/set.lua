#!lua
-- set: (unknown), stopped, timeline, queue or held → timeline, queue or stopped, for each job; a
--      run in flight goes on. A paused job stays so: held, not on the timeline or in a queue.
-- keys   schedules, timeline, queued, running, retry_states, skipped, spent, requests, pauses,
--        options, data, groups, following, followers, _write
-- given  request: its tag; from_now: whether occurrences count from now, not from when that was
--        asked for; queues: their own; jobs, none of them twice, each of id, schedule, queue: its
--        number, and where they apply
--          due: a time, or 'now'; without it the job does not run
--          mode: see SetMode in jobs.py; found: the schedule without which it is not set
--          once: it is owed if it comes due while it is in flight
--          known: the options for which its due time was computed
--          options: what becomes of them, or false; data: the same, but unconditionally
--          new_jitter: whether the options change the due times of the schedule
--          group: the record of whose row it is, or false
--          follows: parents and when, as in -following; member: its group from now on, or ''
--          skipped: {reason: how many occurrences before the due time do not run}
--          paused: the record of the pause that a job that is new has at once, with nothing held
--          span: how many bytes stand before and after an anchor that is new
-- returns {'ok', job, why, what, …}: those that were left as they are: they have other options
--         ('options', those), another 'schedule' (that) or 'queue' in which they wait (that), are
--         'due' now (''), 'missing' (''), or wait for themselves ('cycle', all of it, by newlines)

-- Phase 1: what is there.
local ids, texts, calm, changed, reply = {}, {}, {}, {}, {'ok'}
for i, job in ipairs(given.jobs) do ids[i] = job.id end
local entries, before = call('HMGET', queued, unpack(ids)), call('HMGET', schedules, unpack(ids))
local records, trying = call('HMGET', running, unpack(ids)), call('HLEN', retry_states) > 0
local paused, stored = fetch_any(pauses, ids), fetch_any(options, ids)
local linked, tried = fetch_any(following, ids), {}
if trying then tried = call('HMGET', retry_states, unpack(ids)) end

for id, at in pairs(given.expiring or {}) do
  if type(at) == 'number' then given.expiring[id] = stamp(now + at) end  -- it is due now
end

-- Phase 2: what becomes of each job.
for i, job in ipairs(given.jobs) do
  local run, same = run_of(records[i]), has_schedule(job, before[i])
  local due, _, home = job.due == 'now' and now or job.due, waiting_of(entries[i])
  if paused[i] then job.pause = pause_of(paused[i]) end
  job.is_tried = tried[i] and retry_state_of(tried[i]).due ~= '-'
  -- It may have these options already.
  job.new_jitter = job.new_jitter and (stored[i] or false) ~= job.options
  local refused, detail = refusal(job, run, home, stored[i], before[i], same)
  local turned = not same and has_links(job, before[i], linked[i])
  local kept = before[i] and job.mode == 'keep_schedule'
    or (same or turned) and not (job.new_jitter and job.due) and is_kept(job, run or home)
  if describe and not refused then
    local said = describe(job, not same and before[i], kept and not turned, stored[i])
    if said ~= '' then note(changed, job.id, said) end
  end
  if refused then
    note(reply, job.id, refused)
    reply[#reply + 1] = detail
  elseif job.options ~= nil or job.data ~= nil or job.group ~= nil then
    set_besides(job, entries[i])
  end
  if not (refused or kept) then
    note(texts, job.id, job.schedule)
    calm[#calm + 1] = job.id
    if job.follows or linked[i] then due, same = set_links(job, run, due, same or turned) end
    if job.paused and not before[i] then pause_at_once(job) end
    local stayed = run and set_in_flight(job, run, due, same)
      or not run and set_idle(job, due, home, same, before[i])
    for reason, number in pairs(not stayed and job.skipped or {}) do
      count(reason, job.id, number)
    end
  elseif job.follows and not refused then
    keep_links(job, run, turned)
  end
end
if is_repeated() then return reply end  -- it must not start a second run

-- Phase 3: what changes for all of them.
if follows then follows.settle() end
for _, found in pairs(besides) do
  if #found.new > 0 then change('HSET', found.key, found.new) end
  if #found.gone > 0 then change('HDEL', found.key, found.gone) end
end
if #texts > 0 then change('HSET', schedules, texts) end
if trying and #calm > 0 then change('HDEL', retry_states, calm) end
if #calm > 0 and call('ZCARD', spent) > 0 then change('ZREM', spent, calm) end
if #gone > 0 then change('ZREM', timeline, gone) end
if #changed > 0 then
  local done = {}
  for i = 1, #changed, 2 do done[#done + 1] = changed[i] end
  log_change('set', done, #done == 1 and changed[2] or 'with others')
end
return write(reply)
