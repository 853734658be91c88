#!lua flags=allow-oom
-- agree: the stored number of shards → another text, if it has not changed.
-- keys   agreed
-- given  was: the stored text, '' for none; becomes: the new one
-- returns {'ok'}, or {'stale'} if another text is stored
local known = call('HGET', agreed, 'shards') or ''
if known ~= given.was and known ~= given.becomes then return {'stale'} end
call('HSET', agreed, 'shards', given.becomes)
return {'ok'}
