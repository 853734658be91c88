#!lua flags=no-writes
-- read_log: the next entries of the log, from the newest to the oldest; changes nothing.
-- keys   log
-- given  after: the last one that was read, or none; at: where it was: it is further down if there
--        are new ones; most
-- returns {'ok', where the first of these is, an entry, …}
local start = 0
if given.after then
  for _, place in ipairs(call('LPOS', log, given.after, 'COUNT', 0)) do
    if start <= given.at then start = place + 1 end
  end
  -- So much was added that it is gone, and so are all that are older.
  if start == 0 then return {'ok', 0} end
end
return {'ok', start, unpack(call('LRANGE', log, start, start + given.most - 1))}
