#!lua flags=no-writes
-- read_rows: what is stored of jobs that the rows of a file name, too; changes nothing.
-- given  jobs; data: whether they are told
-- returns {'ok', JSON of [schedules, options, groups (records), and, if they are told, data]}, each a list with false for
--         a job that has none
local found = {}
for i, key in ipairs({schedules, options, groups, given.data and data or nil}) do
  found[i] = call('HMGET', key, unpack(given.jobs))
end
return {'ok', cjson.encode(found)}
