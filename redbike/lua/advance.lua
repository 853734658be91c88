#!lua flags=allow-oom
-- advance: everything due by an instant was dispatched; it never goes back.
-- KEYS  dispatched, and none of the common ones: an idle dispatcher does this every second
-- ARGV  the instant
-- returns {'ok'}
call('ZADD', KEYS[1], 'GT', ARGV[1], 'until')
return {'ok'}
