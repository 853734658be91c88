#!lua flags=allow-oom
-- halt: every dispatcher and worker that was started before is to stop; a token wakes those that are blocked.
-- KEYS  common, control, halt
-- ARGV  now, signal ('' = pass the token on that has woken the caller)
-- returns {'ok'}
check_types()
local control, halt = KEYS[12], KEYS[13]
local now, signal = clock(ARGV[1]), ARGV[2]
expect('string', control); expect('list', halt)
if signal ~= '' then call('SET', control, signal .. ' ' .. stamp(now)) end
token(halt)
return {'ok'}
