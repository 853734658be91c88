"""Mutants of the scripts that no test can catch, as they do what the script does; each by its file and change."""

EQUIVALENT: set[str] = {
    # No schedule begins with a newline.
    "_set_checks.lua: and not old:sub(1, #old - tail):find('\\n')  -- a rule, or dates"
    " → and not old:sub(2, #old - tail):find('\\n')  -- a rule, or dates",
    # A job of a group has two links; what is of no group is looked up for nothing.
    "_member.lua: if call('ZCARD', followers) > 0 then make_groups().part(job, 'dropped', due) end"
    " → if call('ZCARD', followers) >= 0 then make_groups().part(job, 'dropped', due) end",
    "_member.lua: if call('ZCARD', followers) > 0 then make_groups().part(job, 'dropped', due) end"
    " → if call('ZCARD', followers) > 1 then make_groups().part(job, 'dropped', due) end",
    # Options begin with a brace, and the name of none stands before it.
    "_options.lua: return text and (text:find('\"start-within\"', 1, true) or text:find('\"finish-', 1, true))"
    " → return text and (text:find('\"start-within\"', 2, true) or text:find('\"finish-', 1, true))",
    "_options.lua: return text and (text:find('\"start-within\"', 1, true) or text:find('\"finish-', 1, true))"
    " → return text and (text:find('\"start-within\"', 1, true) or text:find('\"finish-', 2, true))",
    # A newline is no magic character, and a record with one has the name of its group before it.
    "forget.lua: local is_row = (call('HGET', groups, job) or ''):find('\\n', 1, true)"
    " → local is_row = (call('HGET', groups, job) or ''):find('\\n', 1, false)",
    "forget.lua: local is_row = (call('HGET', groups, job) or ''):find('\\n', 1, true)"
    " → local is_row = (call('HGET', groups, job) or ''):find('\\n', 2, true)",
    # The header lists this key, by which a cluster finds the server.
    "probe.lua: call('HLEN', schedules)  -- a cluster finds the server by a key → nothing",
    # What no job has is looked up for nothing.
    "triage.lua: has[key] = call('HLEN', key) > 0 → has[key] = call('HLEN', key) >= 0",
    "triage.lua: local failing = call('ZCARD', failure_times) > 0 → local failing = call('ZCARD', failure_times) >= 0",
    "triage.lua: if tonumber(total or 0) ~= 0 then reasons[#reasons + 1] = reason .. ':' end"
    " → if tonumber(total or 1) ~= 0 then reasons[#reasons + 1] = reason .. ':' end",
    # The loop has no turn without jobs.
    "triage.lua: if #jobs > 0 then look(jobs, states) end → if #jobs >= 0 then look(jobs, states) end",
}
