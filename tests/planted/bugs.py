"""The planted bugs: each is one small replacement in the package, and the tests that are to catch it."""

from typing import NamedTuple

# Where the tests are that catch most of them.
CRASHES = "tests/test_crashes.py -k"
MOVES = "tests/test_transitions.py"
WORKER = "tests/test_worker.py"
BATCH = "tests/test_batch.py"
DISPATCHER = "tests/test_dispatcher.py"
FACADE = "tests/test_redbike.py"
TOMBSTONES = "tests/test_tombstones.py"
ADOPTION = "tests/test_adoption.py"
RECORD = "tests/test_records.py"
HELD = "tests/test_tags.py"
OUTCOME = "tests/test_outcome.py"
ROTATION = "tests/test_rotation.py"
SCHEDULE = "tests/test_schedule.py"
RULE = "tests/test_rrule.py"
POLICIES = "tests/test_commands_policies.py"
PROCESSES = "tests/test_commands_processes.py"
SIGNALS = "tests/test_signals.py"
FORKS = "tests/test_forks.py"
SUPERVISOR = "tests/test_supervisor.py"
OUTPUT = "tests/test_output.py"
MISBEHAVIOUR = "tests/test_misbehaviour.py"


class Bug(NamedTuple):
    """`old`, which stands once in `file` of the package, becomes `new`; `tests` are arguments of pytest."""

    name: str
    file: str
    old: str
    new: str
    tests: str


SPLIT = [
    Bug(
        "a lost run is ended, and put into its queue by a second script",
        "dispatcher.py",
        "        placed, answers = ended, self._end_whole(ended, now)\n",
        (
            '        placed = [(run, Outcome("die", why="lost")) for run in runs]\n'
            "        answers = self._end_whole(placed, now)\n"
            "        for run in runs:\n"
            "            self.store.requeue(run.jobid)\n"
        ),
        f"{CRASHES} 'lost and runs'",
    ),
    Bug(
        "a due job is taken off the timeline, and put into its queue by a second script",
        "dispatcher.py",
        "            found.append((jobid, due, name))",
        (
            "            zrem = self.store.client.zrem\n"
            "            if not (zrem(self.store.keys.timeline, jobid) and self.store.requeue(jobid)):\n"
            "                found.append((jobid, due, name))"
        ),
        f"{CRASHES} dispatch_due",
    ),
    Bug(
        "a job is unset before it is set",
        "redbike.py",
        "        self._set_entries({jobid: entry}, from_now=since == now)",
        "        self.unset(jobid)\n        self._set_entries({jobid: entry}, from_now=since == now)",
        f"{CRASHES} 'set and anew'",
    ),
    Bug(
        "a due job is put into its queue and left on the timeline",
        "lua/dispatch.lua",
        "if #gone > 0 then change('ZREM', timeline, gone) end",
        "",
        MOVES,
    ),
    Bug("the end of a run leaves its record", "lua/end.lua", "if #gone > 0 then land(tag, gone) end", "", MOVES),
    Bug(
        "a job that is given back stays in flight",
        "lua/release.lua",
        "if #gone > 0 then land(tag, gone) end",
        "",
        MOVES,
    ),
    Bug(
        "a flush begins with the names of the queues",
        "store.py",
        "keys: list[Any] = []",
        "keys: list[Any] = self.keys.fixed()",
        f"{CRASHES} flush",
    ),
]

TAGS = [
    Bug(
        "any tag ends a run",
        "lua/end.lua",
        "if not run or run.tag ~= tag then return 'stale' end",
        "if not run then return 'stale' end",
        MOVES,
    ),
    Bug(
        "any tag renews a lease",
        "lua/heartbeat.lua",
        "run and run.tag == tag and tonumber(run.deadline)",
        "run and tonumber(run.deadline)",
        MOVES,
    ),
    Bug("any tag gives a run back", "lua/release.lua", "if not run or run.tag ~= tag then", "if not run then", MOVES),
    Bug("a run whose expiring key is gone goes on", "lua/end.lua", "or given.late == 0 and not alive", "", MOVES),
    Bug("all tags are the same", "store.py", "os.urandom(12)", "bytes(12)", MOVES),
    Bug(
        "a set that is repeated acts again",
        "lua/set.lua",
        "if call('ZSCORE', requests, given.request) then return reply end",
        "",
        MOVES,
    ),
    Bug(
        "a requeue that is repeated acts again",
        "lua/requeue.lua",
        "if call('ZSCORE', requests, given.request) then return {'ok'} end",
        "",
        MOVES,
    ),
    Bug("a take that is repeated takes more", "lua/take.lua", "(given.repeated or served) and {", "false and {", MOVES),
    Bug(
        "a retry does not say that it is one",
        "loop.py",
        "result = action(repeated)",
        "result = action(False)",
        f"{CRASHES} 'work and lost'",
    ),
    Bug(
        "requests are remembered for ever",
        "lua/set.lua",
        "if call('ZCARD', requests) >= REMEMBERED then change('ZREMRANGEBYRANK', requests, {0, -REMEMBERED - 1}) end",
        "",
        MOVES,
    ),
]

STATUSES = [
    Bug("a run leaves the status of the queue", "lua/take.lua", "marks.WRK = names\n", "", MOVES),
    Bug(
        "an end leaves the status of the run", "lua/end.lua", "mark(job, place == 'die' and 'DIE' or 'STP')", "", MOVES
    ),
    Bug(
        "a skip leaves the status of the timeline",
        "lua/skip.lua",
        "mark(job, given.next and 'TML' or 'STP')",
        "mark(job, 'TML')",
        MOVES,
    ),
    Bug("a job that is given back keeps its status", "lua/release.lua", "mark(job, 'ENQ')", "", MOVES),
    Bug(
        "a job that is unset keeps its status",
        "lua/unset.lua",
        "{schedules, statuses, queued, streaks, failures}",
        "{schedules, queued, streaks, failures}",
        MOVES,
    ),
    Bug(
        "a job that unsets itself keeps its status",
        "lua/end.lua",
        "{schedules, statuses, streaks, failures}",
        "{schedules, streaks, failures}",
        MOVES,
    ),
    Bug(
        "a job without a queue leaves the timeline",
        "lua/dispatch.lua",
        "put_off(job, tried, kept)",
        "gone[#gone + 1] = job",
        MOVES,
    ),
    Bug(
        "a job without a queue gets another due time",
        "lua/dispatch.lua",
        "put_off(job, tried, kept)",
        "postpone(job, stamp(now + PAUSE))",
        MOVES,
    ),
]

OCCURRENCES = [
    Bug(
        "a retry gets another due time",
        "lua/dispatch.lua",
        "enqueue(job, tried, home)",
        "enqueue(job, stamp(due), home)",
        MOVES,
    ),
    Bug(
        "a retry without a pause gets another due time",
        "lua/end.lua",
        "enqueue(job, how.tried or stamp(at), home)",
        "enqueue(job, stamp(at), home)",
        FACADE,
    ),
    Bug(
        "an overrun is no attempt",
        "outcome.py",
        "streak = next_try(run, run.failures, losses=0)",
        'streak = ""',
        OUTCOME,
    ),
    Bug("a retry is not counted", "outcome.py", "run.tries + 1, run.due", "run.tries, run.due", OUTCOME),
    Bug("the tries of a lost run are forgotten", "store.py", "tries=kept.tries, after", "tries=0, after", MOVES),
    Bug(
        "what failed is run for another due time when it is asked for",
        "lua/requeue.lua",
        "elseif failed_for then",
        "elseif false then",
        MOVES,
    ),
    Bug(
        "a retry that is asked for has another due time",
        "lua/requeue.lua",
        "moment = kept.due\n",
        "moment = stamp(now)\n",
        MOVES,
    ),
    Bug(
        "a run in between moves the place of the schedule",
        "lua/requeue.lua",
        "moment, kept.tries, kept.after = stamp(now), '0', goes_on",
        "moment, kept = stamp(now), streak_of()",
        MOVES,
    ),
    Bug(
        "a run that is owed moves the place of the schedule",
        "outcome.py",
        "return replace(asked_for, streak=Streak(after=after).format()) if schedule == run.schedule else asked_for",
        "return asked_for",
        f"{OUTCOME} {MOVES} -k 'owed or asked_for'",
    ),
    Bug(
        "the place of the schedule is not looked at",
        "outcome.py",
        "after = run.goes_on_after",
        "after = run.due",
        OUTCOME,
    ),
    Bug(
        "a schedule has occurrences before it was set",
        "outcome.py",
        "run = replace(run, schedule=changed.detail, after=max(run.due, run.start))",
        "run = replace(run, schedule=changed.detail)",
        OUTCOME,
    ),
    Bug(
        "a one-off that has ended keeps its text",
        "lua/end.lua",
        "if place == 'stop' or schedule == 'NOW' or schedule:sub(1, 3) == 'AT:' then",
        "if place == 'stop' then",
        MOVES,
    ),
    Bug(
        "a one-off that is past is never due",
        "redbike.py",
        'since = float("-inf")  # what is past is due at once',
        "pass",
        FACADE,
    ),
    Bug(
        "a job that is set again unchanged moves",
        "lua/set.lua",
        "local kept = job.keeps and same and",
        "local kept = false and",
        MOVES,
    ),
    Bug(
        "what has failed for good is revived by a file that is loaded again",
        "lua/set.lua",
        "or job.rests and",
        "or false and",
        MOVES,
    ),
    Bug(
        "an anchor makes another schedule",
        "redbike.py",
        "span = schedule.anchor_span if keeps else None",
        "span = None",
        FACADE,
    ),
    Bug(
        "what differs in more than its anchor counts as unchanged",
        "lua/set.lua",
        "and old:sub(1, head) == job.schedule:sub(1, head)",
        "",
        MOVES,
    ),
    Bug(
        "a job that is set anew counts from when a dispatcher ran last",
        "redbike.py",
        "        return now if kept is None else kept",
        "        return (self.store.horizon()[1] or now) if kept is None else kept",
        FACADE,
    ),
    Bug(
        "a slow client sets a job for an instant before",
        "lua/set.lua",
        "return given.from_now and",
        "return false and",
        FACADE,
    ),
    Bug("a success does not forget the failure", "lua/end.lua", "well[#well + 1] = job", "", MOVES),
    Bug(
        "a skip takes a retry away",
        "lua/skip.lua",
        "if streak_of(call('HGET', streaks, job)).due ~= '-' then return {'stale'} end",
        "",
        DISPATCHER,
    ),
    Bug(
        "an instant that is to come is believed",
        "store.py",
        "return instant > now + AHEAD",
        "return False",
        DISPATCHER,
    ),
]

LOSSES = [
    Bug("leases are not renewed", "lua/heartbeat.lua", "'XX', stamp", "'NX', stamp", MOVES),
    Bug(
        "leases are renewed too late",
        "heartbeat.py",
        "INTERVAL = LEASE / 4",
        "INTERVAL = LEASE * 4",
        f"{WORKER} -k heartbeats",
    ),
    Bug(
        "a lease outlives the deadline",
        "lua/heartbeat.lua",
        "math.min(now + given.lease, deadline + given.grace)",
        "now + given.lease",
        MOVES,
    ),
    Bug(
        "a run has no heartbeat",
        "worker.py",
        "self.heartbeat.add(run)\n        try:\n            return self.performer.perform(",
        "try:\n            return self.performer.perform(",
        f"{WORKER} -k heartbeats",
    ),
    Bug("lost runs are not recovered", "dispatcher.py", "self.recover(survey, now)", "pass", DISPATCHER),
    Bug("a run that is not lost is recovered", "lua/end.lua", "how.why == 'lost' and", "how.why == '-' and", MOVES),
    Bug("losses are not counted", "outcome.py", "losses = run.losses + 1", "losses = run.losses", DISPATCHER),
    Bug("the fourth loss is the last", "outcome.py", "losses >= MAX_LOSSES", "losses > MAX_LOSSES", OUTCOME),
    Bug(
        "a run forgets the losses before it",
        "lua/take.lua",
        "due .. tried.counts .. home.tail",
        "due .. ' 0 0' .. home.tail",
        DISPATCHER,
    ),
    Bug(
        "streaks are not kept",
        "lua/end.lua",
        "if how.streak then change('HSET', streaks, {job, how.streak}) end",
        "",
        DISPATCHER,
    ),
    Bug(
        "runs that are lost together count as lost",
        "dispatcher.py",
        "together = len(runs) > 1 and",
        "together = len(runs) > 99 and",
        BATCH,
    ),
    Bug(
        "a job that may kill its worker does not run alone",
        "lua/take.lua",
        "if size == most or fit and tried.alone and size > 0 then break end",
        "if size == most then break end",
        BATCH,
    ),
    Bug(
        "runs of one worker on two pages are told apart",
        "lua/survey.lua",
        "local jobs = jobs_of(call('HGET', batches, tag))",
        "local jobs = {unpack(jobs_of(call('HGET', batches, tag)), 1, given.lost - many)}",
        DISPATCHER,
    ),
]

TIME = [
    *(
        Bug(
            f"the host's clock counts {when}",
            "store.py",
            f'self._call("{verb}", now,',
            f'self._call("{verb}", now or time.time(),',
            FACADE,
        )
        for when, verb in (
            ("when a job is set", "set"),
            ("when a job is taken", "take"),
            ("when a run ends", "end"),
            ("when a job is dispatched", "dispatch"),
            ("when a dispatcher looks what is due", "survey"),
        )
    ),
    Bug(
        "an overrun is not noticed",
        "lua/end.lua",
        "now - given.late >= tonumber(run.deadline) or",
        "now >= tonumber(run.deadline) + 9 or",
        MOVES,
    ),
    Bug(
        "an overrun is not noticed by the heartbeat",
        "heartbeat.py",
        'if word == "overrun":',
        'if word == "never":',
        WORKER,
    ),
    Bug(
        "the expiring key lives a thousandth",
        "lua/take.lua",
        "math.floor(longest * 1000)",
        "math.floor(longest)",
        MOVES,
    ),
    Bug(
        "a job that is due now is not due yet", "lua/dispatch.lua", "if due <= now and", "if due < now and", DISPATCHER
    ),
    Bug(
        "EVERY gives the same time again",
        "schedule.py",
        "for more in range(4)) if due > after)",
        "for more in range(4)) if due >= after)",
        SCHEDULE,
    ),
    Bug("AT gives the same time again", "schedule.py", "if self.instant > after", "if self.instant >= after", SCHEDULE),
    Bug(
        "the next run is not after now",
        "outcome.py",
        "due=schedule.next(max(now, after))",
        "due=schedule.next(after)",
        OUTCOME,
    ),
    Bug(
        "a job that was postponed is moved",
        "lua/dispatch.lua",
        "and score and (score == given.dues[i] or tonumber(score) == due) then",
        "and score then",
        MOVES,
    ),
    Bug(
        "a timefile from the future is believed",
        "timefile.py",
        "if float(content) > now + SLACK else",
        "if False else",
        "tests/test_timefile.py",
    ),
    Bug(
        "a torn timefile is believed",
        "timefile.py",
        "LINE.fullmatch(content)",
        "LINE.match(content)",
        "tests/test_timefile.py",
    ),
    Bug(
        "a device is replaced by a timefile",
        "timefile.py",
        "if path.exists() and not path.is_file():",
        "if False:",
        "tests/test_timefile.py",
    ),
    Bug(
        "the same complaint about the timefile is logged each time",
        "timefile.py",
        "if complaint not in self._complaints:",
        "if True:",
        "tests/test_timefile.py",
    ),
    Bug(
        "the timefile does not count",
        "redbike.py",
        "        return now if kept is None else kept",
        "        return now",
        FACADE,
    ),
    Bug("the instant in Redis goes back", "lua/advance.lua", "'GT', ", "", DISPATCHER),
    Bug(
        "the time that is kept is after a job that is still due",
        "dispatcher.py",
        "min(self._clock(), due)",
        "self._clock()",
        DISPATCHER,
    ),
    Bug(
        "what a dispatcher is at counts as missed", "dispatcher.py", "now - since < GAP", "now - since < 0", DISPATCHER
    ),
]

WAKING = [
    Bug("no token wakes a worker", "lua/_prelude.lua", "  token(home.wake)\n", "", MOVES),
    Bug("no token wakes a dispatcher", "lua/_prelude.lua", "then token(wakeup) end", "then end", MOVES),
    Bug(
        "a worker does not wake the next one",
        "lua/take.lua",
        "home.length > home.used then token(",
        "home.length > 1e9 then token(",
        MOVES,
    ),
    Bug("what is given back wakes nobody", "lua/release.lua", "    token(home.wake)\n", "", MOVES),
    Bug(
        "a dispatcher sleeps on when something is due",
        "dispatcher.py",
        "min([self._surveyed_at + LONGEST_SLEEP, *(moment - self._offset for moment in moments)])",
        "self._surveyed_at + LONGEST_SLEEP",
        DISPATCHER,
    ),
    Bug(
        "a clock that has gone back is not followed",
        "dispatcher.py",
        "min(max(self._offset, survey.now - self._surveyed_at), survey.now - asked)",
        "max(self._offset, survey.now - self._surveyed_at)",
        DISPATCHER,
    ),
    Bug("a HALT wakes nobody", "lua/halt.lua", "token(halt)", "", WORKER),
    Bug("a HALT is not passed on", "loop.py", "self.store.pass_halt_on()", "pass", WORKER),
    Bug(
        "a HALT is ignored when a job is taken",
        "lua/take.lua",
        "if (signal or given.seen) ~= given.seen then return {'halted'} end",
        "",
        MOVES,
    ),
    Bug(
        "a HALT is for those that come after it",
        "loop.py",
        "if control and control != self.seen and",
        "if control and",
        WORKER,
    ),
    Bug(
        "a HALT is ignored by dispatchers",
        "dispatcher.py",
        "self.loop.heed(self._surveyed.control)",
        "pass",
        DISPATCHER,
    ),
]

QUEUES = [
    Bug("the names of queues are read once a round", "rotation.py", "and now - self._read_at < REREAD", "", ROTATION),
    Bug(
        "an idle worker waits for the queues that there were",
        "worker.py",
        "elif not woken and self.rotation.refresh():",
        "elif False:",
        ROTATION,
    ),
    Bug(
        "a queue that is gone is still worked",
        "rotation.py",
        "self._names = names\n",
        "self._names += names\n",
        ROTATION,
    ),
    Bug("weights are ignored", "rotation.py", "self._position = (self._position + steps + 1) % count", "pass", WORKER),
    Bug(
        "turns begin at the first queue each time",
        "lua/take.lua",
        "    jobs[looked], home_of[looked] = home.jobs[home.left + 1], home\n",
        "    jobs[looked], home_of[looked], position = home.jobs[home.left + 1], home, 0\n",
        BATCH,
    ),
    Bug(
        "what is given back goes to the end of its queue",
        "lua/release.lua",
        "change('RPUSH',",
        "change('LPUSH',",
        BATCH,
    ),
    Bug(
        "what is given back is turned round", "lua/release.lua", "for i = #jobs, 1, -1 do", "for i = 1, #jobs do", BATCH
    ),
    Bug(
        "a batch does not give back what it has not begun",
        "worker.py",
        "self.loop.insist(lambda _: self.store.release(left))",
        "pass",
        f"{BATCH} -k halting",
    ),
    Bug("what was set meanwhile is given back", "lua/release.lua", "and 'kept' or", "and 'queue' or", BATCH),
    Bug(
        "a worker that was suspended goes on",
        "worker.py",
        "time.monotonic() - self._asked > stale",
        "False",
        BATCH,
    ),
    Bug("a job is twice in its queue", "lua/dispatch.lua", "elseif not entries[i] then", "else", MOVES),
    Bug(
        "a job that is taken is still recorded as queued", "lua/take.lua", "change('HDEL', queued, names)\n", "", MOVES
    ),
    Bug(
        "unset leaves a job in the queue",
        "lua/unset.lua",
        "if home then change('SADD', queue[1].tombstones, {job}) end",
        "",
        TOMBSTONES,
    ),
    Bug(
        "set leaves a job in the queue",
        "lua/set.lua",
        "    change('SADD', home.tombstones, {job.id})\n",
        "",
        TOMBSTONES,
    ),
    Bug(
        "what is withdrawn is still recorded as queued",
        "lua/set.lua",
        "    change('HDEL', queued, {job.id})\n",
        "",
        MOVES,
    ),
    Bug(
        "what is withdrawn is run",
        "lua/take.lua",
        "local dead = home.buried and call('SISMEMBER', home.tombstones, job) == 1\n",
        "local dead = false\n",
        TOMBSTONES,
    ),
    Bug(
        "a job that is enqueued again is thrown away with its old entry",
        "lua/_prelude.lua",
        "if #back > 0 then change('SREM', home.tombstones, back) end",
        "",
        TOMBSTONES,
    ),
    Bug(
        "a job that is enqueued again is twice in its queue",
        "lua/_prelude.lua",
        "table.insert(dead[i] == 1 and back or fresh, job)",
        "table.insert(fresh, job) if dead[i] == 1 then table.insert(back, job) end",
        TOMBSTONES,
    ),
    Bug(
        "an old entry takes the record of another queue with it",
        "lua/take.lua",
        "    change('SREM', home.tombstones, {job})\n",
        "    change('SREM', home.tombstones, {job})\n    change('HDEL', queued, {job})\n",
        TOMBSTONES,
    ),
    Bug(
        "set leaves a queued job on the timeline",
        "lua/set.lua",
        "if known then gone[#gone + 1] = job.id end",
        "",
        MOVES,
    ),
    Bug(
        "a queue may have the name of a key",
        "keys.py",
        "name in FIXED or name.startswith(FAMILIES)",
        "name.startswith(FAMILIES)",
        "tests/test_keys.py",
    ),
    Bug(
        "only the first page of what is due is moved",
        "dispatcher.py",
        "            if not due:\n",
        "            if True:\n",
        DISPATCHER,
    ),
    Bug(
        "the oldest failure is kept",
        "lua/end.lua",
        "local old = #failed > 0 and",
        "local old = #failed > 1e9 and",
        MOVES,
    ),
]

PLACES = [
    Bug(
        "the schedule is not compared when a run ends",
        "lua/end.lua",
        "if not schedule or schedule == expected and left",
        "if not schedule or left",
        MOVES,
    ),
    Bug(
        "the schedule is not compared when one is skipped",
        "lua/skip.lua",
        "if call('HGET', schedules, job) ~= given.schedule then return {'stale'} end",
        "",
        MOVES,
    ),
    Bug("a run that is owed is forgotten", "outcome.py", "if changed.left.startswith(OWED):", "if False:", OUTCOME),
    Bug(
        "a one-off that comes due in flight is forgotten",
        "lua/dispatch.lua",
        "if run.next ~= 'once' then",
        "if run.next then",
        MOVES,
    ),
    Bug(
        "StopWork does not change the schedule",
        "lua/end.lua",
        "if place == 'stop' or schedule == 'NOW' or",
        "if schedule == 'NOW' or",
        WORKER,
    ),
    Bug("a skip while it runs is not counted", "lua/dispatch.lua", "return count('running', job, 1)", "return", MOVES),
    Bug("a skip of the dispatcher is not counted", "lua/skip.lua", "count('missed', job, given.count)", "", MOVES),
    Bug(
        "a skip of the worker is not counted",
        "lua/end.lua",
        "for reason, number in pairs(how.skipped or {}) do count(reason, job, number) end",
        "",
        WORKER,
    ),
    Bug(
        "a repeated skip counts twice",
        "lua/skip.lua",
        "if tonumber(call('ZSCORE', timeline, job) or nil) ~= tonumber(given.due) then return {'stale'} end",
        "",
        MOVES,
    ),
    Bug(
        "one try too few",
        "outcome.py",
        "run.failures < settings.retries",
        "run.failures + 1 < settings.retries",
        OUTCOME,
    ),
    Bug("pauses do not grow", "outcome.py", "* 2.0 **", "* 1.0 **", OUTCOME),
    Bug("a requeue keeps the failure", "lua/requeue.lua", "change('HDEL', failures, {job})", "", MOVES),
    Bug(
        "a wrong type is found too late",
        "lua/_prelude.lua",
        "    if SIZE[each[1]:sub(1, 1)] then call(SIZE[each[1]] or SIZE[each[1]:sub(1, 1)], each[2]) end\n",
        "",
        MOVES,
    ),
    Bug(
        "a server that has forgotten the scripts is not told them",
        "scripts.py",
        "[i for i, reply in enumerate(replies) if isinstance(reply, exceptions.NoScriptError)]",
        "list[int]()",
        f"{CRASHES} scripts",
    ),
    Bug(
        "redis-py repeats requests by itself",
        "connection.py",
        "Retry(NoBackoff(), 0)",
        "Retry(NoBackoff(), 3)",
        "tests/test_connection.py",
    ),
    Bug(
        "an outage is taken for a bad schedule",
        "dispatcher.py",
        "schedule = parse(stored)",
        'schedule = parse(self.store.schedule(jobid) or "STOP")',
        f"{CRASHES} catchup",
    ),
]

CALENDAR = [
    Bug(
        "a rule is not anchored",
        "rrule.py",
        "instant = min(floor(anchor), LAST - 1)",
        "instant = 0",
        f"{RULE} -k without_dtstart",
    ),
    Bug(
        "COUNT does not count",
        "rule.py",
        'count=(_numbers(parts, "COUNT", 1, 9_999_999_999) or (None,))[0]',
        "count=None",
        RULE,
    ),
    Bug(
        "UNTIL leaves out its day",
        "rule.py",
        "resolve(moment.wall + 86400, zone) - 1",
        "resolve(moment.wall, zone)",
        f"{SCHEDULE} {RULE} -k 'authorities or corners'",
    ),
    Bug(
        "a fixed time runs twice in a repeated hour",
        "cron.py",
        "local if local > reached else reached",
        "local",
        "tests/test_cron.py -k brute_force",
    ),
    Bug(
        "a gap is passed over",
        "cron.py",
        "wall - offset if wall - offset > begin else begin",
        "wall - offset",
        SCHEDULE,
    ),
    Bug(
        "the second of two equal local times counts",
        "zones.py",
        "while wall - offset >= end:",
        "while wall - offset >= begin:",
        "tests/test_zones.py",
    ),
    Bug(
        "one day field is enough",
        "cron.py",
        'either=not (dom[0] == "*" or dow[0] == "*")',
        "either=True",
        "tests/test_cron.py",
    ),
    Bug(
        "H is the same for all jobs",
        "cron.py",
        'crc32(jobid.encode("utf-8", "surrogatepass"))',
        "crc32(b'')",
        "tests/test_cron.py -k 'h_is or h_spreads'",
    ),
]

COMMANDS = [
    Bug(
        "a failure ends a recurring command",
        "commands.py",
        'default = "stop" if stored(run.schedule).once else "reschedule"',
        'default = "stop"',
        POLICIES,
    ),
    Bug(
        "exit status 75 of a command is always success",
        "commands.py",
        "status == os.EX_TEMPFAIL and backs_off",
        "status == os.EX_TEMPFAIL",
        POLICIES,
    ),
    Bug(
        "a command does not hold the lock of its job",
        "commands.py",
        "command.cwd, lock.inherited)",
        "command.cwd, [])",
        f"{PROCESSES} -k next_run",
    ),
    Bug(
        "a command in time leaves its lock to what it left behind",
        "job_lock.py",
        "if not self._kept:",
        "if self._kept:",
        f"{PROCESSES} -k 'in_time or lock'",
    ),
    Bug(
        "the children of a command are left alone",
        "process_group.py",
        "os.killpg(self.number, number)",
        "os.kill(self.number, number)",
        f"{PROCESSES} -k 'abort or interpreter'",
    ),
    Bug(
        "a command that was aborted has failed",
        "process_group.py",
        "    while _ending:",
        "    while False:",
        f"{PROCESSES} -k abort",
    ),
]

AROUND = [
    Bug(
        "a second signal counts at once",
        "signals.py",
        "now - self._heard >= AGAIN",
        "now >= self._heard",
        f"{SIGNALS} -k within_a_second",
    ),
    Bug(
        "a worker that is told to end at once tells how its aborted runs ended",
        "loop.py",
        "        self._aborting = True\n",
        "",
        f"{SIGNALS} -k nobody_hears",
    ),
    Bug(
        "what a job forks keeps the handlers of its worker",
        "signals.py",
        "_active.pop().restore()",
        "_active.pop()",
        f"{FORKS} -k handlers",
    ),
    Bug(
        "what a job forks may come back from work()",
        "performer.py",
        "            leave(run.jobid, None)",
        "            pass",
        f"{FORKS} -k second_worker",
    ),
    Bug(
        "a coroutine that is left by sys.exit() ends the event loop",
        "coroutines.py",
        "        except BaseException as error:\n            # What would",
        "        except Exception as error:\n            # What would",
        f"{MISBEHAVIOUR} -k ends_its_loop",
    ),
    Bug(
        "a child of up that ends with status 0 is not started again",
        "supervisor.py",
        "            if HALTED in end.reports:",
        "            if HALTED in end.reports or end.status == 0:",
        f"{SUPERVISOR} -k started_again",
    ),
    Bug(
        "a child of up does not hold the reading end of its output",
        "supervised.py",
        '    output, _reports = map(int, given.split(" "))\n',
        '    output, _reports = map(int, given.split(" "))\n'
        "    os.close(output)\n"
        "    output = os.open(os.devnull, 0)\n",
        f"{OUTPUT} -k 'outlives or flood'",
    ),
    Bug(
        "up waits for its reader",
        "outlet.py",
        "            if self._size + len(line) + LINE_COST > self._limit:",
        "            while self._size > self._limit and self._changed.wait(0.1) in (True, False):\n"
        "                pass\n"
        "            if False:",
        f"{OUTPUT} -k stalls",
    ),
]

RECORDS = [
    Bug(
        "a damaged record of a run counts",
        "lua/_records.lua",
        "'^(%S+) (%d+%.%d+) (%d+%.%d+) (%d+%.%d+) (%d+) (%d+) (%S+) (.+)$'",
        "'^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (.*)$'",
        RECORD,
    ),
    Bug("a damaged record of a queue has a due time", "lua/_records.lua", "'^(%d+%.%d+) .'", "'^(%S+) .'", MOVES),
    Bug(
        "a queue whose name has a blank is cut off",
        "lua/_records.lua",
        "(%d+%.%d+) (.+)$'",
        "(%d+%.%d+) (%S+)'",
        RECORD,
    ),
    Bug("the record of a run knows no queue with a blank", "lua/_records.lua", "(%S+) (.+)$'", "(%S+) (%S+)$'", RECORD),
    Bug(
        "a job whose id begins with that of another is cut out of its tag",
        "lua/_records.lua",
        "local from, to = batch:find(batch_of(jobs), 1, true)",
        "local from, to = batch:find('\\n' .. table.concat(jobs, '\\n'), 1, true)",
        HELD,
    ),
    Bug(
        "a job whose id ends with that of another is cut out of its tag",
        "lua/_records.lua",
        "local from, to = batch:find(batch_of(jobs), 1, true)",
        "local from, to = batch:find(table.concat(jobs, '\\n') .. '\\n', 1, true)",
        HELD,
    ),
    Bug(
        "a job id is a pattern when it is cut out of its tag",
        "lua/_records.lua",
        "batch:find(batch_of(jobs), 1, true)",
        "batch:find(batch_of(jobs))",
        HELD,
    ),
    Bug(
        "only what stands in a row is cut out of a tag",
        "lua/_records.lua",
        "in ipairs(#jobs > 1 and jobs or {}) do",
        "in ipairs({}) do",
        HELD,
    ),
    Bug(
        "a job that is to run alone is not known by its record",
        "lua/_records.lua",
        "string.find(rest, ' alone', 1, true)",
        "nil",
        BATCH,
    ),
    Bug(
        "a job without a queue need not run alone any more",
        "lua/_records.lua",
        "(streak.alone and ' alone' or '')",
        "''",
        RECORD,
    ),
    Bug(
        "the start of a run is read as its deadline",
        "records.py",
        "return cls(tag, float(start), float(deadline), float(due),",
        "return cls(tag, float(deadline), float(start), float(due),",
        RECORD,
    ),
    Bug(
        "a record that is written anew forgets what was left behind",
        "records.py",
        "{self.losses} {self.next} {self.queue}",
        "{self.losses} - {self.queue}",
        RECORD,
    ),
    Bug(
        "Python takes what cannot be left behind for a record",
        "records.py",
        r"(-|set|once|due:{MOMENT}) (.+)",
        r"(\S+) (.+)",
        RECORD,
    ),
    Bug("Python knows no queue with a blank", "records.py", 'rf"({MOMENT}) (.+)"', 'rf"({MOMENT}) (\\S+)"', RECORD),
    Bug("what is to run alone is not noted", "records.py", "{' alone' if self.alone else ''}", "", BATCH),
    Bug(
        "the place of the schedule is not noted where nothing was tried",
        "records.py",
        'if self.tries or (due, after) != ("-", "-") else ""',
        'if self.tries else ""',
        RECORD,
    ),
]

TOGETHER = [
    Bug("a tag without runs keeps its list", "lua/_prelude.lua", "  change('HDEL', batches, {tag})\n", "", HELD),
    Bug("a tag without runs keeps its lease", "lua/_prelude.lua", "  change('ZREM', leases, {tag})\n", "", HELD),
    Bug(
        "a tag without runs keeps its expiring key",
        "lua/_prelude.lua",
        "  change('DEL', inflight .. tag, {})\n",
        "",
        HELD,
    ),
    Bug(
        "the first end of several takes the lease of the others",
        "lua/_prelude.lua",
        "if #left > 1 then return change('HSET', batches, {tag, left}) end",
        "if #left > 1 then change('HSET', batches, {tag, left}) end",
        HELD,
    ),
    Bug(
        "a run that has ended stays in the list of its tag",
        "lua/_prelude.lua",
        "if #left > 1 then return change('HSET', batches, {tag, left}) end",
        "if #left > 1 then return end",
        HELD,
    ),
    Bug("a sign of life gives a tag a lease again", "lua/heartbeat.lua", "{'XX', ", "{", "tests/test_heartbeat.py"),
    Bug(
        "a lease goes by the first of several deadlines",
        "lua/heartbeat.lua",
        "math.max(last[tag] or 0, deadline)",
        "math.min(last[tag] or deadline, deadline)",
        HELD,
    ),
    Bug(
        "a lease goes by the timeout of the first run",
        "lua/take.lua",
        "if home.timeout > longest then",
        "if longest == 0 then",
        HELD,
    ),
    Bug(
        "a lease is as long as ever when runs are taken",
        "lua/take.lua",
        "math.min(given.lease, longest + given.grace)",
        "given.lease",
        HELD,
    ),
    Bug(
        "a run has the deadline of another queue",
        "lua/take.lua",
        "home.deadline = stamp(now + given.timeouts[number])",
        "home.deadline = stamp(now + given.timeouts[1])",
        HELD,
    ),
    Bug(
        "a worker takes one deadline for all queues",
        "store.py",
        "tag, began, deadlines[home], 0, 0",
        "tag, began, max(deadlines.values()), 0, 0",
        HELD,
    ),
    Bug(
        "the runs of several are over with the first deadline",
        "lua/end.lua",
        "now - given.late >= tonumber(run.deadline)",
        "now - given.late >= given.deadline",
        HELD,
    ),
    Bug(
        "the runs of several are in time until the last deadline",
        "store.py",
        "deadline = min(run.deadline",
        "deadline = max(run.deadline",
        HELD,
    ),
    Bug(
        "a tag that begins like another ends its runs",
        "lua/end.lua",
        "given.deadline, tag .. ' '\n",
        "given.deadline, tag\n",
        HELD,
    ),
    Bug("what ends as a whole ends in parts", "lua/end.lua", "if given.whole and", "if false and", HELD),
    Bug(
        "what has not ended, as one of several has changed, is said to have",
        "lua/end.lua",
        "return {'kept', table.concat(words",
        "return {'ok', table.concat(words",
        HELD,
    ),
    Bug(
        "a survey tells of a list of jobs however long that is",
        "lua/survey.lua",
        "for i = #jobs, MOST + 1, -1 do jobs[i] = nil end",
        "",
        HELD,
    ),
    Bug(
        "the runs of a dead worker need not end as a whole",
        "store.py",
        "        if whole:\n",
        "        if False:\n",
        HELD,
    ),
    Bug("only the first run of a dead worker is found", "store.py", "lost += found\n", "lost += found[:1]\n", HELD),
    Bug(
        "a tag that lists a job that is not its own is left so",
        "store.py",
        "if len(found) < len(runs):",
        "if False:",
        HELD,
    ),
    Bug(
        "a dispatcher does not mend a tag",
        "dispatcher.py",
        "            self.store.hold(tag, jobids, now)\n",
        "            pass\n",
        HELD,
    ),
    Bug(
        "a job that a dead worker once had counts as lost",
        "store.py",
        'if run is not None and run.tag == held["tag"]]',
        "if run is not None]",
        HELD,
    ),
    Bug(
        "a survey tells of every lost run at once",
        "lua/survey.lua",
        "if many >= given.lost then break end",
        "",
        HELD,
    ),
    Bug(
        "a tag gets no lease when it is mended", "lua/hold.lua", "if not lease or lease >", "if lease and lease >", HELD
    ),
    Bug(
        "a lease that is too long stays",
        "lua/hold.lua",
        "if not lease or lease > last + given.grace + given.slack then",
        "if not lease then",
        HELD,
    ),
    Bug("a tag that is mended lists a job twice", "lua/_records.lua", "and not runs[job] then", "then", HELD),
    Bug(
        "an expiring key that does not name all its jobs stays",
        "lua/hold.lua",
        "whole = whole and named[job]",
        "whole = whole",
        HELD,
    ),
    Bug(
        "a tag that is mended lasts until its first deadline",
        "lua/hold.lua",
        "math.max(last, run.deadline)",
        "last > 0 and last or tonumber(run.deadline)",
        HELD,
    ),
    Bug("a tag without runs is mended and stays", "lua/hold.lua", "if #own == 0 then", "if false then", HELD),
    Bug(
        "the run of another tag is held to be its own",
        "lua/_records.lua",
        "if run and run.tag == tag and",
        "if run and",
        HELD,
    ),
    Bug("the loss of a lease is not found", "fsck.py", "if held.lease is None:", "if False:", HELD),
    Bug(
        "a run that its tag does not list is not found",
        "fsck.py",
        "for jobid in sorted(own - listed))",
        "for jobid in ())",
        HELD,
    ),
]

TAKING = [
    Bug(
        "a tag that was served already is served again",
        "lua/take.lua",
        "(given.repeated or served) and",
        "given.repeated and",
        HELD,
    ),
    Bug("what is to run alone takes others along", "lua/take.lua", "    if tried.alone then break end\n", "", BATCH),
    Bug(
        "a tombstone stays when its entry is thrown away",
        "lua/take.lua",
        "    change('SREM', home.tombstones, {job})\n",
        "",
        TOMBSTONES,
    ),
    Bug("an entry that was looked at is thrown away", "lua/take.lua", "{home.used})", "{home.seen})", BATCH),
    Bug("one entry too few leaves its queue", "lua/take.lua", "{home.used})", "{math.max(1, home.used - 1)})", BATCH),
    Bug(
        "a worker rests beside entries that it has not looked at",
        "lua/take.lua",
        "return write({'again'})",
        "return write({'empty'})",
        TOMBSTONES,
    ),
    Bug(
        "a job that is twice in its queue is taken twice",
        "lua/take.lua",
        "schedule and not taken[job] and",
        "schedule and",
        BATCH,
    ),
    Bug(
        "a job in flight is taken again by an entry of nobody",
        "lua/take.lua",
        "(place or call('HEXISTS', running, job) == 0)",
        "true",
        MOVES,
    ),
    Bug(
        "an entry that is adopted stays on the timeline",
        "lua/take.lua",
        "if not place then change('ZREM', timeline, {job}) end",
        "",
        MOVES,
    ),
    Bug("who came after a HALT gets no job", "lua/take.lua", "(signal or given.seen) ~= given.seen", "signal", MOVES),
    Bug(
        "tombstones are thrown away one at a time",
        "lua/take.lua",
        "home.buried and math.max(look, LOOK) or look",
        "look",
        TOMBSTONES,
    ),
    Bug(
        "an id that nobody knows keeps its status",
        "lua/take.lua",
        "    if not schedule then change('HDEL', statuses, {job}) end\n",
        "",
        MOVES,
    ),
    Bug(
        "a run does not know how often it has failed",
        "store.py",
        "run.failures, run.losses, run.tries, run.after = kept.failures, kept.losses, kept.tries, kept.after",
        "run.tries, run.after = kept.tries, kept.after",
        MOVES,
    ),
]

BURIED = [
    Bug(
        "what was left behind in a list that is gone comes back",
        "lua/_prelude.lua",
        "if buried and length == 0 then",
        "if false then",
        TOMBSTONES,
    ),
    Bug(
        "what is given back to a list that is gone is thrown away",
        "lua/release.lua",
        "if deleted then change('DEL', home.tombstones, {}) end",
        "",
        TOMBSTONES,
    ),
    Bug(
        "unset forgets a job that waits in another queue",
        "lua/unset.lua",
        "if home and home ~= queue[1].name then return {'elsewhere', home} end",
        "",
        MOVES,
    ),
    Bug(
        "set leaves a tombstone in a queue where the job does not wait",
        "lua/set.lua",
        "if home and home ~= queue[job.queue].name then return home end",
        "",
        MOVES,
    ),
    Bug(
        "a tombstone counts as an entry",
        "records.py",
        "self.entries.get(name, 0) - (name in self.tombstones)",
        "self.entries.get(name, 0)",
        TOMBSTONES,
    ),
    Bug(
        "a repair does not see that a job was withdrawn meanwhile",
        "lua/repair.lua",
        "if call('SISMEMBER', home.tombstones, job) ~= entry.dead then return {'stale'} end",
        "",
        TOMBSTONES,
    ),
    Bug(
        "a repair leaves the tombstone",
        "lua/repair.lua",
        "if entry.buried < entry.dead then change('SREM', home.tombstones, {job}) end",
        "",
        TOMBSTONES,
    ),
    Bug(
        "what an older version has withdrawn is not adopted",
        "loop.py",
        "        store.adopt_tombstones()\n",
        "",
        ADOPTION,
    ),
    Bug(
        "what was set since it was withdrawn is buried",
        "lua/adopt.lua",
        "if waits_in ~= home.name then",
        "if true then",
        ADOPTION,
    ),
    Bug("a tombstone is adopted again and again", "lua/adopt.lua", "change('SREM', withdrawn, {old})", "", ADOPTION),
    Bug(
        "a run is listed twice when its lease is adopted",
        "lua/adopt.lua",
        "for _, other in ipairs(jobs) do known = known or other == job end",
        "",
        ADOPTION,
    ),
    Bug(
        "the last lease that is adopted is that of all",
        "lua/adopt.lua",
        "held[run.tag] or jobs_of(call('HGET', batches, run.tag))",
        "{}",
        ADOPTION,
    ),
    Bug(
        "the lease of a tag is taken for an older one",
        "lua/adopt.lua",
        "call('ZSCORE', leases, job) and #jobs_of(call('HGET', batches, job)) == 0",
        "call('ZSCORE', leases, job)",
        HELD,
    ),
    Bug(
        "runs of an older version have no expiring key",
        "lua/adopt.lua",
        "if left > 0 then change('PSETEX', inflight .. tag, {left, batch}) end",
        "",
        HELD,
    ),
    Bug("an older lease is no lost run", "store.py", '                old.append(held["tag"])\n', "", ADOPTION),
]

SETTING = [
    Bug(
        "what differs behind its anchor counts as unchanged",
        "lua/set.lua",
        "and (tail == 0 or old:sub(-tail) == job.schedule:sub(-tail))",
        "",
        MOVES,
    ),
    Bug(
        "what is in flight does not keep its place",
        "lua/set.lua",
        "same and (run or home or",
        "same and (home or",
        MOVES,
    ),
    Bug(
        "a one-off that is past is before it was set",
        "lua/set.lua",
        "given.from_now and not job.once and",
        "given.from_now and",
        FACADE,
    ),
    Bug(
        "a one-off that is set during a run is not owed", "lua/set.lua", "job.once and 'once' or 'set'", "'set'", MOVES
    ),
    Bug(
        "a run that is owed is dropped without a word",
        "lua/set.lua",
        "if owed then count('withdrawn', job.id, 1) end",
        "",
        MOVES,
    ),
    Bug(
        "the same schedule during a run counts as a new one",
        "lua/set.lua",
        "elseif not same or not due then",
        "else",
        MOVES,
    ),
    Bug(
        "a job in a queue that is due again loses its turn",
        "lua/set.lua",
        "due and (due <= now or same) then return end",
        "due and same then return end",
        MOVES,
    ),
    Bug(
        "a job that is set again during its run has no status",
        "lua/set.lua",
        "== 0 then mark(job.id, 'WRK') end",
        "== 2 then mark(job.id, 'WRK') end",
        MOVES,
    ),
    Bug(
        "a job that is set anew is still tried again",
        "lua/set.lua",
        "if trying and #calm > 0 then change('HDEL', streaks, calm) end",
        "",
        MOVES,
    ),
    Bug(
        "what was owed runs after the job was unset",
        "lua/unset.lua",
        "  run.next = '-'",
        "  run.next = run.next",
        MOVES,
    ),
    Bug(
        "a run that is asked for in flight is not owed",
        "lua/requeue.lua",
        "  run.next = 'due:' .. stamp(now)\n",
        "",
        MOVES,
    ),
    Bug(
        "a requeue keeps the failures in a row",
        "lua/requeue.lua",
        "kept.failures, kept.losses, kept.alone = '0', '0', nil",
        "",
        MOVES,
    ),
    Bug("what was unset is given back to its queue", "lua/release.lua", "not known[i] and 'unset' or", "", BATCH),
    Bug(
        "what is given back has another due time",
        "lua/release.lua",
        "note(homes, job, run.due ..",
        "note(homes, job, stamp(now) ..",
        BATCH,
    ),
]

CONFLICTS = [
    Bug(
        "what was asked for during a run is overlooked",
        "lua/end.lua",
        " and record:sub(-home.size) == home.tail)",
        ")",
        MOVES,
    ),
    Bug(
        "a place on the timeline is overlooked when a run ends",
        "lua/end.lua",
        "(run.next ~= '-' and call('ZSCORE', timeline, job) and '+timeline' or '')",
        "''",
        MOVES,
    ),
    Bug(
        "a job that was set anew unsets itself",
        "lua/end.lua",
        "if not schedule or schedule == expected",
        "if not schedule or how.place == 'unset' or schedule == expected",
        MOVES,
    ),
    Bug(
        "a job on the timeline is stopped by its run",
        "lua/end.lua",
        "or due == '' and place ~= 'stay' then",
        "or due == '' then",
        MOVES,
    ),
    Bug(
        "a success leaves the failures in a row",
        "lua/end.lua",
        "if trying and not how.streak then",
        "if false then",
        MOVES,
    ),
    Bug(
        "the newest failure is dropped",
        "lua/end.lua",
        "call('ZREVRANGE', failure_times,",
        "call('ZRANGE', failure_times,",
        MOVES,
    ),
    Bug(
        "one failure too many is dropped",
        "lua/end.lua",
        "call('ZREVRANGE', failure_times, given.most, given",
        "call('ZREVRANGE', failure_times, given.most - 1, given",
        MOVES,
    ),
    Bug(
        "a failure that is dropped is still counted",
        "lua/end.lua",
        " call('ZREM', failure_times, unpack(old)) end",
        " end",
        MOVES,
    ),
    Bug(
        "a retry forgets the failure before it",
        "lua/end.lua",
        "(how.failure or how.why or how.retried)",
        "(how.failure or how.why)",
        MOVES,
    ),
    Bug(
        "what is on the timeline is computed anew",
        "outcome.py",
        "if changed.left.endswith(ON_TIMELINE):",
        "if False:",
        OUTCOME,
    ),
    Bug(
        "what stays on the timeline is a try",
        "outcome.py",
        'place="stay", due=None, streak="")',
        'place="stay", due=None)',
        OUTCOME,
    ),
    Bug("a place on the timeline is a part of what is owed", "outcome.py", ".removesuffix(ON_TIMELINE)", "", OUTCOME),
    Bug(
        "a retry whose schedule was set anew is a success",
        "outcome.py",
        "left=changed.left, retried=outcome.retried)",
        "left=changed.left)",
        OUTCOME,
    ),
    Bug(
        "the failure of a run is forgotten when something was set",
        "outcome.py",
        "why=outcome.why, failure=outcome.failure)",
        "why=outcome.why)",
        OUTCOME,
    ),
    Bug(
        "a one-off that is owed leaves a place of its schedule",
        "outcome.py",
        "if runs_once(schedule):",
        "if False:",
        OUTCOME,
    ),
    Bug(
        "a run that happens again is owed another one",
        "outcome.py",
        '    if outcome.place == "due":\n',
        "    if False:\n",
        OUTCOME,
    ),
    Bug(
        "what is owed takes the next occurrence with it",
        "outcome.py",
        "after = outcome.due - JUST_BEFORE",
        "after = outcome.due",
        OUTCOME,
    ),
    Bug(
        "the place of an old schedule counts for the new one",
        "outcome.py",
        "if schedule == run.schedule else asked_for",
        "",
        OUTCOME,
    ),
    Bug(
        "a place is computed from what was computed before",
        "outcome.py",
        "placed = anew(run, outcome, answer, settings, clock())",
        "placed = outcome = anew(run, outcome, answer, settings, clock())",
        OUTCOME,
    ),
    Bug(
        "a count that is none leaves half of a change",
        "lua/_prelude.lua",
        "table.insert(changes, 1, {'HINCRBY', skipped, {reason .. ':' .. job, number}})",
        "change('HINCRBY', skipped, {reason .. ':' .. job, number})",
        MOVES,
    ),
    Bug(
        "tokens pile up",
        "lua/_prelude.lua",
        "if call('LLEN', list) == 0 then change('LPUSH', list, {'1'}) end",
        "change('LPUSH', list, {'1'})",
        MOVES,
    ),
    Bug(
        "a queue that is new is not known",
        "lua/_prelude.lua",
        "if length == 0 then change('SADD', queues, {home.name}) end",
        "",
        MOVES,
    ),
    Bug(
        "only the first of several that are postponed wakes a dispatcher",
        "lua/_prelude.lua",
        "    for i = 3, #waits, 2 do soonest = math.min(soonest, waits[i]) end\n",
        "",
        MOVES,
    ),
]

BUGS = [
    *AROUND,
    *SPLIT,
    *OCCURRENCES,
    *TAGS,
    *STATUSES,
    *LOSSES,
    *TIME,
    *WAKING,
    *QUEUES,
    *PLACES,
    *CALENDAR,
    *COMMANDS,
    *RECORDS,
    *TOGETHER,
    *TAKING,
    *BURIED,
    *SETTING,
    *CONFLICTS,
]
