#!lua flags=allow-oom
-- archive: the oldest entries of the journal → the histories of their jobs; with the last step also
--          → the counts.
-- keys   journal, history, counts, _write
-- given  done: how many entries were archived before these; entries: how many these are; newest:
--        SHA-1 of the last of them; token: of the process that archives; first: whether the token
--        is new; gone: jobs whose history is removed. ARGV[2], …: other jobs, each with its
--        history. With the last step: fields: of the counts, numbers: what is added to each;
--        recent, hour: new values of these fields
-- returns {'ok'}, or {'stale'} if another process has archived these entries, or archives now, or
--         if they are not there any more; see journal.py
local HELD = 10  -- seconds for which others wait after a step
local FIELDS = 40000  -- counts that are kept apart by queue
local known = call('HMGET', counts, 'archived', 'archiver')
local at, token = (known[2] or ''):match('^(%d+) (.+)$')
local is_free = not at or math.abs(now - at) > HELD
local is_own = token == given.token or given.first and is_free
if (known[1] or '') ~= given.done or not is_own then return {'stale'} end
local newest = call('LRANGE', journal, given.entries - 1, given.entries - 1)[1]
if not newest or redis.sha1hex(newest) ~= given.newest then return {'stale'} end
change('HSET', counts, {'archiver', string.format('%.0f %s', math.floor(now), given.token)})
if #ARGV > 1 then change('HSET', history, {unpack(ARGV, 2)}) end
if #given.gone > 0 then change('HDEL', history, given.gone) end
if not given.fields then return write({'ok'}) end
local fields, texts = given.fields, {'recent', given.recent, 'hour', given.hour}
local sums = {archived = (tonumber(given.done) or 0) + given.entries}
local PART, before = 1000, nil  -- unpack() has less than 8,000 values
local room = FIELDS - call('HLEN', counts)
for i, field in ipairs(fields) do
  local at = (i - 1) % PART + 1
  if at == 1 then
    before = call('HMGET', counts, unpack(fields, i, math.min(i + PART - 1, #fields)))
  end
  local old = before[at]
  if not old then room = room - 1 end
  if not old and room < 0 then
    field = field:match('^[^:]*:[^:]*:') or field  -- that of all queues for which there is no room
    old = sums[field] or call('HGET', counts, field)
  end
  sums[field] = (tonumber(old) or 0) + given.numbers[i]
end
for field, number in pairs(sums) do note(texts, field, string.format('%.0f', number)) end
change('HSET', counts, texts)
change('HDEL', counts, {'archiver'})
change('LTRIM', journal, {given.entries, -1})
return write({'ok'})
