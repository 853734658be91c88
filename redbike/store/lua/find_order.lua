#!lua flags=no-writes
-- find_order: the newest entry of the log that set a job, or ordered a run of it, or its backfill;
--             changes nothing.
-- keys   log
-- given  job; due and started: of the run. An entry counts if it is not later than the start; an
--        order of a run only if it is not earlier than `due`. backfill: whether the run is of one
-- returns {'ok', the entry}; {'ok'} if there is none, or if the job was unset after it
local PAGE, JOINS = 100, 1  -- JOINS: seconds after its time for which an entry takes more jobs
local name, start, left = cjson.encode(given.job), 0, 1e6  -- left: bytes, as nobody else is served
while left > 0 do
  local page = call('LRANGE', log, start, start + PAGE - 1)
  for _, kept in ipairs(page) do
    left = left - #kept
    -- Most entries do not have the id of the job: these are not decoded.
    local entry, names = kept:find(name, 1, true) and object_of(kept) or {}, false
    for place = 5, #entry do names = names or entry[place] == given.job end
    local at, action = tonumber(entry[1]) or math.huge, entry[3]
    if names and at <= given.started then
      if action == 'unset' then return {'ok'} end
      local orders = action == 'run' and at + (#entry > 5 and JOINS or 0) >= given.due
      if given.backfill and action == 'backfill' then return {'ok', kept} end
      if not given.backfill and (action == 'set' or orders) then return {'ok', kept} end
    end
  end
  if #page < PAGE then break end
  start = start + PAGE
end
return {'ok'}
