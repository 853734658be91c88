#!lua flags=allow-oom
-- halt: every dispatcher and worker that was started before is to stop; a token wakes those that are blocked.
-- KEYS  common, control, halt
-- ARGV  now, signal
-- returns {'ok'}
check_types()
local control, halt = KEYS[11], KEYS[12]
local now, signal = clock(ARGV[1]), ARGV[2]
expect('string', control); expect('list', halt)
call('SET', control, signal .. ' ' .. stamp(now))
token(halt)
return {'ok'}
