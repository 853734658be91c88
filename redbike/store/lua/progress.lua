#!lua flags=allow-oom
-- progress: in flight → in flight; it is kept how far runs are.
-- keys   schedules, running, progress, _write
-- given  jobs, tags and records, see keys.py, one of each for each run
-- returns {'ok'}; nothing is kept for a run that is another tag's by now, and of an unset job
local runs, texts = call('HMGET', running, unpack(given.jobs)), {}
local known = call('HMGET', schedules, unpack(given.jobs))
for i, job in ipairs(given.jobs) do
  local run = run_of(runs[i])
  if run and run.tag == given.tags[i] and known[i] then note(texts, job, given.records[i]) end
end
if #texts > 0 then change('HSET', progress, texts) end
return write({'ok'})
