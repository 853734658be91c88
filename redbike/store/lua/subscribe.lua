#!lua
-- subscribe: another shard, which is about to have followers of these jobs, hears of their ends
--            from now on. They need not be there. To repeat it only makes it newer.
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
