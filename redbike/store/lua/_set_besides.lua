-- What a job has besides its schedule.
-- keys   options, data, groups
local besides = {
  options = {key = options, new = {}, gone = {}}, data = {key = data, new = {}, gone = {}},
  group = {key = groups, new = {}, gone = {}},
}

local function set_besides(job)
  for name, found in pairs(besides) do
    local text = job[name]
    if text then
      note(found.new, job.id, text)
    elseif text == false then
      found.gone[#found.gone + 1] = job.id
    end
  end
end
