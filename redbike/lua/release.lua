#!lua flags=allow-oom
-- release: in flight → queue, in front, for runs of one tag that have not begun; they are as if they had not been taken.
-- KEYS  common, then queue and wake of each queue, then the in-flight key of each run
-- ARGV  now, tag, how many queues, their names, then the jobs in the order in which they were to run
-- returns {'ok', a word for each, with spaces between}: 'queue', 'unset' (it was, meanwhile), 'stale' (the run is not
--         the tag's any more), 'kept' (something was set meanwhile that counts from the end of this run: do it).
check_types()
local _, tag, count = clock(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local own_keys = 11 + 2 * count
if count > 0 then expect('list', unpack(KEYS, 12, own_keys)) end
local jobs = {unpack(ARGV, 4 + count)}
local records, known = call('HMGET', running, unpack(jobs)), call('HMGET', schedules, unpack(jobs))
for i = 1, #jobs do expect('string', KEYS[own_keys + i]) end
local words, numbers, gone, keys = {}, {}, {}, {}
for i = 1, count do numbers[ARGV[3 + i]] = i end
for i = #jobs, 1, -1 do
  local job = jobs[i]
  local own, _, _, due, _, _, next, home = string.match(records[i] or '', RUN)
  words[i] = own ~= tag and 'stale' or not known[i] and 'unset' or next ~= '-' and 'kept' or 'queue'
  if words[i] == 'unset' or words[i] == 'queue' then gone[#gone + 1], keys[#keys + 1] = job, KEYS[own_keys + i] end
  if words[i] == 'queue' then
    call('RPUSH', KEYS[10 + 2 * numbers[home]], job)
    call('HSET', queued, job, due .. ' ' .. home)
    token(KEYS[11 + 2 * numbers[home]])
    mark(job, 'ENQ')
  end
end
land(gone, keys)
return write({'ok', table.concat(words, ' ')})
