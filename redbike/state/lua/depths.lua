#!lua flags=no-writes
-- depths: how much waits in queues; changes nothing.
-- given  queues
-- returns {'ok', JSON of now and, for each queue, waiting: jobs, without tombstones, and oldest: due time of the first}
local PAGE, MOST = 100, 100  -- entries in one look, and looks, until the first that is no tombstone is found
local function oldest_of(home)
  for last = -1, -PAGE * MOST, -PAGE do
    local entries = call('LRANGE', home.list, last - PAGE + 1, last)
    if #entries == 0 then return nil end
    local dead, records = call('SMISMEMBER', home.tombstones, unpack(entries)), call('HMGET', queued, unpack(entries))
    for i = #entries, 1, -1 do
      local due = dead[i] == 0 and due_of(records[i])
      if due then return due end
    end
  end
end
local waiting, oldest = {}, {}
for i, home in ipairs(queue) do
  waiting[i] = math.max(0, call('LLEN', home.list) - call('SCARD', home.tombstones))
  oldest[i] = waiting[i] > 0 and oldest_of(home) or ''
end
return {'ok', cjson.encode({now = stamp(now), waiting = waiting, oldest = oldest})}
