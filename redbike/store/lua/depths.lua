#!lua flags=no-writes
-- depths: how much waits in queues; changes nothing.
-- keys   queued
-- given  queues; since: who waits since then, or for longer, is late; missing: nobody is; most:
--        late ones that are counted
-- returns {'ok', JSON of now and, for each queue, waiting: jobs, without tombstones, oldest: due
--         time of the first, first: its id, and late: how many of them are late}
-- Entries in one look, and looks, until the first that is no tombstone is found.
local PAGE, MOST = 100, 100
-- Returns due time and id of the first job, and how many are late, as they are in their order.
local function look(home)
  local oldest, first, late = nil, nil, 0
  for last = -1, -PAGE * MOST, -PAGE do
    local entries = call('LRANGE', home.list, last - PAGE + 1, last)
    if #entries == 0 then break end
    local dead = call('SMISMEMBER', home.tombstones, unpack(entries))
    local records = call('HMGET', queued, unpack(entries))
    for i = #entries, 1, -1 do
      local due = dead[i] == 0 and due_of(records[i])
      if due and not oldest then oldest, first = due, entries[i] end
      local ends = due and (tonumber(due) > (given.since or 0) or late == given.most)
      if ends then return oldest, first, late end
      late = due and late + 1 or late
    end
  end
  return oldest, first, late
end
local waiting, oldest, first, late = {}, {}, {}, {}
for i, home in ipairs(queue) do
  waiting[i] = math.max(0, call('LLEN', home.list) - call('SCARD', home.tombstones))
  oldest[i], first[i], late[i] = '', '', 0
  if waiting[i] > 0 then
    local due, job, number = look(home)
    oldest[i], first[i], late[i] = due or '', job or '', number
  end
end
return {'ok', cjson.encode({
  now = stamp(now), waiting = waiting, oldest = oldest, first = first, late = late
})}
