-- The occurrences of a backfill, and those of what follows its job: each is a one-off of its own,
-- see keys.py.
-- keys   schedules, statuses, timeline, running, retry_states, spent, pauses, options, data,
--        followers
local function make_occurrences(found)  -- adds its functions to these; they need `make_follows`
  local function options_of(job, due)
    -- Who watches the job does not hear of what should have run long ago, and it is not late.
    local OTHERS = {
      'spread', 'start-within', 'finish-within', 'finish-by', 'ping-url', 'stop-after', 'catchup',
      'catchup-limit'
    }
    local KEPT = 3600  -- seconds, at most, for which one is kept that has ended well
    local own = object_of(call('HGET', options, job))
    for _, name in ipairs(OTHERS) do own[name] = nil end
    own.grace, own.expires = 0, 0
    own['forget-after'] = math.min(tonumber(own['forget-after']) or KEPT, KEPT)
    own.backfill = {of = job, due = stamp(due)}
    return found.encode(own)
  end

  local function is_free(job, id)  -- unless another job has that id, or it still runs
    local event, own = event_of(call('HGET', statuses, id)), call('HGET', options, id)
    local of, at = object_of(own).backfill, tonumber(call('ZSCORE', timeline, id) or nil)
    local is_over = event == STP or event == DIE or at and at >= AWAITED
    local is_other = call('HEXISTS', schedules, id) == 1
      and not (type(of) == 'table' and of.of == job and is_over)
    return not is_other and call('HEXISTS', running, id) == 0
  end

  local function put(job, id, due, text)
    local value = call('HGET', data, job)
    change('HSET', schedules, {id, text .. stamp(due):gsub('%.?0+$', '')})
    change('HSET', options, {id, options_of(job, due)})
    change(value and 'HSET' or 'HDEL', data, {id, value or nil})
    change('HDEL', retry_states, {id})
    change('ZREM', spent, {id})
    mark(id, TML)
  end

  -- Waits for those of its parents that are there: the others have no occurrence for that time.
  local function set_follower(base, job, due, there)
    local id, record, parents, names = found.id_of(job, due), follows.record_of(job), {}, {}
    for _, parent in ipairs(record.parents) do
      if there[parent] then
        parents[#parents + 1] = found.id_of(parent, due)
        names[#parents] = parents[#parents]:gsub('[\\, ]', '\\%0')
      end
    end
    local when = record.when == 'ok' and '' or ' ' .. record.when
    put(job, id, due, 'AFTER:' .. table.concat(names, ',') .. when .. ' once:')
    follows.begin(id, {parents = parents, when = record.when})
    follows.record_of(id).of = found.field_of(base)
    follows.link(found.field_of(base), id)
    follows.await(id)
  end

  local function set_followers(base, due)
    local jobs, there = found.tree_of(base), {[base] = true}
    for i = 2, #jobs do
      local record = follows.record_of(jobs[i])
      for _, parent in ipairs(record and record.parents or {}) do
        local is_next = there[parent] and not there[jobs[i]]
        if is_next then there[jobs[i]] = is_free(jobs[i], found.id_of(jobs[i], due)) end
      end
    end
    for i = 2, #jobs do if there[jobs[i]] then set_follower(base, jobs[i], due, there) end end
  end

  function found.is_held(base, record, resumed)  -- that one goes on just now
    for _, job in ipairs(record.alone and {base} or found.tree_of(base)) do
      if job ~= resumed and call('HEXISTS', pauses, job) == 1 then return true end
    end
    return false
  end

  -- Puts an occurrence on the timeline, unless its id is not free, and what follows it behind that.
  function found.set(base, due, record)
    local id = found.id_of(base, due)
    if not is_free(base, id) then return false end
    put(base, id, due, 'AT:')
    change('ZADD', followers, {0, id .. found.link_of(base)})
    note(waits, stamp(now), id)
    if not record.alone then set_followers(base, due) end
    return true
  end
end
