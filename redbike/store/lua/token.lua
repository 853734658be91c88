#!lua
-- token: adds or removes a token for the API and the page.
-- keys   requests, tokens, _write
-- given  request: its tag; name; record: of the token, missing to remove it; and for a person who,
--        detail
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
