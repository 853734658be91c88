#!lua flags=no-writes
-- depths: how much waits in queues; changes nothing.
-- keys   queued, statuses
-- given  queues; latest: who waits since then, or for longer, is late; missing: nobody is; most:
--        late ones that are counted
-- returns {'ok', JSON of now and, for each queue, waiting: jobs, without tombstones, oldest: due
--         time of the first, since: since when it waits there, first: its id, and late: how many
--         of them are late}
-- Entries in one look, and looks, until the first that is no tombstone is found.
local PAGE, MOST = 100, 100
-- Returns of the first job the due time, since when it waits, and its id; and how many are late, as
-- they are in their order.
local function look(home)
  local oldest, since, first, late = '', '', '', 0
  for last = -1, -PAGE * MOST, -PAGE do
    local entries = call('LRANGE', home.list, last - PAGE + 1, last)
    if #entries == 0 then break end
    local dead = call('SMISMEMBER', home.tombstones, unpack(entries))
    local records = call('HMGET', queued, unpack(entries))
    local events = call('HMGET', statuses, unpack(entries))
    for i = #entries, 1, -1 do
      local due = dead[i] == 0 and due_of(records[i])
      local began = due and waits_since(due, events[i])
      if due and first == '' then oldest, since, first = due, stamp(began), entries[i] end
      local ends = due and (began > (given.latest or 0) or late == given.most)
      if ends then return oldest, since, first, late end
      late = due and late + 1 or late
    end
  end
  return oldest, since, first, late
end
local waiting, oldest, since, first, late = {}, {}, {}, {}, {}
for i, home in ipairs(queue) do
  waiting[i] = math.max(0, call('LLEN', home.list) - call('SCARD', home.tombstones))
  oldest[i], since[i], first[i], late[i] = '', '', '', 0
  if waiting[i] > 0 then oldest[i], since[i], first[i], late[i] = look(home) end
end
return {'ok', cjson.encode({
  now = stamp(now), waiting = waiting, oldest = oldest, since = since, first = first, late = late
})}
