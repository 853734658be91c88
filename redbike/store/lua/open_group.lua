#!lua flags=allow-oom
-- open_group: a group, which need not exist → open: even if all of its jobs end, nothing happens
--             until a job that follows it is set. Its jobs that are left stay, and count once.
--             Or → closed, as such a job is set in another shard. Or, if its home is another
--             shard, adds a message to that: whether jobs of the group are left here.
-- keys   following, followers, _member, _write
-- given  group: its name; how: 'open', 'close' or 'tell'; home: the number of its shard, if that
--        is another one
-- returns {'ok'}
local group = MARK .. given.group
local found = make_groups().read_group(group)
found.home = given.home
if given.how == 'tell' then
  found.tells = true
elseif given.how == 'close' then
  found.open = nil
else
  found.open = not given.home or nil
  -- Those that have ended were of an earlier round.
  local link = follows.link_of(MARK .. group, '')
  local parts = call('ZLEXCOUNT', followers, '[' .. link .. '\28', '(' .. link .. MARK)
  found.total, found.failed, found.dropped = math.max(found.left - parts, 0), 0, 0
  if found.left <= 0 then found.due = 0 end
end
follows.settle()
return write({'ok'})
