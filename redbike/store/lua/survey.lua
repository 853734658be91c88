#!lua flags=no-writes
-- survey: what a dispatcher has to do; changes nothing.
-- keys   schedules, timeline, running, batches, leases, retry_states, wakeup, dispatched, spent,
--        control, queue_limits, slots, timers, options, workers, journal
-- given  due: how many due jobs at most; passed_over: how many of the first to leave out; lost:
--        after how many lost runs no further tag is looked at; coming: how many jobs of those that
--        are due next; timers: how many
-- returns {'ok', JSON of now, control, dispatched (until when), next_lease, next_timer, timers:
--         those that have come, due: [job, due time, …], coming: the same, ripe: whether a one-off
--         is to be forgotten, lost: for each tag whose worker is not heard of any more {tag, jobs,
--         runs, schedules, retry states, options, worker: record of the process that has taken
--         them}, journal: how many entries it has}; what is not there is missing. Nothing is due
--         while all is paused.
local MOST = 1000  -- jobs that are told of each tag: where there are more, its list is damaged
local instant, lost, many = stamp(now), {}, 0
-- Not while it is idle, which is to cost little.
local special = call('EXISTS', timers, queue_limits, leases) > 0
local alarmed = special and call('ZCARD', timers) > 0

local function first_until_now(key, most)
  return call('ZRANGEBYSCORE', key, '-inf', instant, 'LIMIT', 0, most)
end

local function next_score(key)
  return call('ZRANGEBYSCORE', key, '(' .. instant, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
end

local function list_jobs(first, last, passed_over, most)  -- with their due times
  return call('ZRANGEBYSCORE', timeline, first, last, 'WITHSCORES', 'LIMIT', passed_over, most)
end

for _, tag in ipairs(special and first_until_now(leases, given.lost) or {}) do
  local jobs = jobs_of(call('HGET', batches, tag))
  for i = #jobs, MOST + 1, -1 do jobs[i] = nil end
  local held = {tag = tag, jobs = jobs}
  if #jobs > 0 then
    held.worker = call('HGET', workers, owner_of(tag)) or nil
    local columns = {runs = running, schedules = schedules, retry_states = retry_states}
    if call('HLEN', options) > 0 then columns.options = options end
    for name, key in pairs(columns) do
      held[name] = call('HMGET', key, unpack(jobs))
    end
  end
  lost[#lost + 1], many = held, many + #jobs
  if many >= given.lost then break end
end
local limiter = special and make_limiter()
local held = limiter and limiter.is_paused(limiter.limits_of(''))
return {'ok', cjson.encode({
  now = instant, control = call('GET', control) or nil, lost = lost,
  journal = call('LLEN', journal), dispatched = call('ZSCORE', dispatched, 'until') or nil,
  ripe = #first_until_now(spent, 1) > 0,
  timers = alarmed and first_until_now(timers, given.timers) or nil,
  next_timer = alarmed and next_score(timers) or nil,
  next_lease = special and next_score(leases) or nil,
  due = not held and list_jobs('-inf', instant, given.passed_over, given.due) or {},
  coming = not held and list_jobs('(' .. instant, '+inf', 0, given.coming) or {}
})}
