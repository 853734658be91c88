#!lua flags=allow-oom
-- dispatch: timeline → queue, for a batch of jobs that are due; a job in flight is not enqueued twice.
-- KEYS  common, then queue and wake of each queue
-- ARGV  now, how many queues, their names, then for each job: id, due time, number of its queue (0 = it has none)
-- returns {'ok', how many were moved}; a job that is no longer due then is passed over, so repeating moves nothing twice.
check_types()
local now, count = clock(ARGV[1]), tonumber(ARGV[2])
expect('list', unpack(KEYS, 11))
local jobs = {}
for i = 3 + count, #ARGV, 3 do jobs[#jobs + 1] = ARGV[i] end
local scores, records = call('ZMSCORE', timeline, unpack(jobs)), call('HMGET', running, unpack(jobs))
local known, queued_for = call('HMGET', schedules, unpack(jobs)), call('HMGET', queued, unpack(jobs))
local gone, moved = {}, 0

local function overtake(job, due, record)  -- the last occurrence is still running
  local tag, start, deadline, was_due, failures, losses, next, home = string.match(record, RUN)
  if next == 'once' then
    next = 'due:' .. stamp(due)
    call('HSET', running, job, table.concat({tag, start, deadline, was_due, failures, losses, next, home}, ' '))
  else
    call('HINCRBY', skipped, 'running:' .. job, 1)
  end
end

for i, job in ipairs(jobs) do
  local at = 3 * i + count
  local due, number = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  if tonumber(scores[i] or nil) == due and due <= now then
    gone[#gone + 1] = job
    if records[i] then
      overtake(job, due, records[i])
    elseif not known[i] then
      call('HDEL', statuses, job)
    elseif number == 0 then
      mark(job, 'BAD')
    elseif not queued_for[i] then
      enqueue(job, stamp(due), ARGV[2 + number], KEYS[9 + 2 * number], KEYS[10 + 2 * number])
      moved = moved + 1
    end
  end
end
if #gone > 0 then call('ZREM', timeline, unpack(gone)) end
return write({'ok', moved})
