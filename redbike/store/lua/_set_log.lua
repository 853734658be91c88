-- What the log says of a job that is set, with all that it takes to set it back; '' if nothing of
-- it changes.
-- keys   data
local describe = given.who and function(job, old, kept, stored)
  local parts = {}
  if not kept then parts[1] = (old and old .. ' -> ' or '') .. job.schedule end
  parts[#parts + 1] = job.options ~= nil and describe_options(stored, job.options) or nil
  local is_new = job.data ~= nil and call('HGET', data, job.id) ~= job.data
  if is_new then parts[#parts + 1] = 'data changed' end
  return table.concat(parts, '; ')
end
