#!lua flags=allow-oom
-- repair: wherever damage has left a job → where it belongs, unless it is not as it was found any
--         more.
-- keys   schedules, statuses, timeline, queued, running, retry_states, skipped, failures,
--        failure_times, queues, wakeup, spent, pauses, timers, options, data, outputs, saved,
--        progress, groups, history, following, followers, _write
-- given  job; found: its schedule, status, timeline and timer (scores), queued, running and pause
--        (records), where they are there; queues, with entries: for each how often the job was
--        found there, wanted: how often it is to be, dead and buried: whether it was found to have
--        a tombstone there (1 or 0), and is to have one; wanted: {status: its event, timeline,
--        timer, expires: times, queued, running, pause, retry_state, failure, options, data,
--        output, saved, progress, group, history, spent, follows: as in set.lua, member: the
--        group of which it is one, or with ends: of which it is one no more}, of which those that
--        are missing stay and those that are false go; skips: {field in the hash of skips:
--        how many more, or false}
-- returns {'ok'}, or {'stale'} when anything that was found has changed, as after the first of two
--         requests
local job, found, wanted = given.job, given.found, given.wanted
local hashes = {
  schedule = schedules, status = statuses, queued = queued, running = running, pause = pauses
}
if has_changed(job, found, hashes) then return {'stale'} end
local timer = 'job:' .. job
if (call('ZSCORE', timeline, job) or nil) ~= found.timeline then return {'stale'} end
if (call('ZSCORE', timers, timer) or nil) ~= found.timer then return {'stale'} end
for i, home in ipairs(queue) do
  local entry = given.entries[i]
  if #call('LPOS', home.list, job, 'COUNT', 0) ~= entry.found then return {'stale'} end
  if call('SISMEMBER', home.tombstones, job) ~= entry.dead then return {'stale'} end
  if entry.buried < entry.dead then change('SREM', home.tombstones, {job}) end
  local surplus = entry.found - entry.wanted
  -- From the left: the oldest keeps its turn.
  if surplus > 0 then change('LREM', home.list, {surplus, job}) end
  if surplus < 0 then
    change('LPUSH', home.list, {job})
    change('SADD', queues, {home.name})
    token(home.wake)
  end
end

if wanted.status then mark(job, wanted.status) end
if wanted.timeline then note(waits, wanted.timeline, job) end
if wanted.timeline == false then change('ZREM', timeline, {job}) end
if wanted.timer then change('ZADD', timers, {wanted.timer, timer}) token(wakeup) end
if wanted.timer == false then change('ZREM', timers, {timer}) end
if wanted.expires then
  change('ZADD', timers, {wanted.expires, 'expires:' .. job})
  token(wakeup)
end
if wanted.expires == false then change('ZREM', timers, {'expires:' .. job}) end
local set = {queued = queued, running = running, pause = pauses, retry_state = retry_states}
for field, key in pairs(set) do
  if wanted[field] then change('HSET', key, {job, wanted[field]}) end
end
local removed = {
  status = statuses, queued = queued, running = running, pause = pauses,
  retry_state = retry_states, failure = failures, options = options, data = data,
  output = outputs, saved = saved, progress = progress, group = groups, history = history
}
for field, key in pairs(removed) do
  if wanted[field] == false then change('HDEL', key, {job}) end
end
if wanted.follows then
  make_groups().begin(job, wanted.follows)
  local parent = wanted.follows.parents[1]
  local is_here = parent:sub(1, 1) == MARK and not wanted.follows.is_away
  if is_here then follows.read_group(parent) end  -- it goes if nothing is left
end
if wanted.follows == false then make_follows().leave(job) end
if wanted.member and wanted.ends then
  table.insert(make_groups().list_of(job), MARK .. wanted.member)
  follows.part(job, 'dropped')
elseif wanted.member then
  local group = MARK .. wanted.member
  make_follows()
  change('ZADD', followers, {0, follows.link_of(job, group)})
  change('ZADD', followers, {0, follows.link_of(MARK .. group, job)})
end
if follows then follows.settle() end
if wanted.spent == false then change('ZREM', spent, {job}) end
if wanted.failure == false then change('ZREM', failure_times, {job}) end
for field, number in pairs(given.skips) do
  if number then
    change('HINCRBY', skipped, {field, number})
  else
    change('HDEL', skipped, {field})
  end
end
return write({'ok'})
