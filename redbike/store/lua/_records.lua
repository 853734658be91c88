-- The records, see keys.py: nothing else in Lua takes them apart or puts them together.
-- A damaged one counts as none.
local RUN = '^(%S+) (%d+%.%d+) (%d+%.%d+) (%d+%.%d+) (%d+) (%d+) (%S+) (.+)$'
local WAITING = '^(%d+%.%d+) (.+)$'

local function run_of(record)
  if not record then return nil end
  local run = {}
  run.tag, run.start, run.deadline, run.due, run.failures, run.losses, run.next, run.home =
    string.match(record, RUN)
  local next = run.next or ''
  run.cancelled = next:sub(1, #WAS_CANCELLED) == WAS_CANCELLED and #next > #WAS_CANCELLED
  if run.cancelled then run.next = next:sub(#WAS_CANCELLED + 1) end
  return run.tag and run
end

-- What was left behind for the end of a run; the mark of one that was cancelled goes first.
local function left_of(run) return (run.cancelled and WAS_CANCELLED or '') .. run.next end

local function leaves(run, word) return run.next:sub(1, #word) == word end

local function record_of(run)
  return run.tag .. ' ' .. run.start .. ' ' .. run.deadline .. ' ' .. run.due .. ' ' ..
         run.failures .. ' ' .. run.losses .. ' ' .. left_of(run) .. ' ' .. run.home
end

-- Of the records of runs that are taken together most is alike: what stands before and behind the
-- due time and counts.
local function begin_of(tag, start, deadline)
  return tag .. ' ' .. start .. ' ' .. deadline .. ' '
end
local function end_of(home) return ' ' .. NOTHING .. ' ' .. home end

local function event_of(status) return string.match(status or '', '^(%u+):') end
-- Of a job in a queue: its due time; and that with the queue.
local function due_of(record) return string.match(record or '', '^(%d+%.%d+) .') end
local function waiting_of(record) return string.match(record or '', WAITING) end
-- Since when it waits there: it may have come into the queue after its due time.
local function waits_since(due, status)
  return math.max(tonumber(due), tonumber(string.match(status or '', '^' .. ENQ .. ':(%d+)$') or 0))
end

-- What is kept of a job that is to be tried again; zeros and dashes for nothing.
local function retry_state_of(record)
  local kept = {counts = ' 0 0', failures = '0', losses = '0', tries = '0', due = '-', after = '-'}
  local failed, lost, rest = string.match(record or '', '^(%d+) (%d+)(.*)$')
  if not failed then return kept end
  kept.failures, kept.losses, kept.counts = failed, lost, ' ' .. failed .. ' ' .. lost
  kept.alone = string.find(rest, ' alone', 1, true)
  kept.failed = string.match(rest, ' failed=(%d+)')
  local tries, due, after = string.match(rest, '^ (%d+) (%S+) (%S+)')
  if tries then
    kept.tries = tries
    kept.due, kept.after = tonumber(due) and due or '-', tonumber(after) and after or '-'
  end
  return kept
end

local function retry_record_of(kept, due)
  local tried = kept.tries .. ' ' .. (due or kept.due) .. ' ' .. kept.after
  local failed = kept.failed and ' failed=' .. kept.failed or ''
  local alone = kept.alone and ' alone' or ''
  return kept.failures .. ' ' .. kept.losses .. ' ' .. tried .. failed .. alone
end

local function pause_of(record)  -- of a paused job; its `due` is '-' unless something is held
  local due, since, till, note = string.match(record or '', '^(%S+) (%d+%.%d+) (%S+) (.*)$')
  if not since or due ~= '-' and not tonumber(due) then return nil end
  return {due = due, since = since, till = till, note = note}
end

local function pause_record_of(pause, due)
  return due .. ' ' .. pause.since .. ' ' .. pause.till .. ' ' .. pause.note
end

local function rewind_record_of(known) return stamp(known) .. ' ' .. stamp(now) end

-- The process that has taken under a tag, see keys.py.
local function owner_of(tag) return tag:sub(1, 8) end
local function since_of(process) return string.match(process or '', '^(%d+%.%d+) {') end
local function process_record_of(since, entry) return since .. ' ' .. entry end

-- The group whose row a job is.
local function group_of(record) return string.match(record or '', '^[^\n]*') end
