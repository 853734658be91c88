#!lua flags=allow-oom
-- open_group: a group, also one that is not there → open: it is kept, and nothing comes of it
--             until a job is set that follows it. What is left of it stays, and counts once.
-- keys   following, followers, _member, _write
-- given  group: its name
-- returns {'ok'}
local group = MARK .. given.group
local found = make_groups().read_group(group)
found.open = true
-- Those that have ended were of an earlier round.
found.total, found.failed, found.dropped = math.max(found.left, 0), 0, 0
if found.left <= 0 then found.due = 0 end
follows.settle()
return write({'ok'})
