#!lua
-- token: somebody gets a token for the API and the page, or it is taken back.
-- keys   requests, tokens, _write
-- given  request: its tag; name; record: what is kept of it, missing to take it back; and for a
--        person who, detail
-- returns {'ok'}, {'taken'} if there is one of this name, or {'unknown'} if there is none
if is_repeated() then return {'ok'} end
local is_there = call('HEXISTS', tokens, given.name) == 1
if given.record and is_there then return {'taken'} end
if not given.record and not is_there then return {'unknown'} end
if given.record then
  change('HSET', tokens, {given.name, given.record})
else
  change('HDEL', tokens, {given.name})
end
if given.who then log_change('token', {}) end
return write({'ok'})
