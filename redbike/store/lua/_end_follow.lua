-- Runs that have ended, and the jobs that follow theirs.
-- keys   statuses, timeline, retry_states, skipped, wakeup, pauses, following, followers, _backfill

-- It does not count in its group any more, unless it is to be tried again, or another run of it was
-- asked for as it joined that.
local function end_member(job, word, how, run)
  local follows, over = make_groups(), word == 'stopped' or word == 'unset'
  local group = follows.group_of(job)
  if not group then return end
  local ended, has_expired = how.ended or 'ok', (how.skipped or {})[EXPIRED]
  local found = follows.read_group(group)
  if not over and run and found.owed[job] == run.tag then
    found.owed[job] = nil
  elseif over or ended ~= 'none' or has_expired then
    local words = {ok = 'ok', failed = 'failed'}
    follows.part(job, words[ended] or 'dropped', run and ended ~= 'none' and tonumber(run.due))
  end
end

-- A job follows none any more, and holds up no backfill of those that it followed.
local function leave(job)
  local above = list_above(job)
  make_follows().leave(job)
  for i = 2, #above do make_backfills().fill(above[i], job) end
end

-- Notes what the end of each run comes to for others. `hows`: see end.lua; `stops`: jobs whose
-- schedule is STOP from now on.
local function note_ends(jobs, words, records, hows, stops)
  local ENDED = {timeline = true, queue = true, held = true, stopped = true, unset = true}
  local follows = make_follows()
  for i, job in ipairs(jobs) do
    local ended = (hows[job] or {}).ended or 'ok'
    local run = ENDED[words[i]] and ended ~= 'none' and run_of(records[i])
    if run then follows.note_end(job, ended, tonumber(run.due)) end
    if ENDED[words[i]] then end_member(job, words[i], hows[job] or {}, run_of(records[i])) end
    if words[i] == 'unset' then leave(job) end
  end
  for _, job in ipairs(stops) do leave(job) end
  follows.settle()
end
