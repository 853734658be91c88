#!lua
-- set: (unknown), stopped, timeline, queue or held → timeline, queue or stopped, for each job; a
--      run in flight goes on. A paused job stays paused: in place of the timeline and the queue it
--      is held.
-- keys   schedules, statuses, timeline, queued, running, retry_states, skipped, spent, requests,
--        pauses, timers, options, data, groups, _write
-- given  request: its tag; from_now: whether occurrences count from now, so that one that has come
--        due since that was asked for is before the job is set; queues: their own; jobs, none of
--        which is there twice, each of id, schedule, queue: its number, and where they apply
--          due: a time, or 'now'; without it the job does not run
--          once: it is owed if it comes due while the job is in flight
--          keeps: it keeps its place if it has this schedule already; rests: if it has this
--            schedule already, it also
--          stays as it is where it has failed for good, and where it is stopped and the schedule
--            never runs
--          known: the options for which its due time was computed; options: what becomes of them,
--            or false;
--          moves: whether that changes the due times of the schedule; data: the same as options,
--            but unconditionally
--          group: the record of whose row it is, or false
--          skipped: {reason: how many occurrences before the due time do not run}
--          paused: the record of the pause that a job that is new has at once, with nothing held
--          stays: if there is such a job, only its options, data and group are set
--          span: how many bytes stand before and after the anchor, if the schedule was anchored
--            just now
-- returns {'ok', job, why, what, …}: those that were left as they are, because they have other
--         options than known ('options', those), wait in another queue than their own ('queue',
--         that), or are due by now ('due', '')
local ids, texts, calm, gone, changed, reply = {}, {}, {}, {}, {}, {'ok'}
for i, job in ipairs(given.jobs) do ids[i] = job.id end
local entries, before = call('HMGET', queued, unpack(ids)), call('HMGET', schedules, unpack(ids))
local records, trying = call('HMGET', running, unpack(ids)), call('HLEN', retry_states) > 0
local paused = call('HLEN', pauses) > 0 and call('HMGET', pauses, unpack(ids)) or {}
local stored = call('HLEN', options) > 0 and call('HMGET', options, unpack(ids)) or {}
local besides = {  -- what becomes of a job besides its schedule
  options = {key = options, new = {}, gone = {}}, data = {key = data, new = {}, gone = {}},
  group = {key = groups, new = {}, gone = {}},
}

local function refusal(job, home, own)
  if (own or false) ~= (job.known or false) and (own or false) ~= job.options then return 'options', own or '' end
  if home and home ~= queue[job.queue].name then return 'queue', home end
  if given.from_now and not job.once and job.due and job.due ~= 'now' and job.due <= now then return 'due', '' end
end

local function has_schedule(job, old)
  local head, tail = unpack(job.span or {})
  if not head or not old then return old == job.schedule end
  return #old > head + tail and old:sub(1, head) == job.schedule:sub(1, head)
    and (tail == 0 or old:sub(-tail) == job.schedule:sub(-tail))
end

local function wait_until(due, job)  -- or, with nil, for nothing any more
  if job.pause then return hold(job.id, job.pause, due and stamp(due) or '-') end
  if due then note(waits, stamp(due), job.id) else change('ZREM', timeline, {job.id}) end
end

local function set_in_flight(job, run, due, same)  -- returns whether nothing has become of it
  local owed, missed = run.next:find('^due:'), run.next:find('^from:')
  local at_once, given_up = due and due <= now and job.once, owed or missed
  if at_once and not job.pause then
    given_up = missed  -- what is owed is still
    run.next = 'due:' .. stamp(due)
    wait_until(nil, job)
  elseif due and due <= now and not (at_once or same or job.due == 'now') then
    run.next = 'from:' .. stamp(due)  -- it comes when the run ends, as it would come from a queue
    wait_until(nil, job)
  elseif at_once or not same or not due or job.moves then
    local waits_on = due and (due > now or at_once)
    run.next = waits_on and job.once and 'once' or 'set'
    wait_until(waits_on and due, job)
  else
    given_up = false
  end
  if given_up then count(WITHDRAWN, job.id, 1) end
  change('HSET', running, {job.id, record_of(run)})
  if call('HEXISTS', statuses, job.id) == 0 then mark(job.id, WRK) end  -- it was unset during the run
  return given_up == false
end

local function set_idle(job, due, place, same, known)  -- returns whether it stays in its place
  local held = job.pause and tonumber(job.pause.due)
  local waited = held and event_of(call('HGET', statuses, job.id)) == ENQ  -- in a queue, until the job was paused
  if (waited or place) and due and same then return true end
  if held and (waited or held <= now) then count(WITHDRAWN, job.id, 1) end
  local home = queue[job.queue]
  if place then
    count(WITHDRAWN, job.id, 1)
    if due and due <= now then return wait_in(home, job.id, stamp(due)) end  -- in its turn
    -- Nothing is looked for in a list: its entry stays there, as a tombstone.
    change('HDEL', queued, {job.id})
    change('SADD', home.tombstones, {job.id})
  end
  if due and (due > now or job.pause) then
    wait_until(due, job)
    return mark(job.id, TML)
  end
  if held then wait_until(nil, job) end
  if known then gone[#gone + 1] = job.id end
  if due then enqueue(job.id, stamp(due), home) else mark(job.id, STP) end
end

local describe = given.who and function(job, old, kept, stored)  -- what is to change of a job; '' for nothing
  local parts, names, sorted = {}, {}, {}
  if not kept then parts[1] = (old and old .. ' -> ' or '') .. clip(job.schedule, 180) end
  if job.options ~= nil then
    local was, is = object_of(stored), object_of(job.options)
    for name, value in pairs(was) do if is[name] ~= value then names[name] = true end end
    for name, value in pairs(is) do if was[name] ~= value then names[name] = true end end
  end
  for name in pairs(names) do sorted[#sorted + 1] = tostring(name) end
  table.sort(sorted)
  if #sorted > 0 then parts[#parts + 1] = 'options changed: ' .. table.concat(sorted, ', ') end
  if job.data ~= nil and call('HGET', data, job.id) ~= job.data then parts[#parts + 1] = 'data changed' end
  return table.concat(parts, '; ')
end

local function pause_at_once(job)
  job.pause = pause_of(job.paused)
  hold(job.id, job.pause, '-')
  local ends = tonumber(job.pause.till)
  if ends then
    wake_dispatcher(timers, ends)
    change('ZADD', timers, {job.pause.till, 'job:' .. job.id})
  end
end

-- Whether a job that has this schedule already stays as it is: in its place, or at rest.
local function stays(job, waits)
  if job.keeps and (waits or call('ZSCORE', timeline, job.id) or job.pause and job.pause.due ~= '-') then return true end
  local event = job.rests and not waits and event_of(call('HGET', statuses, job.id))
  return event == DIE or event == STP and not job.due
end

for i, job in ipairs(given.jobs) do
  local id, run, same, _, home = job.id, run_of(records[i]), has_schedule(job, before[i]), waiting_of(entries[i])
  local due = job.due == 'now' and now or job.due
  if paused[i] then job.pause = pause_of(paused[i]) end
  local refused, detail = refusal(job, home, stored[i])
  if job.moves then job.moves = (stored[i] or false) ~= job.options end  -- it may have them already
  local kept = before[i] and job.stays or same and not job.moves and stays(job, run or home)
  if describe and not refused then
    local said = describe(job, before[i] and not same and clip(before[i], 180), kept, stored[i])
    if said ~= '' then note(changed, id, said) end
  end
  if refused then
    note(reply, id, refused)
    reply[#reply + 1] = detail
  elseif job.options ~= nil or job.data ~= nil or job.group ~= nil then
    for name, found in pairs(besides) do
      local text = job[name]
      if text then note(found.new, id, text) elseif text == false then found.gone[#found.gone + 1] = id end
    end
  end
  if not (refused or kept) then
    note(texts, id, job.schedule)
    calm[#calm + 1] = id
    if job.paused and not before[i] then pause_at_once(job) end
    local stayed
    if run then stayed = set_in_flight(job, run, due, same) else stayed = set_idle(job, due, home, same, before[i]) end
    for reason, number in pairs(not stayed and job.skipped or {}) do count(reason, id, number) end
  end
end
if is_repeated() then return reply end  -- it must not start a second run
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
