-- The records, see keys.py: nothing else in Lua takes them apart or puts them together. A damaged one counts as none.
local RUN = '^(%S+) (%d+%.%d+) (%d+%.%d+) (%d+%.%d+) (%d+) (%d+) (%S+) (.+)$'
local WAITING = '^(%d+%.%d+) (.+)$'

local function run_of(record)
  if not record then return nil end
  local run = {}
  run.tag, run.start, run.deadline, run.due, run.failures, run.losses, run.next, run.home = string.match(record, RUN)
  local left = string.match(run.next or '', '^cancelled%+(.+)$')
  run.cancelled, run.next = left ~= nil, left or run.next
  return run.tag and run
end

-- What was left behind for the end of a run; the mark of one that was cancelled goes first.
local function left_of(run) return (run.cancelled and 'cancelled+' or '') .. run.next end

local function record_of(run)
  return run.tag .. ' ' .. run.start .. ' ' .. run.deadline .. ' ' .. run.due .. ' ' .. run.failures .. ' ' ..
         run.losses .. ' ' .. left_of(run) .. ' ' .. run.home
end

-- Of the records of runs that are taken together most is alike: what stands before and behind the due time and counts.
local function begin_of(tag, start, deadline) return tag .. ' ' .. start .. ' ' .. deadline .. ' ' end
local function end_of(home) return ' - ' .. home end

local function event_of(status) return string.match(status or '', '^(%u+):') end
local function due_of(record) return string.match(record or '', '^(%d+%.%d+) .') end  -- of a job in a queue
local function waiting_of(record) return string.match(record or '', WAITING) end  -- due time, queue

local function retry_state_of(record)  -- what is kept of a job that is to be tried again; zeros and dashes for nothing
  local retry_state = {counts = ' 0 0', failures = '0', losses = '0', tries = '0', due = '-', after = '-'}
  local failures, losses, rest = string.match(record or '', '^(%d+) (%d+)(.*)$')
  if not failures then return retry_state end
  retry_state.failures, retry_state.losses, retry_state.counts = failures, losses, ' ' .. failures .. ' ' .. losses
  retry_state.alone, retry_state.failed = string.find(rest, ' alone', 1, true), string.match(rest, ' failed=(%d+)')
  local tries, due, after = string.match(rest, '^ (%d+) (%S+) (%S+)')
  if tries then
    retry_state.tries, retry_state.due, retry_state.after = tries, tonumber(due) and due or '-', tonumber(after) and after or '-'
  end
  return retry_state
end

local function retry_record_of(retry_state, due)
  local tried = retry_state.tries .. ' ' .. (due or retry_state.due) .. ' ' .. retry_state.after
  local failed = retry_state.failed and ' failed=' .. retry_state.failed or ''
  return retry_state.failures .. ' ' .. retry_state.losses .. ' ' .. tried .. failed .. (retry_state.alone and ' alone' or '')
end

local function pause_of(record)  -- of a paused job; its `due` is '-' unless something is held
  local due, since, till, note = string.match(record or '', '^(%S+) (%d+%.%d+) (%S+) (.*)$')
  return since and (due == '-' or tonumber(due)) and {due = due, since = since, till = till, note = note} or nil
end

local function pause_record_of(pause, due)
  return due .. ' ' .. pause.since .. ' ' .. pause.till .. ' ' .. pause.note
end

local function rewind_record_of(known) return stamp(known) .. ' ' .. stamp(now) end

local function owner_of(tag) return tag:sub(1, 8) end  -- the process that has taken under it, see keys.py
local function since_of(process) return string.match(process or '', '^(%d+%.%d+) {') end
local function process_record_of(since, entry) return since .. ' ' .. entry end

local function skip_fields(job)  -- of the hash of skips
  local fields = {}
  for i, reason in ipairs({MISSED, RUNNING, WITHDRAWN, LATE, PAUSED, CANCELLED}) do fields[i] = reason .. ':' .. job end
  return fields
end

local function untold_of(record)  -- from when on others may tell it, how often they have begun to, and the entry
  local time, claims, entry = string.match(record or '', '^(%d+%.%d+) (%d+)\n(.*)$')
  return tonumber(time), tonumber(claims), entry
end
local function untold_record_of(time, claims, entry) return time .. ' ' .. claims .. '\n' .. entry end

local function tells(tag) return tag:sub(-1) == '+' end  -- whether its ends are to be told, see NOTIFIES in keys.py
local function marks_of(words)  -- before the runs in an entry of the journal, if not all of them have ended
  local MARKS, marks = {timeline = '1', queue = '1', held = '1', stopped = '1', unset = 'u'}, {}
  for i, word in ipairs(words) do marks[i] = MARKS[word] or '0' end
  return 'P' .. table.concat(marks) .. '\n'
end

local function object_of(text)  -- of JSON; an empty one for anything else
  local known, found = pcall(cjson.decode, text or '')
  return known and type(found) == 'table' and found or {}
end

local function option_of(text, name)  -- of the options of a job, as they are stored; nil for one that it does not have
  return object_of(text)[name]
end

-- For how long a one-off is kept that has ended: 'never' for good.
local function kept_for(job, setting) return option_of(call('HGET', options, job), 'forget-after') or setting end

local SHORT = 1  -- seconds: a job with a timeout of its own below that is taken alone, see batch.py
local function own_timeout_of(text)  -- of the options of a job; and whether the job is taken alone for them
  local found = object_of(text)
  local limit = tonumber(found.timeout)
  limit = limit and limit > 0 and limit <= 1e9 and limit or nil
  -- The loss of several at a time counts for none of them: `on-lost` would not.
  return limit, limit and limit < SHORT or (found['on-lost'] or 'requeue') ~= 'requeue'
end

local function group_of(record) return string.match(record or '', '^[^\n]*') end  -- whose row a job is

local function each_with(jobs, value)  -- pairs of a field and its value, for commands that take them
  local pairs = {}
  for i = 1, #jobs do pairs[2 * i - 1], pairs[2 * i] = jobs[i], value end
  return pairs
end

local function batch_of(jobs) return '\n' .. table.concat(jobs, '\n') .. '\n' end

local function jobs_of(batch)  -- those in flight under a tag, in the order in which they are run
  local jobs = {}
  for job in string.gmatch(batch or '', '[^\n]+') do jobs[#jobs + 1] = job end
  return jobs
end

local function without(batch, jobs)  -- mostly they stand there in a row
  local from, to = batch:find(batch_of(jobs), 1, true)
  if from then return batch:sub(1, from) .. batch:sub(to + 1) end
  for _, job in ipairs(#jobs > 1 and jobs or {}) do batch = without(batch, {job}) end
  return batch
end

local function runs_of(tag, jobs)  -- the jobs in flight under it, of those that it lists and of these, and their runs
  local own, runs = {}, {}
  for _, some in ipairs({jobs_of(redis.call('HGET', batches, tag)), jobs}) do
    for _, job in ipairs(some) do
      local run = run_of(redis.call('HGET', running, job))
      if run and run.tag == tag and not runs[job] then own[#own + 1], runs[job] = job, run end
    end
  end
  return own, runs
end
