-- The jobs of groups: when one counts, and when it does not any more; and the end of one-offs.
-- keys   schedules, statuses, timeline, retry_states, skipped, wakeup, spent, pauses, following,
--        followers, _backfill
local function make_groups()  -- adds what is of groups to what `make_follows` has made
  make_follows()
  if follows.part then return follows end
  add_groups(follows)
  local joined, new = {}, {}  -- jobs in flight, with their runs; those that have joined now

  function follows.group_of(job)  -- of which it is one, and its place in the list; nil for none
    for i, each in ipairs(follows.list_of(job)) do
      if each:sub(1, 1) == MARK then return each, i end
    end
  end

  -- It is one of the group from now on, once. `home`: the number of the shard that the group is in,
  -- if that is another one.
  function follows.join(job, group, run, home)
    if follows.group_of(job) ~= group then
      follows.part(job, 'dropped')
      local found = follows.read_group(group)
      found.total, found.left = found.total + 1, found.left + 1
      found.home = home
      new[job] = true
      follows.link(job, group)
      change('ZADD', followers, {0, follows.link_of(MARK .. group, job)})
    end
    if run then note(joined, job, run) end
  end

  -- It has ended, 'ok' or 'failed', or is 'dropped': it does not count any more.
  function follows.part(job, how, due)
    local group, place = follows.group_of(job)
    if not group then return end
    local found, link = follows.read_group(group), follows.link_of(MARK .. group, job)
    -- The link may be lost by damage.
    if new[job] or call('ZSCORE', followers, link) then found.left = found.left - 1 end
    table.remove(follows.list_of(job), place)
    change('ZREM', followers, {follows.link_of(job, group), link})
    found.owed[job] = nil
    if how ~= 'ok' then found[how] = found[how] + 1 end
    found.due = math.max(found.due, due or 0)
  end

  function follows.note_owed()  -- of the jobs that have joined in flight, when all of them are set
    for i = 1, #joined, 2 do
      local group, run = follows.group_of(joined[i]), joined[i + 1]
      local owes = run.next == ONCE or leaves(run, OWED) or leaves(run, ANEW)
      if group and owes then follows.read_group(group).owed[joined[i]] = run.tag end
    end
  end

  return follows
end

-- An occurrence of a job does not run, or it does not run any more: its group does not wait for it.
-- `due`: its due time, if it has run.
local function drop_member(job, due)
  if call('ZCARD', followers) > 0 then make_groups().part(job, 'dropped', due) end
end

-- A one-off has ended: it would run again wherever its text is set again. It follows
-- no other job any more.
local function end_one_off(job, after)
  change('HSET', schedules, {job, STOP})
  if after ~= 'never' then change('ZADD', spent, {stamp(now + after), job}) end
  if call('ZCARD', followers) > 0 then make_follows().leave(job) end
end
