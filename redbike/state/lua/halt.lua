#!lua flags=allow-oom
-- halt: every dispatcher and worker that was started before is to stop; a token wakes those that are blocked.
-- given  signal; without it the token that has woken the caller is passed on
-- returns {'ok'}
if given.signal then change('SET', control, {given.signal .. ' ' .. stamp(now)}) end
token(halt)
return write({'ok'})
