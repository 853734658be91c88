#!lua flags=allow-oom
-- repair_backfill: what a backfill takes for under way, and what is not → dropped; the next of what
--                  is left → timeline.
-- keys   timeline, queued, running, pauses, following, followers, _follow, _write
-- given  job; looks: whether nothing is changed
-- returns {'ok', JSON of gone: the ids of what is not under way, stalls: whether as many as may be
--         are not, though some are left, strays: what is linked as an occurrence of a follower and
--         is none}
local job, backfills, gone, strays = given.job, make_follows() and make_backfills(), {}, {}
local record, tree = backfills.record_of(job), backfills.field_of(job)
if record and record.open then record = false end

local function is_under_way(id)
  local is_linked = call('ZSCORE', followers, id .. backfills.link_of(job))
  local pause = pause_of(call('HGET', pauses, id))
  local waits = call('ZSCORE', timeline, id) or call('HEXISTS', queued, id) == 1
  return is_linked and (waits or call('HEXISTS', running, id) == 1 or pause and pause.due ~= '-')
end

for _, id in ipairs(follows.list_of(tree)) do
  local own = follows.record_of(id)
  if not own or own.of ~= tree then strays[#strays + 1] = id end
end
for _, each in ipairs(record and record.running or {}) do
  local id = backfills.id_of(job, tonumber(each))
  if not is_under_way(id) then gone[#gone + 1] = id end
end
local is_left = record and record.part < record.parts
local is_over = record and #record.running == 0 and not is_left
local is_free = is_left and #record.running < record.at_once
local stalls = is_over or is_free and not backfills.is_held(job, record)
local reply = {'ok', cjson.encode({gone = gone, stalls = stalls, strays = strays})}
if given.looks then return reply end
for _, id in ipairs(strays) do change('ZREM', followers, {follows.link_of(tree, id)}) end
for _, id in ipairs(gone) do backfills.note_end(job, id, 'any') end
if record then backfills.fill(job) end
follows.settle()
return write(reply)
