#!lua flags=allow-oom
-- repair_tag: what is kept of a tag → as its runs in flight need it; nothing of one that has none.
-- keys   batches, leases, inflight, _write
-- given  tag; jobs: those that may be in flight under it, besides those that it lists; lease,
--        grace: seconds without a sign of life, after a deadline; slack: seconds by which a lease
--        may be too long; ahead: seconds after which it is of a clock that was ahead
-- returns {'ok'}
local tag, last = given.tag, 0
local own, runs = runs_of(tag, given.jobs)
for _, run in pairs(runs) do last = math.max(last, run.deadline) end
local key, lease = inflight .. tag, tonumber(call('ZSCORE', leases, tag) or nil)
if #own == 0 then
  change('HDEL', batches, {tag})
  change('ZREM', leases, {tag})
  change('DEL', key, {})
  return write({'ok'})
end
local batch, left = batch_of(own), math.floor((last - now) * 1000)
change('HSET', batches, {tag, batch})
-- Not at once: if its worker is alive, the next heartbeat renews it.
local latest = math.min(last + given.grace + given.slack, now + given.lease + given.ahead)
local too_long = lease and lease > latest
if not lease or too_long then
  change('ZADD', leases, {stamp(math.min(now + given.lease, last + given.grace)), tag})
end
local named, value = {}, call('TYPE', key).ok == 'string' and call('GET', key) or ''
for _, job in ipairs(jobs_of(value)) do named[job] = true end
local whole = call('PTTL', key) >= 0
for _, job in ipairs(own) do whole = whole and named[job] end
if left <= 0 then
  change('DEL', key, {})
elseif not whole then
  change('PSETEX', key, {left, batch})  -- whatever it is
end
return write({'ok'})
