#!lua flags=allow-oom
-- note: an entry of the log about what many other scripts have done, such as those of a file that
--       was loaded.
-- keys   requests, _write
-- given  action; request: its tag; and for a person who, detail
-- returns {'ok'}
if not given.who or is_repeated() then return {'ok'} end
log_change(given.action, {})
return write({'ok'})
