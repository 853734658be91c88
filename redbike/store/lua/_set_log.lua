-- What the log says of a job that is set; '' if nothing of it changes.
-- keys   data
local describe = given.who and function(job, old, kept, stored)
  local parts, names, sorted = {}, {}, {}
  if not kept then parts[1] = (old and old .. ' -> ' or '') .. clip(job.schedule, 180) end
  if job.options ~= nil then
    local was, is = object_of(stored), object_of(job.options)
    for name, value in pairs(was) do if is[name] ~= value then names[name] = true end end
    for name, value in pairs(is) do if was[name] ~= value then names[name] = true end end
  end
  for name in pairs(names) do sorted[#sorted + 1] = tostring(name) end
  table.sort(sorted)
  if #sorted > 0 then parts[#parts + 1] = 'options changed: ' .. table.concat(sorted, ', ') end
  local is_new = job.data ~= nil and call('HGET', data, job.id) ~= job.data
  if is_new then parts[#parts + 1] = 'data changed' end
  return table.concat(parts, '; ')
end
