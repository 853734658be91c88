#!lua flags=allow-oom
-- end_backfill: what waits of a backfill is forgotten, and what is left of it; its runs in flight
--               are marked, as those that are cancelled.
-- keys   _stop_backfill, _write
-- given  job; queues: its own
-- returns {'ok', record}, or {'gone'} if none is under way
local job = given.job
local record = stop_backfill(job, true)
if not record then return {'gone'} end
record.how = 'cancelled'
local reply = cjson.encode(record)
make_backfills().fill(job)
make_backfills().write()
if given.who then log_change('cancel', {job}, 'its backfill') end
return write({'ok', reply})
