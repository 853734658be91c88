#!lua flags=allow-oom
-- repair_backfill: what a backfill takes for under way, and what is not → dropped; the next of what
--                  is left → timeline.
-- keys   timeline, queued, running, pauses, following, followers, _follow, _write
-- given  job; looks: whether nothing is changed
-- returns {'ok', JSON of gone: the ids of what is not under way, stalls: whether as many as may be
--         are not, though some are left}, or {'gone'} if there is no such backfill
local job, backfills, gone = given.job, make_follows() and make_backfills(), {}
local record = backfills.record_of(job)
if not record or record.open then return {'gone'} end

local function is_under_way(id)
  local is_linked = call('ZSCORE', followers, id .. backfills.link_of(job))
  local pause = pause_of(call('HGET', pauses, id))
  local waits = call('ZSCORE', timeline, id) or call('HEXISTS', queued, id) == 1
  return is_linked and (waits or call('HEXISTS', running, id) == 1 or pause and pause.due ~= '-')
end

for _, each in ipairs(record.running) do
  local id = backfills.id_of(job, tonumber(each))
  if not is_under_way(id) then gone[#gone + 1] = id end
end
local is_free = #record.running < record.at_once and record.part < record.parts
local is_over = #record.running == 0 and record.part >= record.parts
local stalls = is_over or is_free and not backfills.is_held(job, record)
local reply = {'ok', cjson.encode({gone = gone, stalls = stalls})}
if given.looks then return reply end
for _, id in ipairs(gone) do backfills.note_end(job, id, 'any') end
backfills.fill(job)
follows.settle()
return write(reply)
