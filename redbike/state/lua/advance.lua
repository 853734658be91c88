#!lua flags=allow-oom
-- advance: everything due by an instant was dispatched; it never goes back, unless it was never true.
-- given  now: the instant; ahead: whether what is there is of a clock that was ahead
-- returns {'ok'}
call('ZADD', dispatched, given.ahead and 'CH' or 'GT', stamp(now), 'until')  -- and no more: it is done every second
return {'ok'}
