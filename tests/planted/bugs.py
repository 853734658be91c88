"""The planted bugs: each is one small replacement in the package, and the tests that are to catch it."""

from typing import NamedTuple

# Where the tests are that catch most of them.
CRASHES = "tests/test_crashes.py -k"
MOVES = "tests/test_transitions.py"
WORKER = "tests/test_worker.py"
BATCH = "tests/test_batch.py"
DISPATCHER = "tests/test_dispatcher.py"
FACADE = "tests/test_redbike.py"
LONG = "tests/test_long_queues.py"
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
        "word, place = commit(self.store, run, outcome, self.settings, lambda: survey.now, now)",
        'word, place = self.store.end(run, type(outcome)("die", why="lost"), now); self.store.requeue(run.jobid)',
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
        "if #gone > 0 then call('ZREM', timeline, unpack(gone)) end",
        "",
        MOVES,
    ),
    Bug("the end of a run leaves its record", "lua/end.lua", "land(gone, keys)", "", MOVES),
    Bug("a job that is given back stays in flight", "lua/release.lua", "land(gone, keys)", "", MOVES),
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
        "if own ~= tag then return 'stale' end",
        "if not own then return 'stale' end",
        MOVES,
    ),
    Bug("any tag renews a lease", "lua/heartbeat.lua", "if own ~= tag then", "if not own then", MOVES),
    Bug(
        "any tag gives a run back",
        "lua/release.lua",
        "words[i] = own ~= tag and 'stale'",
        "words[i] = not own and 'stale'",
        MOVES,
    ),
    Bug("the tag of the expiring key is not compared", "lua/end.lua", "or tags[i] ~= tag", "or not tags[i]", MOVES),
    Bug("all tags are the same", "store.py", "os.urandom(12)", "bytes(12)", MOVES),
    Bug(
        "a set that is repeated acts again",
        "lua/set.lua",
        "== 0 then return reply end",
        "== 2 then return reply end",
        MOVES,
    ),
    Bug(
        "a requeue that is repeated acts again",
        "lua/requeue.lua",
        "== 0 then return {'ok'} end",
        "== 2 then return {'ok'} end",
        MOVES,
    ),
    Bug("a take that is repeated takes more", "lua/take.lua", "ARGV[6] == '1'", "ARGV[6] == '2'", MOVES),
    Bug(
        "a retry does not say that it is one",
        "loop.py",
        "result = action(repeated)",
        "result = action(False)",
        f"{CRASHES} 'work and lost'",
    ),
    Bug("requests are remembered for ever", "lua/set.lua", "call('ZREMRANGEBYRANK', requests, 0, -10001)", "", MOVES),
]

STATUSES = [
    Bug("a run leaves the status of the queue", "lua/take.lua", "mark(job, 'WRK')", "", MOVES),
    Bug(
        "an end leaves the status of the run", "lua/end.lua", "mark(job, place == 'die' and 'DIE' or 'STP')", "", MOVES
    ),
    Bug("a skip leaves the status of the timeline", "lua/skip.lua", "mark(job, 'STP')", "", MOVES),
    Bug("a job that is given back keeps its status", "lua/release.lua", "mark(job, 'ENQ')", "", MOVES),
    Bug("a job that is unset keeps its status", "lua/unset.lua", " + call('HDEL', statuses, job)", "", MOVES),
    Bug("a job that unsets itself keeps its status", "lua/end.lua", "  call('HDEL', statuses, job)\n", "", MOVES),
    Bug(
        "a job without a queue leaves the timeline",
        "lua/dispatch.lua",
        "put_off(job, tonumber(tried) or due, tries[i])",
        "gone[#gone + 1] = job",
        MOVES,
    ),
    Bug(
        "a job without a queue gets another due time",
        "lua/dispatch.lua",
        "put_off(job, tonumber(tried) or due, tries[i])",
        "postpone(job, stamp(now + PAUSE))",
        MOVES,
    ),
]

OCCURRENCES = [
    Bug(
        "a retry gets another due time",
        "lua/dispatch.lua",
        "enqueue(job, tried or stamp(due), name, queue, wake)",
        "enqueue(job, stamp(due), name, queue, wake)",
        MOVES,
    ),
    Bug(
        "a retry without a pause gets another due time",
        "lua/end.lua",
        "enqueue(job, occurrence or stamp(at), home",
        "enqueue(job, stamp(at), home",
        FACADE,
    ),
    Bug("an overrun is no attempt", "outcome.py", "streak=next_try(run, run.failures, losses=0)", 'streak=""', OUTCOME),
    Bug("a retry is not counted", "outcome.py", "run.tries + 1, run.due", "run.tries, run.due", OUTCOME),
    Bug("the tries of a lost run are forgotten", "store.py", "tries=kept.tries, after", "tries=0, after", MOVES),
    Bug(
        "what failed is run for another due time when it is asked for",
        "lua/requeue.lua",
        "elseif failed then",
        "elseif false then",
        MOVES,
    ),
    Bug(
        "a retry that is asked for has another due time",
        "lua/requeue.lua",
        "due = tonumber(occurrence)",
        "due = now",
        MOVES,
    ),
    Bug(
        "a run in between moves the place of the schedule",
        "lua/requeue.lua",
        "due, tried, occurrence, after = now, due and 0, '-', goes_on",
        "due, tried = now, nil",
        MOVES,
    ),
    Bug(
        "a run that is owed moves the place of the schedule",
        "lua/end.lua",
        "streak = goes_on and schedule == expected and resume(due, how, occurrence) or ''",
        "streak = ''",
        MOVES,
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
        "run = replace(run, after=max(run.goes_on_after, run.start))",
        "",
        OUTCOME,
    ),
    Bug(
        "a one-off that has ended keeps its text",
        "lua/end.lua",
        "if place == 'stop' or one_off(schedule) then",
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
        "    if keeps then\n      stays = true",
        "    if false then\n      stays = true",
        MOVES,
    ),
    Bug(
        "what has failed for good is revived by a file that is loaded again",
        "lua/set.lua",
        "or rests and string.sub",
        "or false and string.sub",
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
        "and string.sub(old, 1, head) == string.sub(schedule, 1, head)",
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
        "if due and due <= now and not string.find",
        "if false and not string.find",
        FACADE,
    ),
    Bug("a success does not forget the failure", "lua/end.lua", "well[#well + 1] = job", "", MOVES),
    Bug("a skip takes a retry away", "lua/skip.lua", "TRIED) then", "TRIED) and false then", DISPATCHER),
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
        "math.min(now + lease, tonumber(deadline) + grace)",
        "now + lease",
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
    Bug(
        "a run that is not lost is recovered", "lua/end.lua", "if how.why == 'lost' and", "if how.why == '-' and", MOVES
    ),
    Bug("losses are not counted", "outcome.py", "losses = run.losses + 1", "losses = run.losses", DISPATCHER),
    Bug("the fourth loss is the last", "outcome.py", "losses >= MAX_LOSSES", "losses > MAX_LOSSES", OUTCOME),
    Bug(
        "a run forgets the losses before it",
        "lua/take.lua",
        "if streak then counts",
        "if not streak then counts",
        DISPATCHER,
    ),
    Bug(
        "streaks are not kept",
        "lua/end.lua",
        "if streak == '' then calm",
        "if true then calm",
        DISPATCHER,
    ),
    Bug(
        "runs that are lost together count as lost",
        "dispatcher.py",
        "together = held[run.tag] > 1 and",
        "together = held[run.tag] > 99 and",
        BATCH,
    ),
    Bug(
        "a job that may kill its worker does not run alone",
        "lua/take.lua",
        "closed = alone and size > 0",
        "closed = alone and size > 99",
        BATCH,
    ),
    Bug(
        "runs of one worker on two pages are told apart",
        "dispatcher.py",
        "del held[survey.lost[-1].tag]",
        "pass",
        DISPATCHER,
    ),
]

TIME = [
    *(
        Bug(
            f"the host's clock counts {when}",
            "store.py",
            f"[_moment(now), {then}",
            f"[_moment(now or time.time()), {then}",
            FACADE,
        )
        for when, then in (
            ("when a job is set", "new_tag(), "),
            ("when a job is taken", "tag, seen"),
            ("when a run ends", "ended[0]"),
            ("when a job is dispatched", "str(len(groups))"),
            ("when a dispatcher looks what is due", "str(LOOK)"),
        )
    ),
    Bug(
        "an overrun is not noticed",
        "lua/end.lua",
        "now - late >= tonumber(deadline) or",
        "now >= tonumber(deadline) + 9 or",
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
        "math.floor(timeout * 1000)",
        "math.floor(timeout)",
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
    Bug("a job that was postponed is moved", "lua/dispatch.lua", "(scores[i] == text or", "(scores[i] or", MOVES),
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
    Bug("no token wakes a worker", "lua/_prelude.lua", "    token(list.wake)\n", "", MOVES),
    Bug("no token wakes a dispatcher", "lua/_prelude.lua", "then token(wakeup) end", "then end", MOVES),
    Bug("a worker does not wake the next one", "lua/take.lua", "> queue.used then token(", "> 1e9 then token(", MOVES),
    Bug("what is given back wakes nobody", "lua/release.lua", "token(KEYS[11 + 2 * numbers[home]])", "", MOVES),
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
        "size('string', control) > 0",
        "size('string', control) < 0",
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
        "turns[(position + step) % #turns + 1]",
        "turns[step % #turns + 1]",
        BATCH,
    ),
    Bug("what is given back goes to the end of its queue", "lua/release.lua", "call('RPUSH'", "call('LPUSH'", BATCH),
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
        "time.monotonic() - self._asked > self._stale",
        "False",
        BATCH,
    ),
    Bug("a job is twice in its queue", "lua/dispatch.lua", "elseif not queued_for[i] then", "else", MOVES),
    Bug(
        "a job that is taken is still recorded as queued",
        "lua/take.lua",
        "if #used > 0 then call('HDEL', queued, unpack(used)) end",
        "",
        MOVES,
    ),
    Bug(
        "unset leaves a job in the queue", "lua/unset.lua", "if waiting then withdraw(job, queue, name) end", "", MOVES
    ),
    Bug("set leaves a job in the queue", "lua/set.lua", "withdraw(job, queue, name)", "", MOVES),
    Bug(
        "what is withdrawn is still recorded as queued",
        "lua/_prelude.lua",
        "  call('HDEL', queued, job)\n  if sizes",
        "  if sizes",
        MOVES,
    ),
    Bug(
        "what is withdrawn stays in a short queue",
        "lua/_prelude.lua",
        "then return call('LREM', queue, -1, job) end",
        "then return end",
        MOVES,
    ),
    Bug(
        "what is withdrawn from a long queue is run",
        "lua/_prelude.lua",
        "  call('SADD', withdrawn, entry(job, name))\n  withdrawing = true\n",
        "",
        LONG,
    ),
    Bug(
        "a job that is enqueued again is thrown away with its old entry",
        "lua/_prelude.lua",
        "  if #found > 0 then call('SREM', withdrawn, unpack(found)) end\n",
        "",
        LONG,
    ),
    Bug(
        "a job that is enqueued again is twice in a long queue",
        "lua/_prelude.lua",
        "if left == 1 then found[#found + 1] = entries[i] else rest[#rest + 1] = list[i] end",
        "rest[#rest + 1] = list[i]",
        LONG,
    ),
    Bug(
        "an old entry takes the record of another queue with it",
        "lua/take.lua",
        "if waits then used[#used + 1] = job else over[#over + 1] = entries[i] end",
        "used[#used + 1] = job; if not waits then over[#over + 1] = entries[i] end",
        LONG,
    ),
    Bug("set leaves a queued job on the timeline", "lua/set.lua", "then gone[#gone + 1] = job end", "then end", MOVES),
    Bug(
        "a queue may have the name of a key",
        "keys.py",
        "name in COMMON or name in OTHERS",
        "name in OTHERS",
        "tests/test_keys.py",
    ),
    Bug(
        "only the first page of what is due is moved",
        "dispatcher.py",
        "            if not due:\n",
        "            if True:\n",
        DISPATCHER,
    ),
    Bug("the oldest failure is kept", "lua/end.lua", "if surplus > 0 then", "if surplus > 1e9 then", MOVES),
]

PLACES = [
    Bug("the schedule is not compared when a run ends", "lua/end.lua", "(schedule ~= expected or", "(false or", MOVES),
    Bug(
        "the schedule is not compared when one is skipped",
        "lua/skip.lua",
        "or call('HGET', schedules, job) ~= schedule",
        "",
        MOVES,
    ),
    Bug(
        "a run that is owed is forgotten",
        "lua/end.lua",
        "  if owed then\n    call('ZREM'",
        "  if false then\n    call('ZREM'",
        MOVES,
    ),
    Bug(
        "a one-off that comes due in flight is forgotten",
        "lua/dispatch.lua",
        "if next == 'once' then",
        "if false then",
        MOVES,
    ),
    Bug(
        "StopWork does not change the schedule",
        "lua/end.lua",
        "if place == 'stop' or one_off(schedule) then",
        "if one_off(schedule) then",
        WORKER,
    ),
    Bug(
        "a skip while it runs is not counted",
        "lua/dispatch.lua",
        "call('HINCRBY', skipped, 'running:' .. job, 1)",
        "",
        MOVES,
    ),
    Bug(
        "a skip of the dispatcher is not counted",
        "lua/skip.lua",
        "call('HINCRBY', skipped, 'missed:' .. job, count)",
        "",
        MOVES,
    ),
    Bug("a skip of the worker is not counted", "lua/end.lua", "if how.missed > 0 then", "if false then", WORKER),
    Bug("a repeated skip counts twice", "lua/skip.lua", "if score ~= due or", "if", MOVES),
    Bug(
        "one try too few",
        "outcome.py",
        "run.failures < settings.retries",
        "run.failures + 1 < settings.retries",
        OUTCOME,
    ),
    Bug("pauses do not grow", "outcome.py", "* 2.0 **", "* 1.0 **", OUTCOME),
    Bug("a requeue keeps the failure", "lua/requeue.lua", "call('HDEL', failures, job)", "", MOVES),
    Bug("a wrong type is found too late", "lua/_prelude.lua", "expect('zset', timeline, leases)", "", MOVES),
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
]
