#!lua flags=no-writes
-- read_rows: what is stored of jobs that the rows of a file name, too; changes nothing.
-- keys   schedules, pauses, options, data, groups, blackouts
-- given  jobs; data: whether they are told, and the pauses and blackouts
-- returns {'ok', JSON of [schedules, options, groups (records), and, if they are told, data,
--         pauses, blackouts (records)]}, each a list with false for a job that has none
local found, hashes = {}, {schedules, options, groups}
if given.data then note(hashes, data, pauses) end
for i, key in ipairs(hashes) do found[i] = call('HMGET', key, unpack(given.jobs)) end
if given.data then
  local names = {}
  for i, job in ipairs(given.jobs) do names[i] = 'job:' .. job end
  found[#found + 1] = call('HMGET', blackouts, unpack(names))
end
return {'ok', cjson.encode(found)}
