-- The options of a job, as they are stored, and other JSON.
local function object_of(text)  -- of JSON; an empty one for anything else
  local known, found = pcall(cjson.decode, text or '')
  return known and type(found) == 'table' and found or {}
end

local function option_of(text, name)  -- nil for one that the job does not have
  return object_of(text)[name]
end

local SHORT = 1  -- seconds: a job with a timeout of its own below that is taken alone, see batch.py
local function own_timeout_of(text)  -- and whether the job is taken alone for its options
  local found = object_of(text)
  local limit = tonumber(found.timeout)
  limit = limit and limit > 0 and limit <= 1e9 and limit or nil
  -- The loss of several at a time counts for none of them: `on-lost` would not.
  return limit, limit and limit < SHORT or (found['on-lost'] or 'requeue') ~= 'requeue'
end

local function alerts_if_late(text)  -- whether a job with these options does
  return text and (text:find('"start-within"', 1, true) or text:find('"finish-', 1, true))
end
