-- When a pause that ends at `ending` is to end, beside a blackout that is on until `till`, or none;
-- and its own end, if it is lengthened. `own` is that end, if it is lengthened already.
local function end_beside(till, ending, own, of_blackout)
  if of_blackout then return till or math.min(ending, now) end
  local set = own or ending
  if till and till > set then return till, set end
  return own and math.max(own, now) or ending
end
