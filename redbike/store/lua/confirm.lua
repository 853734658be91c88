#!lua flags=allow-oom
-- confirm: removes messages that another shard has received, and its subscriptions to jobs that no
--          job there follows. A recent subscription stays: its follower may be about to be set.
-- keys   followers, _mail, _write
-- given  shard: its number; number: of the last message; unneeded: jobs
-- returns {'ok'}
local SETTING = 60  -- seconds, at least, before the message, in which a follower is set
local before = math.min(now, tonumber(given.number) / 1000000) - SETTING
local old = make_mail().list(given.shard, tonumber(given.number))
for _, job in ipairs(given.unneeded) do
  local link = job .. '\n\28' .. given.shard
  local found = call('ZRANGE', followers, '[' .. link .. ' ', '(' .. link .. '!', 'BYLEX')
  for _, each in ipairs(found) do
    if tonumber(each:match(' ([^ ]*)$')) < before then old[#old + 1] = each end
  end
end
if #old > 0 then change('ZREM', followers, old) end
return write({'ok'})
