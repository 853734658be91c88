#!lua flags=allow-oom
-- halt: tells every dispatcher and worker that was started before to stop; a token wakes a blocked
--       process.
-- keys   requests, control, halt, _write
-- given  signal, and request: its tag; without them the token that has woken the caller is passed
--        on
-- returns {'ok'}
if given.signal then
  if is_repeated() then return {'ok'} end  -- it must not stop those that were started since
  change('SET', control, {given.signal .. ' ' .. stamp(now)})
  if given.who then log_change('halt', {}, given.signal) end
end
token(halt)
return write({'ok'})
