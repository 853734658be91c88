-- Messages to the shards whose jobs follow some of this one, see keys.py.
-- keys   wakeup, following, followers
local mail
local function make_mail()
  if mail then return mail end
  local SHARD, peers = '\28', {}  -- a shard is its number behind this, see links.py
  mail = {}

  function mail.peer_of(shard)  -- the numbers of the last messages to and from another shard
    if not peers[shard] then
      local numbers = call('HGET', following, SHARD .. shard) or ''
      local posted, received = numbers:match('^(%d+) (%d+)$')
      peers[shard] = {posted = tonumber(posted) or 0, received = tonumber(received) or 0}
    end
    return peers[shard]
  end

  function mail.note_peer(shard)
    local numbers = string.format('%.0f %.0f', peers[shard].posted, peers[shard].received)
    change('HSET', following, {SHARD .. shard, numbers})
  end

  function mail.list(shard, last, most)  -- the messages to it: up to that one, or so many of them
    local box, limit = SHARD .. SHARD .. shard, most and {'LIMIT', 0, most} or {}
    local stop = last and string.format('%s\n%016.0f!', box, last) or box .. '\v'
    return call('ZRANGE', followers, '[' .. box .. '\n', '(' .. stop, 'BYLEX', unpack(limit))
  end

  -- An occurrence has ended: 'ok', 'failed' or 'any'. The number is the time in microseconds, or
  -- more: so it grows even if the server goes back.
  function mail.post(shard, parent, ended, due)
    local peer = mail.peer_of(shard)
    -- Only the first message wakes a dispatcher: who delivers goes on while there are others.
    if not peer.is_told and #mail.list(shard, nil, 1) == 0 then change('RPUSH', wakeup, {MAIL}) end
    peer.posted, peer.is_told = math.max(peer.posted + 1, math.floor(now * 1000000)), true
    local text = string.format('%016.0f %s %s ', peer.posted, ended, stamp(due)) .. parent
    change('ZADD', followers, {0, SHARD .. SHARD .. shard .. '\n' .. text})
    mail.note_peer(shard)
  end

  return mail
end
