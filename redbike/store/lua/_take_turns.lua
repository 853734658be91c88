-- The oldest entries of the queues of a worker, turn by turn.

local LOOK = 64  -- entries to look at, at least, where some of them are tombstones

-- Measures the queues. Returns those that have entries, in their turns, and how many to look at.
local function measure(limiter, all, started)
  local turns, look = {}, given.most
  for number, home in ipairs(queue) do
    home.length, home.left, home.scanned, home.used = call('LLEN', home.list), 0, 0, 0
    home.total = home.length
    if limiter then limiter.close(home, all) end
    if home.length > 0 then
      home.timeout = given.timeouts[number]
      home.deadline = stamp(now + home.timeout)
      home.head, home.tail = begin_of(given.tag, started, home.deadline), end_of(home.name)
      home.buried = call('SCARD', home.tombstones) > 0
      if home.buried then look = math.max(look, LOOK) end
    end
  end
  for _, number in ipairs(given.turns) do
    if queue[number].length > 0 then turns[#turns + 1] = queue[number] end
  end
  return turns, look
end

-- Returns the entries, and the queue of each. A queue that has no more is passed over.
local function line_up(turns, look)
  local jobs, home_of, looked, position, idle = {}, {}, 0, 0, 0
  while looked < look and idle < #turns do
    position, idle = position % #turns + 1, idle + 1
    local home = turns[position]
    if home.left == 0 and home.scanned < home.length then
      local share = given.strict and look - looked or math.ceil(look / #turns)
      local further = math.min(share, home.length - home.scanned)
      home.jobs = call('LRANGE', home.list, -home.scanned - further, -home.scanned - 1)
      home.left, home.scanned = #home.jobs, home.scanned + #home.jobs
    end
    for _ = 1, math.min(home.left, (given.strict or #turns == 1) and look - looked or 1) do
      looked, idle, home.left = looked + 1, 0, home.left - 1
      jobs[looked], home_of[looked] = home.jobs[home.left + 1], home
    end
  end
  return jobs, home_of
end
