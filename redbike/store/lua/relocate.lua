#!lua flags=allow-oom
-- relocate: renames or deletes all keys of a shard in one step; only once, and only while the jobs
--           are on the move that the caller knows.
-- keys   agreed
-- given  shards: what -agreed has of the number of shards then; guard: the text that stays in the
--        place of the first keys, for whoever still wants them; guarded: how many these are;
--        drops: whether the keys go away; used: how many names the set has to have that is the
--        first of the keys. KEYS[2] is there while the keys have their other names. KEYS[3], …:
--        the keys, and then as many other names
-- returns {'ok'}, {'stale'} if somebody else moves the jobs, {'changed'} if there are more queues
if call('HGET', agreed, 'shards') ~= given.shards then return {'stale'} end
local mark, number = KEYS[2], (#KEYS - 2) / 2
local is_marked = call('EXISTS', mark) == 1
if is_marked == (given.guard ~= nil) then return {'ok'} end  -- it is done
if call('SCARD', KEYS[3]) ~= given.used then return {'changed'} end
for i = 3, number + 2 do
  local from, to = KEYS[i], KEYS[number + i]
  call('UNLINK', to)
  if given.drops then
    call('UNLINK', from)
  elseif call('EXISTS', from) == 1 then
    call('RENAME', from, to)
  end
  if given.guard and i - 2 <= given.guarded then call('SET', from, given.guard) end
end
if given.guard then call('SET', mark, '1') else call('UNLINK', mark) end
return {'ok'}
