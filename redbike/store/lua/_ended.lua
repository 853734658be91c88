-- What is kept of runs that have ended, and of occurrences that were skipped, see keys.py.
local function skip_fields(job)  -- of the hash of skips
  local fields = {}
  for i, reason in ipairs({MISSED, RUNNING, WITHDRAWN, LATE, PAUSED, CANCELLED, EXPIRED}) do
    fields[i] = reason .. ':' .. job
  end
  return fields
end

-- From when on others may tell it, how often they have begun to, and the entry.
local function untold_of(record)
  local time, claims, entry = string.match(record or '', '^(%d+%.%d+) (%d+)\n(.*)$')
  return tonumber(time), tonumber(claims), entry
end
local function untold_record_of(time, claims, entry)
  return time .. ' ' .. claims .. '\n' .. entry
end

-- Whether the ends of a tag are to be told, see NOTIFIES in keys.py.
local function tells(tag) return tag:sub(-1) == '+' end

-- Stands before the runs in an entry of the journal, if not all of them have ended.
local function marks_of(words)
  local marks = {}
  local MARKS = {timeline = '1', queue = '1', held = '1', stopped = '1', unset = 'u'}
  for i, word in ipairs(words) do marks[i] = MARKS[word] or '0' end
  return 'P' .. table.concat(marks) .. '\n'
end
