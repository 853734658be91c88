-- Why a run does not end as its worker says.
-- keys   timeline, leases, options, inflight

local alive = call('EXISTS', inflight .. given.tag) == 1  -- until the last deadline

local function guard(run, how)  -- why it cannot end like that
  if not run or run.tag ~= given.tag then return 'stale' end
  local over = now - given.late >= tonumber(run.deadline) or given.late == 0 and not alive
  if not how.why and over then return 'overrun' end
  local heard_of = how.why == 'lost' and tonumber(call('ZSCORE', leases, given.tag) or 0) > now
  if how.why == 'overrun' and not over or heard_of then return 'alive' end
end

local changed = {}  -- for each of these its schedule, what was left behind, and its options
-- What was set during the run counts, not how it ended: a schedule, an owed run, a place on the
-- timeline.
local function conflict(job, run, how, schedule, expected, pause)
  local waits_on = pause and pause.due ~= '-'
    or run.next ~= NOTHING and call('ZSCORE', timeline, job)
  local left = left_of(run) .. (waits_on and ON_TIMELINE or '')
    .. (pause and WAS_PAUSED .. pause.since or '')
  if not schedule or schedule == expected and left == (how.left or NOTHING) then return end
  note(changed, schedule, left)
  changed[#changed + 1] = call('HGET', options, job) or ''
  return 'changed'
end
