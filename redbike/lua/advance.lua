#!lua flags=allow-oom
-- advance: everything due by an instant was dispatched; it never goes back, unless it was never true.
-- KEYS  dispatched, and none of the common ones: an idle dispatcher does this every second
-- ARGV  the instant, and '1' when what is there is of a clock that was ahead
-- returns {'ok'}
if ARGV[2] == '1' then
  call('ZADD', KEYS[1], ARGV[1], 'until')
else
  call('ZADD', KEYS[1], 'GT', ARGV[1], 'until')
end
return {'ok'}
