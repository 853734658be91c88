#!lua flags=allow-oom
-- take: queue → in flight, the oldest job of each turn's queue, or of the first queue after it that has one.
-- KEYS  common, control, base of the in-flight keys, then queue and wake of each queue. Which jobs it will be is known
--       only here, so their in-flight keys are the declared base and an id: the same slot of a cluster, by the prefix.
-- ARGV  now, tag, control as the worker found it when it started, lease in seconds, grace after the deadline,
--       repeated ('1' = this tag may have been served already), how many jobs at most, how many queues, name and
--       timeout of each queue, then the numbers of the queues whose turns it is, over and over
-- returns {'ok', now, JSON of job, due, deadline, streak, queue name and schedule of one run after the other},
--         {'empty'}, {'halted'}, or {'again'} when there was so much to throw away that the rest is left to another call.
local control, base, tag, seen, repeated = KEYS[12], KEYS[13], ARGV[2], ARGV[3], ARGV[6] == '1'
local most, count, length = tonumber(ARGV[7]), tonumber(ARGV[8]), 0
if repeated then
  expect('hash', running, schedules, streaks)
  local runs, own, began = call('HGETALL', running), {}, nil
  for i = 1, #runs, 2 do
    local tagged, start, deadline, due, failures, losses, _, home = string.match(runs[i + 1], RUN)
    if tagged == tag then
      began = start
      note(own, runs[i], due)
      note(own, deadline, call('HGET', streaks, runs[i]) or failures .. ' ' .. losses)
      note(own, home, call('HGET', schedules, runs[i]) or '')
    end
  end
  if began then return {'ok', began, cjson.encode(own)} end
end
if size('string', control) > 0 and call('GET', control) ~= seen then return {'halted'} end
for i = 1, count do length = length + size('list', KEYS[12 + 2 * i]) end
if length == 0 then return {'empty'} end  -- idle workers ask for no more than this
check_types()
expect('list', unpack(KEYS, 14))
local now, lease, grace = clock(ARGV[1]), tonumber(ARGV[4]), tonumber(ARGV[5])

local turns, position, read = {}, 0, {}
for i = 9 + 2 * count, #ARGV do turns[#turns + 1] = tonumber(ARGV[i]) end
local chunk = count == 1 and most or math.ceil(most / #turns)
local started = stamp(now)
for i = 1, count do
  local name, timeout = ARGV[7 + 2 * i], tonumber(ARGV[8 + 2 * i])
  local deadline = stamp(now + timeout)
  read[i] = {
    jobs = {}, left = 0, seen = 0, used = 0, name = name, deadline = deadline,
    lease = stamp(math.min(now + lease, now + timeout + grace)),
    expiry = string.format('%.0f', math.max(1, math.floor(timeout * 1000))),
    head = tag .. ' ' .. started .. ' ' .. deadline .. ' ', tail = ' - ' .. name
  }
end

local function peek(queue, number)  -- the next job of a queue, which is left there
  if queue.left == 0 and not queue.ended then
    local many = math.max(chunk, math.min(queue.seen, 64))
    queue.jobs = call('LRANGE', KEYS[12 + 2 * number], -queue.seen - many, -queue.seen - 1)
    queue.left = #queue.jobs
    queue.seen, queue.ended = queue.seen + queue.left, queue.left < many
  end
  if queue.left == 0 then return nil end
  queue.left = queue.left - 1
  return queue.jobs[queue.left + 1]
end

local function turn()
  for step = 0, #turns - 1 do
    local number = turns[(position + step) % #turns + 1]
    local job = peek(read[number], number)
    if job then
      position = (position + step + 1) % #turns
      return job, read[number]
    end
  end
end

local batch, taken, untimed, records, deadlines, thrown, size = {}, {}, {}, {}, {}, 0, 0
local function claim(job, queue, due, streak, schedule)
  local counts, at, pair = '0 0', 6 * size, 2 * size
  if streak then counts = string.match(streak, '^%d+ %d+') or counts end
  batch[at + 1], batch[at + 2], batch[at + 3] = job, due, queue.deadline
  batch[at + 4], batch[at + 5], batch[at + 6] = streak or counts, queue.name, schedule
  records[pair + 1], records[pair + 2] = job, queue.head .. due .. ' ' .. counts .. queue.tail
  deadlines[pair + 1], deadlines[pair + 2] = queue.lease, job
  taken[job], size = true, size + 1
  call('SET', base .. job, tag, 'PX', queue.expiry)
  mark(job, 'WRK')
end

local closed  -- whether the next job must not be taken with these
repeat
  local jobs, homes_of = {}, {}
  -- Ever more at a time, if what was looked at is thrown away.
  while #jobs < math.max(most - size, math.min(thrown, 64)) do
    local job, queue = turn()
    if not job then break end
    jobs[#jobs + 1], homes_of[#jobs + 1] = job, queue
  end
  if #jobs == 0 then break end
  local due, known = call('HMGET', queued, unpack(jobs)), call('HMGET', schedules, unpack(jobs))
  local streak = streaking and call('HMGET', streaks, unpack(jobs)) or {}
  local used, entries, left, over = {}, {}, {}, {}
  if withdrawing then
    for i, job in ipairs(jobs) do entries[i] = entry(job, homes_of[i].name) end
    left = call('SMISMEMBER', withdrawn, unpack(entries))
  end
  for i, job in ipairs(jobs) do
    if size == most then break end
    -- Entries without a record were pushed by an older version or by hand: they run if the job is known and idle.
    local waits = left[i] ~= 1
    local fit = waits and known[i] and not taken[job] and (due[i] or call('HEXISTS', running, job) == 0)
    -- One that may have killed a worker, with others about it, runs alone until it has run.
    local alone = fit and streak[i] and string.find(streak[i], ' alone', 1, true)
    closed = alone and size > 0
    if closed then break end
    local queue = homes_of[i]
    queue.used = queue.used + 1
    if waits then used[#used + 1] = job else over[#over + 1] = entries[i] end
    if fit then
      if not due[i] then untimed[#untimed + 1] = job end
      local since = due[i] and string.match(due[i], '^(%d+%.%d+) ') or started  -- a damaged record says nothing
      claim(job, queue, since, streak[i], known[i])
      closed = alone
      if closed then break end
    else
      thrown = thrown + 1
      if waits and not known[i] then call('HDEL', statuses, job) end  -- it was never set, or by nobody who knew how
    end
  end
  if #used > 0 then call('HDEL', queued, unpack(used)) end
  if #over > 0 then call('SREM', withdrawn, unpack(over)) end
until closed or size == most or thrown >= 1000
for i, queue in ipairs(read) do
  if queue.used > 0 then
    call('RPOP', KEYS[12 + 2 * i], queue.used)
    if sizes[KEYS[12 + 2 * i]] > queue.used then token(KEYS[13 + 2 * i]) end
  end
end
if size == 0 then return {thrown > 0 and 'again' or 'empty'} end
if #untimed > 0 then call('ZREM', timeline, unpack(untimed)) end
call('HSET', running, unpack(records))
call('ZADD', leases, unpack(deadlines))
return write({'ok', started, cjson.encode(batch)})
