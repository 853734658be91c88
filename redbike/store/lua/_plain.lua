-- Most systems have no followers, groups and backfills. There a script that is called for each run
-- has a plain text, without the functions for them. It stops here where it would need one, before
-- it has changed anything: then the client sends the full text instead, see scripts.py.
local function need_full() error({err = NEEDS_FULL .. ' this prefix has followers'}) end
