#!lua
-- probe: nothing. A script that may write is refused when the server takes no changes: its disk or
--        its memory is full, it is a replica, or it has too few of them.
-- keys   schedules
-- given  nothing
-- returns {'ok'}
call('HLEN', schedules)  -- a cluster finds the server by a key
return {'ok'}
