-- The log of what people change, see keys.py. Programs are not in it, and these functions cost
-- them nothing. Its key is the last one, if there is `given.who`.
-- Clips a text to so many bytes, but not in the middle of a character of UTF-8.
local clip = given.who and function(text, most)
  return #text > most and text:sub(1, most):gsub('[\192-\255][\128-\191]*$', '') .. '...' or text
end
-- Returns which options become others, with their values; nil for none.
local describe_options = given.who and function(old, new)
  local was, is, names, changed = object_of(old), object_of(new), {}, {}
  for name in pairs(was) do names[#names + 1] = tostring(name) end
  for name in pairs(is) do if was[name] == nil then names[#names + 1] = tostring(name) end end
  table.sort(names)
  local function show(value)  -- a URL may have a secret
    local text = value == nil and 'default' or tostring(value)
    return text:find('://', 1, true) and 'a URL' or text
  end
  for _, name in ipairs(names) do
    local differs = was[name] ~= is[name]
    local both = name .. ': ' .. show(was[name]) .. ' -> ' .. show(is[name])
    -- A table is a mark of ours, such as that of a job on one host: nobody has set it, or can.
    local is_mark = type(was[name] or is[name]) == 'table'
    if differs and not is_mark then  -- first what moves a job: others may say anything
      table.insert(changed, name == 'spread' and 1 or #changed + 1, both)
    end
  end
  return changed[1] and table.concat(changed, ', ')
end
-- Is called once in a script, and last of all, with all jobs that it changed.
local log_change = given.who and function(action, jobs, detail)
  local key, ENTRIES, JOBS, LONGEST, WHOLE = KEYS[#KEYS], 10000, 100, 500, 20000
  local said = clip(detail or given.detail or '', detail and WHOLE or LONGEST)
  local entry = {stamp(now), given.who, action, said}
  local last = object_of(call('LINDEX', key, 0))
  local ago = now - (tonumber(last[1]) or math.huge)
  local joins = #last > 4 and #jobs > 0 and #last - 4 + #jobs <= JOBS
  for field = 2, 4 do joins = joins and last[field] == entry[field] end
  for _, text in ipairs(last) do joins = joins and type(text) == 'string' end
  -- What is one command with a pattern should not fill the list.
  joins = joins and ago >= 0 and ago < 1
  if joins then entry = last end
  for _, job in ipairs(jobs) do entry[#entry + 1] = job end
  -- First of all: a user of the server without the right to do this changes nothing.
  table.insert(changes, 1, {'LTRIM', key, {0, ENTRIES - (joins and 1 or 2)}})
  if joins then
    change('LSET', key, {0, cjson.encode(entry)})
  else
    change('LPUSH', key, {cjson.encode(entry)})
  end
  local news = {unpack(entry, 1, 4)}  -- for those who listen, without what it has joined
  for _, job in ipairs(jobs) do news[#news + 1] = job end
  change('SPUBLISH', key, {cjson.encode(news)})
end
