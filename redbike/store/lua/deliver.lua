#!lua flags=allow-oom
-- deliver: what waits for parents → due on the timeline or held, as jobs of another shard have
--          ended. A message that was received before changes nothing.
-- keys   following, followers, _mail, _follow, _write
-- given  shard: the number of the one that has posted the messages; messages, in their order:
--        number, parent, ended: 'ok', 'failed' or 'any', due
-- returns {'ok', the number of the last message that is received by now, job, …}: those of the
--         messages' jobs that nobody follows here. It stops before a second end for one follower,
--         which is a step of its own
local links, peer, reply = make_follows(), make_mail().peer_of(given.shard), {'ok', '0'}
local told = {}
local function is_told(jobs)
  for _, job in ipairs(jobs) do if told[job] then return true end end
end
for _, each in ipairs(given.messages) do
  local jobs, is_new = links.list_of(each.parent), tonumber(each.number) > peer.received
  if is_new and is_told(jobs) then break end
  if is_new then
    links.note_end(each.parent, each.ended, tonumber(each.due))
    for _, job in ipairs(jobs) do told[job] = true end
    peer.received = tonumber(each.number)
  end
  reply[2] = each.number
  if #jobs == 0 then reply[#reply + 1] = each.parent end
end
links.settle()
mail.note_peer(given.shard)
return write(reply)
