#!lua flags=allow-oom
-- note_hosts: stores on which hosts a job for every host runs; changes no job.
-- keys   hosts, _write
-- given  base: its id; seen: when workers of its queue were seen last, by host; gone: hosts that do
--        not count any more; over: whether the job was unset; forget: seconds after which no more
--        is known of it then; began: the schedule of a one-off that has had a job on a host, or ''
-- returns {'ok'}; a later stored instant stays, unless it is of a clock that was ahead
local record = object_of(call('HGET', hosts, given.base))
local known = type(record.hosts) == 'table' and record.hosts or {}
for host, at in pairs(given.seen or {}) do
  local before = tonumber(known[host]) or 0
  known[host] = before > now + CLOCKS_DIFFER and at or math.max(before, at)
end
for _, host in ipairs(given.gone or {}) do known[host] = nil end
local over = given.over and (tonumber(record.over) or now) or nil
if over and now - over > given.forget then
  change('HDEL', hosts, {given.base})
else
  local began = not over and (given.began or record.began) or nil
  change('HSET', hosts, {given.base, cjson.encode({hosts = known, over = over, began = began})})
end
return write({'ok'})
