-- Answers to a worker for which no job is taken.
-- keys   schedules, running, batches, retry_states, control, options, data, seen, untold, inflight

-- Mostly nothing is there for an idle worker. Then it is seen, which cannot fail, and no more is
-- done. Returns nil if something is there.
local function answer_idle()
  local watched, unhalted = {inflight .. given.tag}, given.control == ''
  for _, home in ipairs(queue) do watched[#watched + 1] = home.list end
  if unhalted then watched[#watched + 1] = control end
  if call('EXISTS', unpack(watched)) > 0 then return nil end
  if not unhalted and call('GET', control) ~= given.control then return nil end
  local renewed = redis.pcall('ZADD', seen, 'XX', 'CH', stamp(now), given.idle_owner)
  local found = tells(given.tag) and call('EXISTS', untold) == 1
  return {'empty', renewed == 1 and 'seen' or 'unknown', found and 'untold' or nil}
end

-- Returns what was taken under the tag before, nil for nothing. Who asks does not always know that
-- it asks twice.
local function answer_again(with_options, with_data, pauses_of)
  local own, runs = runs_of(given.tag, {})
  if #own == 0 then return nil end
  local started, deadlines, kept, dues, texts, homes, more = nil, {}, {}, {}, {}, {}, {}
  for i, job in ipairs(own) do
    local run = runs[job]
    started, deadlines[run.home] = run.start, run.deadline
    kept[job] = call('HGET', retry_states, job) or nil
    dues[i], homes[i], texts[i] = run.due, run.home, call('HGET', schedules, job) or ''
    local value = with_data and call('HGET', data, job) or nil
    if with_options or value then
      local own_options = call('HGET', options, job) or nil
      more[job] = {deadline = run.deadline, options = own_options, data = value}
    end
  end
  local found = {started, deadlines, kept, own, dues, texts, homes, more, pauses_of}
  return {'ok', cjson.encode(found)}
end

-- Of a queue without jobs the token is old. Each would wake a worker, which would look into all of
-- its queues again.
local function answer_empty()
  for _, home in ipairs(queue) do
    if #queue > 1 and home.total == 0 then call('RPOP', home.wake) end
  end
  return {'empty'}
end
