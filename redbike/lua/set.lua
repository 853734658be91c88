#!lua
-- set: (unknown), stopped, timeline or queue → timeline, queue or stopped, for each job; a run in flight goes on.
-- KEYS  common, requests, then queue and wake of each queue
-- ARGV  now ('' = Redis' clock), request tag, '1' if occurrences count from now: one that has come due since that was
--       asked for is before the job is set; how many queues, their names, then for each job, none of which is there
--       twice: id, schedule, due ('' = none, 'now', or a time; then '@HEAD,TAIL' if the schedule was anchored just
--       now, between that many bytes at its beginning and its end; then '!' when it is owed if it comes due while the
--       job is in flight; then '=' when a job that has this schedule already keeps its place, or '==' when it does so
--       also if it has failed for good), number of its queue
-- returns {'ok', job, queue, ...}: those that were left as they are, because they wait in another queue than their own,
--         or, with '' for the queue, because their due time has passed meanwhile.
local requests = KEYS[12]
local now, request, from_now, count = clock(ARGV[1]), ARGV[2], ARGV[3] == '1', tonumber(ARGV[4])
local jobs, first = {}, 5 + count
for i = first, #ARGV, 4 do jobs[#jobs + 1] = ARGV[i] end
local queued_for, before, records = fetch(queued, jobs), fetch(schedules, jobs), fetch(running, jobs)
check_types()
expect('zset', requests)
expect('list', unpack(KEYS, 13))
local reply, at_home = {'ok'}, {}
for i, job in ipairs(jobs) do
  records[i] = records[i] and string.match(records[i], RUN) and records[i]  -- a damaged one is none
  local home = queued_for[i] and (string.match(queued_for[i], '^%S+ (.*)$') or '')  -- '' for a damaged record
  at_home[i] = not queued_for[i] or home == ARGV[4 + tonumber(ARGV[first + 4 * i - 1])]
  if not at_home[i] then
    note(reply, job, home)
  elseif from_now then
    local moment = ARGV[first + 4 * i - 2]
    local due = tonumber(string.match(moment, '^%d+%.%d+') or nil)
    if due and due <= now and not string.find(moment, '!', 1, true) then
      at_home[i] = false
      note(reply, job, '')
    end
  end
end

-- A repeated request must not start a second run. The newest 10,000 requests are remembered.
if call('ZADD', requests, 'NX', stamp(now), request) == 0 then return reply end
if sizes[requests] >= 10000 then call('ZREMRANGEBYRANK', requests, 0, -10001) end

local function set_in_flight(job, record, due, once, same)
  local tag, start, deadline, was_due, failures, losses, next, home = string.match(record, RUN)
  local owed = string.sub(next, 1, 4) == 'due:'
  if due and due <= now and once then
    next = 'due:' .. stamp(due)
    call('ZREM', timeline, job)
  elseif not same or not due then
    next = (due and due > now and once) and 'once' or 'set'
    call('ZREM', timeline, job)
    if due and due > now then postpone(job, stamp(due)) end
    if owed then call('HINCRBY', skipped, 'withdrawn:' .. job, 1) end
  end
  call('HSET', running, job, table.concat({tag, start, deadline, was_due, failures, losses, next, home}, ' '))
  if call('HEXISTS', statuses, job) == 0 then mark(job, 'WRK') end  -- it was unset during the run
end

local function cut(text, last)  -- without its last character, if it is that one
  if string.sub(text, -1) == last then return string.sub(text, 1, -2), true end
  return text, false
end

local function anchored(moment, schedule, old)  -- its due time, and whether the old schedule has but another anchor
  local due, head, tail = string.match(moment, '^(.*)@(%d+),(%d+)$')
  head, tail = tonumber(head), tonumber(tail)
  return tonumber(due), old and #old > head + tail and string.sub(old, 1, head) == string.sub(schedule, 1, head)
    and (tail == 0 or string.sub(old, -tail) == string.sub(schedule, -tail))
end

local texts, calm, gone = {}, {}, {}
for i, job in ipairs(jobs) do
  if at_home[i] then
    local schedule, moment, number = ARGV[first + 4 * i - 3], ARGV[first + 4 * i - 2], tonumber(ARGV[first + 4 * i - 1])
    local name, queue, wake = ARGV[4 + number], KEYS[11 + 2 * number], KEYS[12 + 2 * number]
    local once, keeps, rests
    moment, keeps = cut(moment, '=')
    moment, rests = cut(moment, '=')
    moment, once = cut(moment, '!')
    local due, same, stays = moment == 'now' and now or tonumber(moment), before[i] == schedule, false
    if not due and moment ~= '' then due, same = anchored(moment, schedule, before[i]) end
    keeps = keeps and same and (records[i] or queued_for[i] or call('ZSCORE', timeline, job)
      or rests and string.sub(call('HGET', statuses, job) or '', 1, 4) == 'DIE:')
    if not keeps then
      note(texts, job, schedule)
      calm[#calm + 1] = job
    end
    if keeps then
      stays = true
    elseif records[i] then
      set_in_flight(job, records[i], due, once, same)
    elseif queued_for[i] then
      stays = due and (due <= now or same)
      if not stays then
        withdraw(job, queue, name)
        call('HINCRBY', skipped, 'withdrawn:' .. job, 1)
      end
    end
    if not stays and not records[i] then
      if not due then
        mark(job, 'STP')
      elseif due <= now then
        enqueue(job, stamp(due), name, queue, wake)
      else
        postpone(job, stamp(due))
        mark(job, 'TML')
      end
      if not due or due <= now then gone[#gone + 1] = job end
    end
  end
end
if #texts > 0 then call('HSET', schedules, unpack(texts)) end
if streaking and #calm > 0 then call('HDEL', streaks, unpack(calm)) end
if #gone > 0 then call('ZREM', timeline, unpack(gone)) end
return write(reply)
