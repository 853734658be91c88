#!lua flags=allow-oom
-- dispatch: timeline → queue, for a batch of jobs that are due; a job in flight is not enqueued twice, and one without
--           a queue stays on the timeline, to be tried again.
-- KEYS  common, then queue and wake of each queue
-- ARGV  now, how many queues, for each of them its name and how many jobs go there, then how many have none, and for
--       each job, queue by queue and those without one last: id and instant on the timeline, which is its due time
--       unless an occurrence is tried again
-- returns {'ok', how many were moved}; a job that is no longer due then is passed over, so repeating moves nothing twice.
check_types()
local now, count = clock(ARGV[1]), tonumber(ARGV[2])
expect('list', unpack(KEYS, 12))
local first, jobs, size = 4 + 2 * count, {}, 0
for i = first, #ARGV, 2 do
  size = size + 1
  jobs[size] = ARGV[i]
end
local scores, records = call('ZMSCORE', timeline, unpack(jobs)), call('HMGET', running, unpack(jobs))
local queued_for = call('HMGET', queued, unpack(jobs))
local tries = streaking and call('HMGET', streaks, unpack(jobs)) or {}
local gone, moved = {}, 0
local PAUSE = 2  -- seconds until a job whose queue could not be told is tried again

local function overtake(job, due, record)  -- the last occurrence is still running
  local tag, start, deadline, was_due, failures, losses, next, home = string.match(record, RUN)
  if next == 'once' then
    next = 'due:' .. stamp(due)
    call('HSET', running, job, table.concat({tag, start, deadline, was_due, failures, losses, next, home}, ' '))
  else
    call('HINCRBY', skipped, 'running:' .. job, 1)
  end
end

local function put_off(job, due, streak)  -- it keeps its due time
  local failures, losses, tried, _, after = string.match(streak or '', '^(%d+) (%d+) (%d+) (%S+) (%S+)')
  if not failures then failures, losses, tried, after = 0, 0, 0, '-' end
  call('HSET', streaks, job, table.concat({failures, losses, tried, stamp(due), after}, ' '))
  postpone(job, stamp(now + PAUSE))
end

local i = 0
for number = 1, count + 1 do
  local name, queue, wake = ARGV[1 + 2 * number], KEYS[10 + 2 * number], KEYS[11 + 2 * number]
  local many = tonumber(ARGV[number > count and first - 1 or 2 + 2 * number])
  for _ = 1, many do
    i = i + 1
    local job, text = jobs[i], ARGV[first + 2 * i - 1]
    local due = tonumber(text)
    if due <= now and scores[i] and (scores[i] == text or tonumber(scores[i]) == due) then
      local tried = tries[i] and string.match(tries[i], TRIED)
      if number > count and not records[i] then
        put_off(job, tonumber(tried) or due, tries[i])
      else
        gone[#gone + 1] = job
        if records[i] then
          overtake(job, due, records[i])
        elseif not queued_for[i] then
          enqueue(job, tried or stamp(due), name, queue, wake)
          moved = moved + 1
        end
      end
    end
  end
end
if #gone > 0 then call('ZREM', timeline, unpack(gone)) end
return write({'ok', moved})
