-- Backfills: as an occurrence ends, the next of what is left comes on the timeline, see keys.py.
-- keys   pauses, following, followers, _backfilled
local function make_backfills()
  if backfills then return backfills end
  local records = {}
  backfills = make_backfilled()

  -- The job for whose backfill this stands among the followers of a job; nil for a follower.
  function backfills.base_of(follower) return follower:match('^\30(.*)$') end

  function backfills.record_of(base)  -- of one that is under way; false if none is
    if records[base] == nil then
      local record = object_of(call('HGET', following, backfills.field_of(base)))
      records[base] = type(record.running) == 'table' and record
    end
    return records[base]
  end

  function backfills.keep(base, record) records[base] = record end  -- false: not any more

  function backfills.note_bad(record, due, ending)  -- 'failed' or 'dropped'
    local MOST = 1000
    record[ending] = record[ending] + 1
    if #record.except < MOST then return table.insert(record.except, stamp(due)) end
    -- What is later counts as not done.
    record.unknown = stamp(math.min(tonumber(record.unknown) or due, due))
  end

  local function finish(base, record)
    local KEPT, field = 20, backfills.field_of(base, 'done')
    local done = object_of(call('HGET', following, field))
    for _, name in ipairs({'part', 'parts', 'at', 'running', 'is_new'}) do record[name] = nil end
    record.ended, records[base] = stamp(now), false
    done[#done + 1] = record
    if #done > KEPT then table.remove(done, 1) end
    change('HSET', following, {field, backfills.encode(done)})
    change('HDEL', following, {backfills.field_of(base)})
  end

  -- Begins as many as may be under way; none while the job is paused, or what follows it.
  function backfills.fill(base, resumed)
    local record = backfills.record_of(base)
    if not record or record.open then return end
    record.is_new = true
    local is_held = backfills.is_held(base, record, resumed)
    while not is_held and #record.running < record.at_once do
      local due = backfills.next_due(base, record)
      if not due then break end
      record.begun, record.last = record.begun + 1, stamp(due)
      if backfills.set(base, due, record) then
        table.insert(record.running, stamp(due))
      else
        backfills.note_bad(record, due, 'dropped')
      end
    end
    if #record.running == 0 and record.part >= record.parts then finish(base, record) end
  end

  function backfills.note_end(base, id, ended)  -- of an occurrence: 'ok', 'failed' or 'any'
    local record = backfills.record_of(base)
    change('ZREM', followers, {id .. backfills.link_of(base)})
    for i, each in ipairs(record and record.running or {}) do
      if backfills.id_of(base, tonumber(each)) == id then
        table.remove(record.running, i)
        if ended == 'ok' then record.done = record.done + 1 end
        local ending = ended == 'failed' and ended or 'dropped'
        if ended ~= 'ok' then backfills.note_bad(record, tonumber(each), ending) end
        return backfills.fill(base)
      end
    end
  end

  function backfills.write()
    for base, record in pairs(records) do
      if record and record.is_new then
        record.is_new = nil
        change('HSET', following, {backfills.field_of(base), backfills.encode(record)})
      end
    end
  end

  return backfills
end
