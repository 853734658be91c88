#!lua flags=no-writes
-- missing_rights: which commands the user may not run on the keys; changes nothing.
-- keys   schedules
-- given  commands: as rules of an ACL spell them, such as 'hset' or 'script|load'
-- returns {'ok', command, …}
local reply = {'ok'}
for _, command in ipairs(given.commands) do
  local name, subcommand = command:match('^(%w+)|(%w+)$')
  -- The server looks for keys in the arguments, up to the last but one: so there are two.
  local first = subcommand or schedules
  local known, allowed = pcall(redis.acl_check_cmd, name or command, first, schedules)
  if not (known and allowed) then reply[#reply + 1] = command end
end
return reply
