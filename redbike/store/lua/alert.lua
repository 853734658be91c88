#!lua flags=allow-oom
-- alert: changes the records of alerts about jobs, processes and the server, and adds lines to
--        send. A change is made only if its record has not changed; that of what a job has missed
--        only if the job was not unset meanwhile.
-- keys   schedules, alerts, _write
-- given  changes: of each field: its record, and its new record, false for none; lines: to send;
--        more: how many lines are only counted; together: whether all changes are made, or none;
--        gather: seconds for which a line waits for others, unless others are sent sooner; most:
--        how many lines may wait: further ones are only counted
-- returns {'ok', a word for each change: 'made' or 'stale'}
local words, gone, new, lines, more, stale = {}, {}, {}, {}, 0, false
for i, each in ipairs(given.changes) do
  -- '{}' (a watched job) and no record are equal: no alert was sent.
  local before = call('HGET', alerts, each.field) or '{}'
  local changes_it = before == (each.was or '{}') and before ~= (each.record or '{}')
  local job = each.record and each.field:match('^missed:(.+)$')
  local is_gone = job and call('HEXISTS', schedules, job) == 0
  words[i] = changes_it and not is_gone and 'made' or 'stale'
  stale = stale or words[i] == 'stale'
end
for i, each in ipairs(given.changes) do
  if stale and given.together then words[i] = 'stale' end
  if words[i] == 'made' then
    if each.record then note(new, each.field, each.record) else gone[#gone + 1] = each.field end
    for _, line in ipairs(each.lines or {}) do lines[#lines + 1] = line end
    more = more + (each.more or 0)
  end
end
if #lines > 0 then
  local waiting = object_of(call('HGET', alerts, 'waiting:'))
  local all = object_of(cjson.encode(waiting.lines))
  more = more + (tonumber(waiting.more) or 0)
  for _, line in ipairs(lines) do
    if #all < given.most then all[#all + 1] = line else more = more + 1 end
  end
  local at = math.min(tonumber(waiting.at) or math.huge, now + given.gather)
  note(new, 'waiting:', cjson.encode({at = at, lines = all, more = more}))
end
if #new > 0 then change('HSET', alerts, new) end
if #gone > 0 then change('HDEL', alerts, gone) end
write()
return {'ok', table.concat(words, ' ')}
