#!lua flags=no-writes
-- find_alerts: reads a part of -alerts: the alerts that were sent, and the jobs that alert if they
--              are late and whose occurrence is due, or that wait for others; changes nothing.
-- keys   schedules, timeline, queued, running, retry_states, pauses, options, alerts
-- given  cursor, count: as HSCAN takes them
-- returns {'ok', JSON of cursor: where the next part begins, '0' for the end; now; told: field,
--         record, …; idle: jobs that have no such options any more, and of which nothing is told;
--         due: of each job its id, options, schedule, due time on the timeline, and records in
--         -queued, -running, -retry-states and -pauses, false for what there is not; what is held
--         of a paused job is in none of the other places}
local PART = 500  -- jobs in one look
local found = call('HSCAN', alerts, given.cursor, 'COUNT', given.count)
local fields, told, idle, pending = found[2], {}, {}, {}

local function look(jobs, records)
  local own, watched = call('HMGET', options, unpack(jobs)), {}
  for i, job in ipairs(jobs) do
    if alerts_if_late(own[i]) then
      watched[#watched + 1] = {job, own[i]}
    elseif records[i] == '{}' then
      idle[#idle + 1] = job
    end
    if records[i] ~= '{}' then note(told, 'job:' .. job, records[i]) end
  end
  for _, each in ipairs(watched) do
    local job = each[1]
    local score, run = call('ZSCORE', timeline, job), call('HGET', running, job)
    local entry, kept = call('HGET', queued, job), call('HGET', retry_states, job)
    local at = tonumber(score or nil)
    if run or entry or at and (kept or at <= now or at >= AWAITED) then
      local text, pause = call('HGET', schedules, job), call('HGET', pauses, job)
      pending[#pending + 1] = {job, each[2], text, score and stamp(score), entry, run, kept, pause}
    end
  end
end

local jobs, records = {}, {}
for i = 1, #fields, 2 do
  local job = fields[i]:match('^job:(.*)$')
  if job then
    jobs[#jobs + 1], records[#jobs + 1] = job, fields[i + 1]
  elseif not fields[i]:find('^missed:') then
    note(told, fields[i], fields[i + 1])
  end
end
for first = 1, #jobs, PART do
  local last = math.min(first + PART - 1, #jobs)
  look({unpack(jobs, first, last)}, {unpack(records, first, last)})
end
return {'ok', cjson.encode({
  cursor = found[1], now = stamp(now), told = told, idle = idle, due = pending
})}
