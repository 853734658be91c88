-- Runs that have ended, and the jobs that follow theirs.
-- keys   statuses, timeline, retry_states, skipped, wakeup, pauses, following, followers, _backfill

-- Notes what the end of each run comes to for others. `hows`: see end.lua; `stops`: jobs whose
-- schedule is STOP from now on.
local function note_ends(jobs, words, texts, records, hows, stops)
  local ENDED = {timeline = true, queue = true, held = true, stopped = true, unset = true}
  local follows = make_follows()
  for i, job in ipairs(jobs) do
    local ended = (hows[job] or {}).ended or 'ok'
    local run = ENDED[words[i]] and texts[i] and ended ~= 'none' and run_of(records[i])
    if run then follows.note_end(job, ended, tonumber(run.due)) end
    if words[i] == 'unset' then follows.leave(job) end
  end
  for _, job in ipairs(stops) do follows.leave(job) end
  follows.settle()
end
