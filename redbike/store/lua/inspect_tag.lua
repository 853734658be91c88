#!lua flags=no-writes
-- inspect_tag: what is kept of a tag, at one instant; changes nothing.
-- keys   running, batches, leases, inflight
-- given  tag; jobs: those that may be in flight under it, besides those that it lists
-- returns {'ok', JSON of listed: its list of jobs, runs: {job: record, …} of those that are in
--         flight under it, lease, kind: the type of its in-flight key, hold: the milliseconds left
--         to that, named: the jobs in it, now}; what is not there is missing
local tag, key, records = given.tag, inflight .. given.tag, {}
local kind, _, runs = call('TYPE', key).ok, runs_of(tag, given.jobs)
for job, run in pairs(runs) do records[job] = record_of(run) end
return {'ok', cjson.encode({
  listed = call('HGET', batches, tag) or nil, runs = records,
  lease = call('ZSCORE', leases, tag) or nil, kind = kind, hold = call('PTTL', key),
  named = kind == 'string' and call('GET', key) or nil, now = stamp(now)
})}
