#!lua
-- subscribe: from now on, another shard gets messages about the ends of these jobs, as followers of
--            them are about to be set there. The jobs need not exist. A repetition renews it.
-- keys   followers, _write
-- given  jobs; shard: its number
-- returns {'ok'}
local mark = '\28' .. given.shard
for _, job in ipairs(given.jobs) do
  local link = job .. '\n' .. mark .. ' '
  local old = call('ZRANGE', followers, '[' .. link, '(' .. job .. '\n' .. mark .. '!', 'BYLEX')
  if #old > 0 then change('ZREM', followers, old) end
  change('ZADD', followers, {0, link .. stamp(now)})
end
return write({'ok'})
