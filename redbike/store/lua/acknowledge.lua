#!lua flags=allow-oom
-- acknowledge: rewinds are removed, as a person knows of them.
-- keys   rewinds, _write
-- given  rewinds: the instants to which the server went back; and for a person who, detail
-- returns {'ok', how many of them nobody had acknowledged before}
local number = 0
for _, back in ipairs(given.rewinds) do number = number + call('HEXISTS', rewinds, back) end
if number == 0 then return {'ok', 0} end  -- also the second time
change('HDEL', rewinds, given.rewinds)
if given.who then log_change('acknowledge', {}) end
return write({'ok', number})
