#!lua flags=allow-oom
-- deliver: what waits for parents → due on the timeline or held, as jobs of another shard have
--          ended. A message that was received before changes nothing.
-- keys   following, followers, _mail, _member, _write
-- given  shard: the number of the one that has posted the messages; messages, in their order:
--        number, parent, due, ended: 'ok', 'failed' or 'any'; of a group 'joined', as jobs of it
--        are in that shard, 'left' when all of those have ended, or 'any', with its numbers
-- returns {'ok', the number of the last message that is received by now, job, …}: those of the
--         messages' jobs that nobody follows here. It stops before a second end for one follower,
--         which is a step of its own
local links, peer, reply = make_groups(), make_mail().peer_of(given.shard), {'ok', '0'}
local told, joined = {}, {}  -- followers; groups, and whether they have jobs in that shard

local function note_part(group, word, due, numbers)
  local found, link = links.read_group(group), links.link_of(MARK .. group, '\28' .. given.shard)
  if joined[group] == nil then joined[group] = call('ZSCORE', followers, link) ~= false end
  if joined[group] ~= (word == 'joined') then
    joined[group] = word == 'joined'
    found.left = found.left + (joined[group] and 1 or -1)
    change(joined[group] and 'ZADD' or 'ZREM', followers, joined[group] and {0, link} or {link})
  end
  for field, number in pairs(numbers) do found[field] = found[field] + number end
  found.due = math.max(found.due, due)
end

local function is_told(jobs)
  for _, job in ipairs(jobs) do if told[job] then return true end end
end
for _, each in ipairs(given.messages) do
  local word, numbers = each.ended:match('^%a+'), {}
  numbers.total, numbers.failed, numbers.dropped = each.ended:match(':(%d+):(%d+):(%d+)')
  local is_of_part = word == 'joined' or word == 'left'
  local jobs = is_of_part and {} or links.list_of(each.parent)
  local is_new = tonumber(each.number) > peer.received
  if is_new and is_told(jobs) then break end
  if is_new and is_of_part then note_part(each.parent, word, tonumber(each.due), numbers) end
  if is_new and not is_of_part then
    if numbers.total then links.keep_numbers(each.parent, numbers) end
    links.note_end(each.parent, word, tonumber(each.due))
    for _, job in ipairs(jobs) do told[job] = true end
  end
  if is_new then peer.received = tonumber(each.number) end
  reply[2] = each.number
  if #jobs == 0 and not is_of_part then reply[#reply + 1] = each.parent end
end
links.settle()
mail.note_peer(given.shard)
return write(reply)
