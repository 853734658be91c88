-- How a job is paused: what waits of it is held.
-- keys   timeline, queued, pauses
-- Returns the due time of what is held, '-' for nothing.
local function hold_waiting(job, pause, entry, score)
  local due, home = waiting_of(entry)
  if home then leave_queue(queue[home], job) end
  if score then change('ZREM', timeline, {job}) end
  local held = due or score and stamp(tonumber(score)) or '-'
  hold(job, pause, held)
  return held
end
-- Whether a pause is that of a blackout, of which its note tells.
local function is_of_blackout(pause) return object_of(pause.note).every ~= nil end
-- Whether Redbike has paused a job as its host is gone, see every_host.py.
local function is_of_gone(pause) return object_of(pause.note).by == 'redbike' end
