#!lua flags=no-writes
-- read_rows: what is stored of jobs that the rows of a file name, too; changes nothing.
-- keys   schedules, pauses, options, data, groups
-- given  jobs; data: whether they are told, and the pauses
-- returns {'ok', JSON of [schedules, options, groups (records), and, if they are told, data, pauses
--         (records)]}, each a list with false for a job that has none
local found, hashes = {}, {schedules, options, groups}
if given.data then note(hashes, data, pauses) end
for i, key in ipairs(hashes) do found[i] = call('HMGET', key, unpack(given.jobs)) end
return {'ok', cjson.encode(found)}
