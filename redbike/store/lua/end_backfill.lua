#!lua flags=allow-oom
-- end_backfill: removes the waiting occurrences of a backfill, and those that are left; marks its
--               runs in flight as cancelled.
-- keys   saved, progress, following, alerts, blackouts, _stop_backfill, _write
-- given  job; queues: its own, and those of what follows it
-- returns {'ok', record}; {'gone'} if no backfill is under way, and no occurrence of followers left
local job, more = given.job, {alerts, blackouts, saved, progress}
local record = make_follows() and stop_backfill(job, more, true)
local done = object_of(call('HGET', following, make_backfills().field_of(job, 'done')))
local follows_on = not record and done[#done] and stop_followers(job, more, true)
if not (record or follows_on) then return {'gone'} end
local reply = cjson.encode(record or done[#done])
if record then record.how = 'cancelled' end
make_backfills().fill(job)
follows.settle()
if given.who then log_change('cancel', {job}, 'its backfill') end
return write({'ok', reply})
