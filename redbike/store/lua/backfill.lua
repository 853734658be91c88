#!lua
-- backfill: the occurrences of a backfill are noted in parts, beside the schedule of their job.
--           With the last part the first of them come on the timeline.
-- keys   schedules, options, following, _follow, _write
-- given  job; schedule, options: with which they were computed, '' for none; record: of the
--        backfill, see keys.py; first: the number of the first part that is given; parts: JSON of
--        each; last: whether these are the last ones
-- returns {'ok'}; {'stale'}: the job has changed; {'gone'}: it is unset; {'busy'}: another backfill
--         is under way; {'lost'}: another backfill has begun meanwhile
local job, record, backfills = given.job, given.record, make_follows() and make_backfills()
local found, text = backfills.record_of(job), call('HGET', schedules, job)
if not text then return {'gone'} end
local was_begun = found and found.id == record.id and not found.open
for _, ended in ipairs(object_of(call('HGET', following, backfills.field_of(job, 'done')))) do
  was_begun = was_begun or ended.id == record.id
end
if was_begun then return {'ok'} end
if found and not found.open then return {'busy'} end
if given.first > 0 and not (found and found.id == record.id) then return {'lost'} end
local own = call('HGET', options, job) or ''
if text ~= given.schedule or own ~= given.options then return {'stale'} end

-- Parts of an incomplete backfill are replaced or removed.
local left = given.first == 0 and found and found.parts or 0
for part = #given.parts, left - 1 do change('HDEL', following, {backfills.field_of(job, part)}) end
for i, part in ipairs(given.parts) do backfills.add_part(job, given.first + i - 1, part) end
record.parts, record.is_new, record.open = given.first + #given.parts, true, not given.last or nil
record.since = found and found.id == record.id and found.since or stamp(now)
backfills.keep(job, record)
if given.last then backfills.fill(job) end
follows.settle()
if given.who and given.last then
  log_change('backfill', record.alone and {job} or backfills.tree_of(job))
end
return write({'ok'})
