#!lua flags=no-writes
-- inspect: all that is kept of one job, at one instant; changes nothing.
-- keys   schedules, statuses, timeline, queued, running, leases, retry_states, skipped, failures,
--        spent, pauses, timers, options, data, outputs, saved, progress, groups, workers,
--        journal, history, following, followers, inflight
-- given  job; queues: those in whose lists it is looked for; tag: under which it is listed as in
--        flight, if it has no record of a run; data: whether they are told
-- returns {'ok', JSON of schedule, status, timeline (score), queued, running (records), tag, lease,
--         hold: milliseconds left to the in-flight key of that tag, retry state, skipped: [count,
--         …], failure, pause (record), timer, expires, spent (scores), options, data, has_data,
--         output, has_output, has_saved, progress, group (records), now, worker: record of the
--         process that runs it, if data are told, following (record), listed: for each of its
--         parents whether that knows it, backfill (record), backfilled: those that have ended, if
--         data are told, trails: whether occurrences of what follows it are left of a backfill,
--         followers: ids with newlines between, member: the group of which it is one, counts:
--         whether that knows it, left: how many are left of the one that it follows, awaited: its
--         record, entries: how often it is in each list, dead: for each list 1 if it has a
--         tombstone there}; what is not there is missing; and its history, if it has one}
local job, entries, dead, past = given.job, {}, {}, call('HGET', history, given.job)
local record, text = call('HGET', running, job) or nil, call('HGET', schedules, job) or nil
if past and not text and call('LPOS', journal, 'F' .. job) then past = nil end  -- it is about to go
local tag = (run_of(record) or {tag = given.tag}).tag
for i, home in ipairs(queue) do
  entries[i] = #call('LPOS', home.list, job, 'COUNT', 0)
  dead[i] = call('SISMEMBER', home.tombstones, job)
end
local listed, head, left, awaited = {}, '[\30' .. job, nil, nil
make_links()
for _, parent in ipairs((follows.record_of(job) or {}).parents or {}) do
  listed[parent] = call('ZSCORE', followers, follows.link_of(parent, job)) ~= false
  if parent:sub(1, 1) == MARK then
    left, awaited = left_of_group(parent), call('HGET', following, parent) or nil
  end
end
local member, is_whole = membership_of(job)
return {'ok', cjson.encode({
  schedule = text, status = call('HGET', statuses, job) or nil,
  timeline = call('ZSCORE', timeline, job) or nil, queued = call('HGET', queued, job) or nil,
  running = record, tag = tag, lease = tag and call('ZSCORE', leases, tag) or nil,
  hold = tag and call('PTTL', inflight .. tag),
  worker = given.data and record and tag and call('HGET', workers, owner_of(tag)) or nil,
  retry_state = call('HGET', retry_states, job) or nil,
  skipped = call('HMGET', skipped, unpack(skip_fields(job))),
  failure = call('HGET', failures, job) or nil,
  pause = call('HGET', pauses, job) or nil, timer = call('ZSCORE', timers, 'job:' .. job) or nil,
  expires = call('ZSCORE', timers, 'expires:' .. job) or nil,
  spent = call('ZSCORE', spent, job) or nil, options = call('HGET', options, job) or nil,
  has_data = call('HEXISTS', data, job) == 1,
  data = given.data and call('HGET', data, job) or nil,
  has_output = call('HEXISTS', outputs, job) == 1,
  output = given.data and (call('HGET', outputs, job) or ''):match('^\30?[^\30]*') or nil,
  has_saved = call('HEXISTS', saved, job) == 1,
  progress = call('HGET', progress, job) or nil, group = call('HGET', groups, job) or nil,
  following = call('HGET', following, job) or nil, listed = listed,
  backfill = call('HGET', following, '\30' .. job) or nil,
  backfilled = given.data and call('HGET', following, '\30' .. job .. '\ndone') or nil,
  followers = table.concat(follows.list_of(job), '\n'),
  member = member, counts = is_whole, left = left, awaited = awaited,
  trails = #call('ZRANGE', followers, head .. '\n', head .. '\v', 'BYLEX', 'LIMIT', 0, 1) > 0,
  now = stamp(now), entries = entries, dead = dead
}), past or nil}
