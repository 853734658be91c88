-- What a job has besides its schedule.
-- keys   wakeup, timers, options, data, groups
local besides = {
  options = {key = options, new = {}, gone = {}}, data = {key = data, new = {}, gone = {}},
  group = {key = groups, new = {}, gone = {}},
}

local function set_besides(job, entry)  -- of which this is the record in a queue
  for name, found in pairs(besides) do
    local text = job[name]
    if text then
      note(found.new, job.id, text)
    elseif text == false then
      found.gone[#found.gone + 1] = job.id
    end
  end
  local expires = entry and given.expiring and tonumber(option_of(job.options, 'expires'))
  if expires and expires > 0 then
    local instant = stamp(due_of(entry) + expires)
    wake_dispatcher(timers, instant)
    change('ZADD', timers, {instant, 'expires:' .. job.id})
  end
end
