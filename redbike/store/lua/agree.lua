#!lua flags=allow-oom
-- agree: among how many shards the jobs are divided → something else, if it is what it was.
-- keys   agreed
-- given  was: the text, '' for none; becomes
-- returns {'ok'}, or {'stale'} if it is another one
local known = call('HGET', agreed, 'shards') or ''
if known ~= given.was and known ~= given.becomes then return {'stale'} end
call('HSET', agreed, 'shards', given.becomes)
return {'ok'}
