-- The end of a backfill before all of it has run. `more`: see _forget.lua.
-- keys   timeline, queued, running, following, followers, _forget, _follow

local function forget_parts(base, record)  -- of what is left
  local FIELDS = 1000
  for first = record.part, record.parts - 1, FIELDS do
    local fields = {}
    for part = first, math.min(first + FIELDS, record.parts) - 1 do
      fields[#fields + 1] = make_backfills().field_of(base, part)
    end
    change('HDEL', following, fields)
  end
end

local function stop_occurrence(id, more, cancels)  -- returns whether it is forgotten
  local run, _, home = run_of(call('HGET', running, id)), waiting_of(call('HGET', queued, id))
  if run and cancels and not run.cancelled then
    run.cancelled = true
    change('HSET', running, {id, record_of(run)})
    count(CANCELLED, id, 1)
  end
  if run or home and not queue[home] then return false end
  if home then leave_queue(queue[home], id) end
  change('ZREM', timeline, {id})
  forget(id, more)
  return true
end

-- The same of the occurrences of what follows a job; returns whether there are any.
local function stop_followers(base, more, cancels)
  local tree = make_backfills().field_of(base)
  local ids = make_follows().list_of(tree)
  for _, id in ipairs(ids) do
    if stop_occurrence(id, more, cancels) then
      follows.leave(id)
      change('ZREM', followers, {follows.link_of(tree, id)})  -- also if that was damaged
    end
  end
  return #ids > 0
end

-- What waits of it is forgotten; what runs goes on, and `cancels` says whether it hears of that.
-- What waits in another queue than those declared runs. Returns its record; false if there is none.
local function stop_backfill(base, more, cancels)
  local backfills, flying = make_backfills(), {}
  local record = backfills.record_of(base)
  if not record then return false end
  for _, each in ipairs(record.running) do
    local due = tonumber(each)
    local id = backfills.id_of(base, due)
    if stop_occurrence(id, more, cancels) then
      change('ZREM', followers, {id .. backfills.link_of(base)})
      backfills.note_bad(record, due, 'dropped')
    else
      flying[#flying + 1] = each
    end
  end
  stop_followers(base, more, cancels)
  forget_parts(base, record)
  record.part, record.running = record.parts, flying
  record.to, record.open = record.last, nil
  return record
end

local function forget_backfill(base, more)  -- and those before it, as the job is gone
  local record = stop_backfill(base, more)
  if not record then stop_followers(base, more) end
  if record then make_backfills().keep(base, false) end
  for _, part in ipairs({false, 'done'}) do
    change('HDEL', following, {make_backfills().field_of(base, part)})
  end
end
