-- Runs that have ended, and the jobs that follow theirs.
-- keys   timeline, skipped, pauses, following, followers
-- Notes for each follower of a parent that its occurrence has ended: 'ok', 'failed' or 'any'.
local function note_end(parent, ended, due)
  for job in string.gmatch(list_of(parent), '[^\n]+') do
    local record = following_of(job)
    if record and (record.when == 'any' or record.when == ended) then
      if has_all(record, record.ended) then
        -- It is still busy with what was due before that.
        record.again = type(record.again) == 'table' and record.again or {}
        record.again[parent] = true
        if has_all(record, record.again) then
          record.again = nil
          count(RUNNING, job, 1)
        end
      end
      local before = tonumber(record.ended[parent]) or 0
      record.ended[parent], record.is_new = stamp(math.max(before, due)), true
      if not awaiting[job] then
        local pause = pause_of(call('HGET', pauses, job))
        local at = pause and pause.due or call('ZSCORE', timeline, job)
        if (tonumber(at or 0) or 0) >= AWAITED then awaiting[job] = {pause = pause} end
      end
    end
  end
end

-- Notes that of each run which has ended; how: see end.lua.
local function note_ends(jobs, words, texts, records, hows)
  local ENDED = {timeline = true, queue = true, held = true, stopped = true, unset = true}
  for i, job in ipairs(jobs) do
    local ended = (hows[job] or {}).ended or 'ok'
    local run = ENDED[words[i]] and texts[i] and ended ~= 'none' and run_of(records[i])
    if run then note_end(job, ended, tonumber(run.due)) end
  end
end
