#!lua flags=allow-oom
-- alert: what has been told of jobs, processes and the server → what is told now, and the lines
--        that are to be sent; each change only if nobody has made another one, and what a job has
--        missed only if that was not unset meanwhile.
-- keys   schedules, alerts, _write
-- given  changes: of each field: the record that it has, and that which it gets, false for none;
--        lines: what is to be sent of it; more: how many lines are only counted; together: whether
--        all are made, or none; gather: seconds for which a line waits for others, unless others
--        go sooner; most: lines that wait, further ones are counted
-- returns {'ok', a word for each change: 'made' or 'stale'}
local words, gone, new, lines, more, stale = {}, {}, {}, {}, 0, false
for i, each in ipairs(given.changes) do
  -- A job that is looked at, and one that is not, have been told as much.
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
