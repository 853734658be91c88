#!lua flags=no-writes
-- find_missed: reads from a part of the skips how many occurrences of jobs were missed, if -alerts
--              has another number; changes nothing. Late and expired ones count as missed.
-- keys   skipped, alerts
-- given  cursor, count: as HSCAN takes them
-- returns {'ok', JSON of cursor: where the next part begins, '0' for the end; total: that of all
--         jobs; missed: job, how many, and its record in -alerts, or false, …}
local function count_missed(job)  -- '' for all
  local number = 0
  for _, reason in ipairs({MISSED, LATE, EXPIRED}) do
    number = number + (tonumber(call('HGET', skipped, reason .. ':' .. job)) or 0)
  end
  return string.format('%.0f', number)
end

local found = call('HSCAN', skipped, given.cursor, 'COUNT', given.count)
local fields, missed, done = found[2], {}, {}
for i = 1, #fields, 2 do
  local reason, job = fields[i]:match('^(%l+):(.+)$')
  if (reason == MISSED or reason == LATE or reason == EXPIRED) and not done[job] then
    local number, known = count_missed(job), call('HGET', alerts, 'missed:' .. job)
    done[job] = true
    if number ~= (known or ''):match('^%d*') then
      note(missed, job, number)
      missed[#missed + 1] = known
    end
  end
end
return {'ok', cjson.encode({cursor = found[1], total = count_missed(''), missed = missed})}
