#!lua flags=no-writes
-- triage: which jobs may not be well, of a part of those that a pattern names; changes nothing.
-- keys   schedules, statuses, timeline, queued, running, retry_states, skipped, failure_times,
--        pauses, options, history
-- given  cursor, pattern, count: as HSCAN takes them; latest: a job that should have run by then
--        is late
-- returns {'ok', JSON of cursor: where the next part begins, '0' for the end; number: of the jobs;
--         bad: ids of those that are not well by what is archived; passed: for each of the others
--         that has occurrences which were skipped, and does not run, its id, when its last run
--         that is kept began, its schedule and its options, or false}
local PART = 1000  -- jobs in one look
-- The number of an outcome, below the marks of what stands behind a run; places: see history.py.
local OK, MARKS, TOOK, DUE, LONG, TICKS = 0, 64, 18, 2, 2^31, 10000
local found = call('HSCAN', statuses, given.cursor, 'MATCH', given.pattern, 'COUNT', given.count)
local fields, bad, passed, reasons = found[2], {}, {}, {}
-- What no job has is not looked up.
local has = {}
for _, key in ipairs({queued, running, pauses, retry_states}) do
  has[key] = call('HLEN', key) > 0
end
local failing = call('ZCARD', failure_times) > 0
for i, reason in ipairs({MISSED, RUNNING, LATE, PAUSED, CANCELLED, EXPIRED}) do
  local total = call('HGET', skipped, reason .. ':')
  if tonumber(total or 0) ~= 0 then reasons[#reasons + 1] = reason .. ':' end
end
local function start_of(value)
  local due, waited = struct.unpack('<dI4', value, DUE + 1)
  return due + (waited < LONG and waited / TICKS or waited - LONG)
end
local function read(key, jobs) return has[key] and call('HMGET', key, unpack(jobs)) or {} end

local function look(jobs, states)
  local waiting, runs = read(queued, jobs), read(running, jobs)
  local paused, tried = read(pauses, jobs), read(retry_states, jobs)
  local dues, past = call('ZMSCORE', timeline, unpack(jobs)), call('HMGET', history, unpack(jobs))
  local failed = failing and call('ZMSCORE', failure_times, unpack(jobs)) or {}
  local skips = {}
  for r, reason in ipairs(reasons) do
    local names = {}
    for i, job in ipairs(jobs) do names[i] = reason .. job end
    skips[r] = call('HMGET', skipped, unpack(names))
  end
  local some, lasts = {}, {}
  for i, job in ipairs(jobs) do
    local run, pause, value = run_of(runs[i]), paused[i] and pause_of(paused[i]), past[i] or ''
    local outcome = value:byte(TOOK + 1)
    local event, waits = event_of(states[i]), due_of(waiting[i])
    local due = waits and waits_since(waits, states[i]) or tonumber(dues[i] or nil)
    local held = pause and tonumber(pause.due)
    local dropped = event == STP and tried[i]
    local late = held and held <= given.latest or not run and due and due <= given.latest
      or run and tonumber(run.deadline) <= given.latest
    local ended_badly = event == BAD or event == DIE
      or outcome and outcome % MARKS ~= OK
    if ended_badly or failed[i] or late or dropped then
      bad[#bad + 1] = job
    elseif not run then
      for r = 1, #reasons do
        if tonumber(skips[r][i] or 0) ~= 0 then
          some[#some + 1] = job
          lasts[#some] = outcome and stamp(start_of(value)) or false
          break
        end
      end
    end
  end
  if #some == 0 then return end
  local texts, own = call('HMGET', schedules, unpack(some)), call('HMGET', options, unpack(some))
  for i, job in ipairs(some) do
    note(passed, job, lasts[i])
    note(passed, texts[i], own[i])
  end
end

for first = 1, #fields, 2 * PART do
  local jobs, states = {}, {}
  for i = first, math.min(first + 2 * PART, #fields) - 1, 2 do
    jobs[#jobs + 1], states[#states + 1] = fields[i], fields[i + 1]
  end
  if #jobs > 0 then look(jobs, states) end
end
return {'ok', cjson.encode({cursor = found[1], number = #fields / 2, bad = bad, passed = passed})}
