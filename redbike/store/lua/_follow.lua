-- When followers are due: when each of their parents has ended since they were due last.
-- keys   statuses, timeline, retry_states, skipped, pauses, following, followers, _mail, _backfill
local function make_follows()
  if follows then return follows end
  make_links()
  local awaiting = {}  -- jobs that wait for their parents, and the pause by which they are held
  local function has_all(record, ended)
    for _, parent in ipairs(record.parents) do if not ended[parent] then return false end end
    return true
  end

  -- This script puts a job where it waits for its parents: on the timeline, or held by that pause.
  function follows.await(job, pause) awaiting[job] = {pause = pause, is_new = true} end

  -- Returns where a job waits for its parents, or is held since it came due during its pause; nil
  -- if it is busy.
  local function find_place(job)
    local pause = pause_of(call('HGET', pauses, job))
    local at = tonumber(pause and pause.due or call('ZSCORE', timeline, job) or nil)
    if at and at >= AWAITED then return {pause = pause} end
    local is_held = at and pause and event_of(call('HGET', statuses, job)) == TML
    local is_tried = is_held and retry_state_of(call('HGET', retry_states, job)).due ~= '-'
    return is_held and not is_tried and {pause = pause, replaces = true} or nil
  end

  -- Notes for each follower of a parent that its occurrence has ended: 'ok', 'failed' or 'any'.
  function follows.note_end(parent, ended, due)
    for _, job in ipairs(follows.list_of(parent)) do
      local base = job:byte() == 30 and make_backfills().base_of(job)
      if base then backfills.note_end(base, parent, ended) end
      if job:byte() == 28 then make_mail().post(job:match('%d+'), parent, ended, due) end
      local record = not base and follows.record_of(job)
      local fits = record and (record.when == 'any' or record.when == ended)
      if not fits and ended ~= 'failed' and record and record.of then make_backfills().drop(job) end
      if fits then
        if has_all(record, record.ended) then
          -- It is still busy with what was due before that, or has failed for good.
          record.again = type(record.again) == 'table' and record.again or {}
          record.again[parent] = true
          if has_all(record, record.again) then
            record.again = nil
            if event_of(call('HGET', statuses, job)) ~= DIE then count(RUNNING, job, 1) end
          end
        end
        local before = tonumber(record.ended[parent]) or 0
        record.ended[parent], record.is_new = stamp(math.max(before, due)), true
        if not awaiting[job] then awaiting[job] = find_place(job) end
      end
    end
  end

  -- A job does not run as an occurrence of a backfill any more: it was dropped.
  function follows.note_dropped(job)
    for _, follower in ipairs(follows.list_of(job)) do
      local base = make_backfills().base_of(follower)
      if base then backfills.note_end(base, job, 'any') else backfills.drop(follower) end
    end
  end

  function follows.settle()
    if follows.part then follows.settle_groups() end
    local soonest = math.huge
    for job, place in pairs(awaiting) do
      local record, due = follows.record_of(job), 0
      local is_due = record and has_all(record, record.ended)
      if is_due then
        for _, each in pairs(record.ended) do due = math.max(due, tonumber(each) or 0) end
        record.ended, record.again, record.is_new = {}, nil, true
      end
      local at, moves = stamp(is_due and due or AWAITED), is_due or place.is_new
      if moves and place.pause then
        if place.replaces then count(PAUSED, job, 1) end
        hold(job, place.pause, at)
      elseif moves then
        -- One by one: a parent may have more followers than a command has arguments.
        change('ZADD', timeline, {at, job})
        soonest = math.min(soonest, is_due and due or AWAITED)
      end
    end
    if soonest < AWAITED then wake_dispatcher(timeline, soonest) end
    follows.write_links()
    if backfills then backfills.write() end
  end

  return follows
end

local function wait_on(due, job)  -- on the timeline, for that time or for its parents
  if due < AWAITED then note(waits, stamp(due), job) else make_follows().await(job) end
end
