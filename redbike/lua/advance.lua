#!lua flags=allow-oom
-- advance: everything due by an instant was dispatched; it never goes back.
-- KEYS  common, dispatched
-- ARGV  the instant
-- returns {'ok'}
check_types()
local dispatched, reached = KEYS[11], ARGV[1]
expect('zset', dispatched)
call('ZADD', dispatched, 'GT', reached, 'until')
return {'ok'}
