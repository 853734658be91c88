"""The planted bugs: each is one small replacement in the package, and the tests that are to catch it.

A generator makes most mutants, see ``tests.mutation``. These are the ones that it does not make: most of them were real
once, or break a promise in a way that is easily missed.
"""

from typing import NamedTuple

CRASHES = "tests/test_crashes.py -k"
MOVES = "tests/store/test_transitions.py"
WORKER = "tests/worker/test_worker.py"
BATCH = "tests/worker/test_batch.py"
DISPATCHER = "tests/dispatcher/test_dispatcher.py"
FACADE = "tests/facade/test_redbike.py"
TAG = "tests/store/test_tags.py"
QUEUE_LIMITS = "tests/store/test_queue_limits.py"
OUTCOME = "tests/loop/test_policies.py"
ROTATION = "tests/worker/test_queues.py"
RULE = "tests/schedule/test_rrule.py"
CALENDARS = "tests/importers/test_calendars.py"
PROCESSES = "tests/commands/test_processes.py"
SIGNALS = "tests/process/test_signals.py"
FORKS = "tests/process/test_forks.py"
SUPERVISOR = "tests/process/test_supervisor.py"
OUTPUT = "tests/process/test_output.py"
MISBEHAVIOUR = "tests/worker/test_misbehaviour.py"
PAUSES = "tests/store/test_pauses.py"
RESUMING = "tests/loop/test_resuming.py"
EXPIRING = "tests/dispatcher/test_expiring.py"
ALERTING = "tests/loop/alerts/test_alerting.py"
ALERT_LATE = "tests/loop/alerts/test_late.py"
SYNC = "tests/control/test_sync.py"
IMPORT_CRONTAB = "tests/cli/test_import_crontab.py"
HEALTH = "tests/queries/test_health.py"
TAIL = "tests/cli/test_tail.py"
INCIDENT = "tests/queries/test_incident.py"
PINGS = "tests/loop/test_pings.py"
PAGING = "tests/store/test_paging.py"
FORECAST_PAGE = "tests/web/test_pages_forecast.py"
WHY = "tests/queries/test_why.py"
OVERVIEW = "tests/store/test_overview.py"
LISTING = "tests/cli/test_list.py"
NOTIFY = "tests/worker/test_notify.py"
EVENTS = "tests/store/test_events.py"
JOURNAL = "tests/store/test_journal.py"
STOPPING = "tests/facade/test_stopping.py"
ASYNCHRONOUS = "tests/facade/test_asynchronous.py"
RUN_DUE = "tests/testing/test_run_due.py"
PLUGIN = "tests/testing/test_plugin.py"
COMPLETION = "tests/cli/test_completion.py"
LOGIN = "tests/web/test_login.py"
ACT_PAGE = "tests/web/test_act.py"
PAGE_SAFETY = "tests/web/test_act_safety.py"
SET_PAGE = "tests/web/test_act_set.py"


class Bug(NamedTuple):
    """`old`, which stands once in `file` of the package, becomes `new`; `tests` are arguments of pytest."""

    name: str
    file: str
    old: str
    new: str
    tests: str


BUGS = [
    Bug(
        "the page changes jobs without the permission to write",
        "web/login.py",
        "        if get_path(scope) not in FOR_ALL and not self._write:",
        "        if False:",
        f"{LOGIN} -k permission_to_write",
    ),
    Bug(
        "a page of another site changes jobs",
        "web/login.py",
        "        if not is_own_origin(scope, headers):",
        "        if False:",
        f"{LOGIN} -k another_page",
    ),
    Bug(
        "a session can be forged",
        "web/keys.py",
        '        if not _is_same(signature, self._sign(f"session {text}")):',
        "        if not signature:",
        f"{LOGIN} -k forged",
    ),
    Bug(
        "the key of a form is for all browsers",
        "web/keys.py",
        'self._sign(f"form {browser}")',
        'self._sign("form")',
        f"{LOGIN} -k for_the_browser",
    ),
    Bug(
        "the page is shown without the token",
        "web/login.py",
        "        if self._keys.are_asked_for and path not in FOR_ALL and not is_asset(scope):",
        '        if self._keys.are_asked_for and path == "/":',
        f"{LOGIN} -k every_page_leads",
    ),
    Bug(
        "what is from Redis is markup",
        "web/rendering.py",
        "autoescape=select_autoescape(default=True)",
        "autoescape=False",
        "tests/web/test_pages_all.py -k hostile_shows_as_text",
    ),
    Bug(
        "websockets pass the limits",
        "web/login.py",
        '        if scope["type"] == "websocket":\n            await send({"type": "websocket.close", "code": 1008})\n',
        '        if scope["type"] == "websocket":\n            await self._app(scope, receive, send)\n',
        f"{LOGIN} -k websockets",
    ),
    Bug(
        "a command gets the token of the page",
        "commands/environment.py",
        "name not in HIDDEN}",
        'name not in HIDDEN - {b"REDBIKE_WEB_TOKEN"}}',
        "tests/commands/test_commands.py -k not_the_urls",
    ),
    Bug(
        "a one-off runs again when a load changes an option of it",
        "loop/requests.py",
        "SetMode.KEEP_SCHEDULE if self.stays and not new_jitter else ",
        "",
        f"{SYNC} -k something_else",
    ),
    Bug(
        "a load removes what another file has",
        "store/rows.py",
        "if Membership.parse(record).group == group)",
        "if record)",
        f"{SYNC} -k only_what",
    ),
    Bug(
        "what has become a row of another group meanwhile is unset",
        "store/lua/unset.lua",
        "if group and known > 0 and ",
        "if false and ",
        f"{MOVES} -k leave",
    ),
    Bug(
        "a file with a torn row removes jobs",
        "control/sync/syncer.py",
        "        if wish.prunes and unreadable:",
        "        if wish.prunes and unreadable < 0:",
        SYNC,
    ),
    Bug(
        "files of the same name in two folders are one",
        "control/sync/changes.py",
        "os.path.abspath(source)",
        "os.path.basename(source)",
        f"{SYNC} -k full_path",
    ),
    Bug(
        "a file that cannot be read to its end seems to end there",
        "control/sync/syncer.py",
        "        if chunks.error:\n            raise chunks.error\n",
        "",
        f"{SYNC} -k cannot_be_read",
    ),
    Bug(
        "close does not wait for the loops of other threads",
        "loop/lifecycle.py",
        "                stay.over.wait()\n",
        "                pass\n",
        f"{STOPPING} -k close_waits",
    ),
    Bug(
        "close in a job leaves the connections open",
        "loop/lifecycle.py",
        "            del self._stays[id(stay)]\n            self._release_if_over()\n",
        "            del self._stays[id(stay)]\n",
        f"{STOPPING} -k close_in_a_job",
    ),
    Bug(
        "a job that closes waits for who waits for it",
        "facade/asynchronous.py",
        "self._closing.acquire(blocking=not is_in_run())",
        "self._closing.acquire()",
        "tests/facade/test_asynchronous.py -k may_close_what",
    ),
    Bug(
        "a call blocks the event loop",
        "facade/asynchronous.py",
        "        context = copy_context()\n\n        def run() -> T:\n            return context.run(",
        "        return action(self._open())\n        context = copy_context()\n\n        def run() -> T:\n"
        "            return context.run(",
        f"{ASYNCHRONOUS} -k does_not_answer",
    ),
    Bug(
        "those who listen to events hold up calls",
        "facade/asynchronous.py",
        "        return AsyncResults(self._call_alone, self._discard, reader)\n",
        "        return AsyncResults(self._call, self._discard, reader)\n",
        f"{ASYNCHRONOUS} -k hold_nothing_up",
    ),
    Bug(
        "an occurrence that is moved runs at its old time too",
        "importers/events.py",
        "(self._excluded | self._changes.keys()) - moved",
        "self._excluded - moved",
        CALENDARS,
    ),
    Bug(
        "an occurrence that is moved to a cancelled one does not run",
        "importers/events.py",
        "(self._excluded | self._changes.keys()) - moved",
        "self._excluded | self._changes.keys()",
        CALENDARS,
    ),
    Bug(
        "a first occurrence that the rule does not have is left out",
        "importers/events.py",
        "            self._added.add(start)\n",
        "            pass\n",
        CALENDARS,
    ),
    Bug(
        "a holiday is a day in UTC",
        "schedule/parser.py",
        "self.list_due(resolve(day * 86400, zone) - 1, resolve((day + 1) * 86400, zone) - 1)",
        "self.list_due(day * 86400 - 1, (day + 1) * 86400 - 1)",
        "tests/schedule/test_schedule.py -k excluded",
    ),
    Bug(
        "a test's clock goes on between two readings",
        "control/setter.py",
        "        if (now := self.store.stopped_at) is not None:\n            return now\n",
        "",
        f"{RUN_DUE} -k counts_from_where",
    ),
    Bug(
        "a failure in a test shows the password of the server",
        "testing/fixture.py",
        "    url: str = field(repr=False)\n",
        "    url: str\n",
        f"{PLUGIN} -k shows_the_password",
    ),
    Bug(
        "a job that waits in a queue is not overdue",
        "store/overview.py",
        "is_due = waiting is not None or (",
        "is_due = (",
        f"{OVERVIEW} -k where_it_is",
    ),
    Bug(
        "looking starts a server",
        "cli/bike.py",
        'return server if server and not server.status()["running"] else None',
        "return None",
        f"{LISTING} -k no_server",
    ),
    Bug(
        "what is stored controls the terminal",
        "cli/tables.py",
        'Text(escape(text.encode(errors="surrogateescape")).replace("\\t", " "), style)',
        "Text(text, style)",
        f"{LISTING} -k control",
    ),
    Bug(
        "an occurrence during the last run is not told as skipped",
        "queries/why/past.py",
        "if run.started < due < run.started + run.took",
        "if run.started < due < run.started",
        f"{WHY} -k skipped_as",
    ),
    Bug(
        "the last occurrence of many is not found",
        "queries/why/past.py",
        "    while end - last > CLOSE:",
        "    while False:",
        f"{WHY} -k last_occurrence",
    ),
    Bug(
        "a URL is quoted with its secret",
        "config/ping_urls.py",
        'raise BadConfig(f"bad ping-url {mask(value)!r}: {_RULE}")',
        'raise BadConfig(f"bad ping-url {value!r}: {_RULE}")',
        f"{PINGS} -k quoted",
    ),
    Bug(
        "it is said once that Redis is away",
        "loop/loop.py",
        "if not self._out or time.monotonic() - self._told_at >= REMINDER:",
        "if not self._out:",
        "tests/loop/test_loop.py",
    ),
    Bug(
        "tail keeps all for a slow reader",
        "cli/tail.py",
        "if self.heard.qsize() < MOST:",
        "if True:",
        f"{TAIL} -k too_slow",
    ),
    Bug(
        "a process that was lost long ago counts",
        "queries/health.py",
        " and now - each.seen < RECENT]",
        "]",
        f"{HEALTH} -k processes_are_lost",
    ),
    Bug(
        "a run whose worker dies is never told",
        "store/lua/end.lua",
        "if tells(tag) then",
        "if false then",
        f"{NOTIFY} -k 'lost or later'",
    ),
    Bug(
        "others tell what its worker is about to tell",
        "store/lua/end.lua",
        "given.whole and 0 or TELLING",
        "0",
        f"{NOTIFY} -k get_to",
    ),
    Bug(
        "an idle worker does not hear of lost runs",
        "store/lua/_take_answers.lua",
        "tells(given.tag) and call('EXISTS', untold) == 1",
        "false",
        f"{NOTIFY} -k 'works_tells and 1'",
    ),
    Bug(
        "the thread that has ended a run waits for ended()",
        "worker/notify.py",
        "        if self._thread is None:\n            self._deliver",
        "        if True:\n            self._deliver",
        f"{NOTIFY} -k takes_its_time",
    ),
    Bug(
        "who may not publish cannot set jobs",
        "store/lua/_write.lua",
        "(each[1] == 'SPUBLISH' and redis.pcall or call)",
        "call",
        f"{EVENTS} -k may_not_publish",
    ),
    Bug(
        "a run cannot end if that cannot be published",
        "store/lua/end.lua",
        "redis.pcall('SPUBLISH', journal, entry)",
        "call('SPUBLISH', journal, entry)",
        f"{EVENTS} -k publish",
    ),
    Bug(
        "two archive at the same time",
        "store/lua/archive.lua",
        "given.done or not is_own then",
        "given.done then",
        f"{JOURNAL} -k another",
    ),
    Bug(
        "runs that the server has lost are archived",
        "store/lua/archive.lua",
        "if not newest or redis.sha1hex(newest) ~= given.newest then return {'stale'} end\n",
        "",
        f"{JOURNAL} -k has_lost",
    ),
    Bug(
        "nobody archives for a while after that was done",
        "store/lua/archive.lua",
        "change('HDEL', counts, {'archiver'})\n",
        "",
        f"{JOURNAL} -k many_are_archived",
    ),
    Bug(
        "runs of a job that was unset come back",
        "store/lua/_forget.lua",
        "    change('RPUSH', journal, {'F' .. job})  -- its runs there are not to be archived\n",
        "",
        f"{JOURNAL} -k unset_job",
    ),
    Bug(
        "a second signal counts at once",
        "process/signals.py",
        "now - (self._first_time or now) >= AGAIN",
        "now >= (self._first_time or now)",
        f"{SIGNALS} -k within_a_second",
    ),
    Bug(
        "a worker that is told to end at once tells how its aborted runs ended",
        "loop/loop.py",
        "        self._aborting = True\n",
        "",
        f"{SIGNALS} -k nobody_hears",
    ),
    Bug(
        "what a job forks keeps the handlers of its worker",
        "process/signals.py",
        "_active.pop().restore()",
        "_active.pop()",
        f"{FORKS} -k handlers",
    ),
    Bug(
        "what a job forks may come back from work()",
        "worker/runner.py",
        "            leave_fork(run.jobid, None)",
        "            pass",
        f"{FORKS} -k second_worker",
    ),
    Bug(
        "a coroutine that is left by sys.exit() ends the event loop",
        "worker/coroutines.py",
        "        except BaseException as error:\n            # Whatever would",
        "        except Exception as error:\n            # Whatever would",
        f"{MISBEHAVIOUR} -k ends_its_loop",
    ),
    Bug(
        "a print in a child of up is two writes",
        "process/streams.py",
        "write_through=stream.write_through and not by_lines",
        "write_through=by_lines",
        f"{SUPERVISOR} -k no_line_of",
    ),
    Bug(
        "a child of up that ends with status 0 is not started again",
        "process/supervisor.py",
        "            if HALTED in end.reports:",
        "            if HALTED in end.reports or end.status == 0:",
        f"{SUPERVISOR} -k started_again",
    ),
    Bug(
        "up waits for its reader",
        "process/outlet.py",
        "            if self._size + len(line) + LINE_COST > self._limit:",
        "            while self._size > self._limit and self._changed.wait(0.1) in (True, False):\n"
        "                pass\n"
        "            if False:",
        f"{OUTPUT} -k stalls",
    ),
    Bug(
        "a lost run is ended, and put into its queue by a second script",
        "dispatcher/dispatcher.py",
        "        decided, answers = ended, self._end_whole(store, ended)\n",
        "        from redbike.store.run import NextState\n\n"
        '        decided = [(run, NextState("die", why="lost")) for run, _ in ended]\n'
        "        answers = self._end_whole(store, decided)\n"
        "        for run in runs:\n"
        "            store.jobs.run([run.jobid])\n",
        f"{CRASHES} 'lost and runs'",
    ),
    Bug(
        "a due job is taken off the timeline, and put into its queue by a second script",
        "dispatcher/dispatcher.py",
        "            found.append((jobid, due, name))",
        "            zrem = self.store.client.zrem\n"
        "            if not (zrem(self.store.keys.timeline, jobid) and self.store.jobs.run([jobid])):\n"
        "                found.append((jobid, due, name))",
        f"{CRASHES} dispatch_due",
    ),
    Bug(
        "a job is unset before it is set",
        "control/setter.py",
        "        job = self.set_requests({jobid: request}, from_now=since == now)[jobid]",
        "        self.unset(jobid)\n        job = self.set_requests({jobid: request}, from_now=since == now)[jobid]",
        f"{CRASHES} 'set and anew'",
    ),
    Bug(
        "a flush begins with the names of the queues",
        "store/upkeep.py",
        "found: list[Any] = []",
        "found: list[Any] = keys.list_fixed()",
        f"{CRASHES} flush",
    ),
    Bug(
        "a retry gets another due time",
        "store/lua/dispatch.lua",
        "enqueue(job, tried, home)",
        "enqueue(job, stamp(due), home)",
        MOVES,
    ),
    Bug(
        "what failed is run for another due time when it is asked for",
        "store/lua/run.lua",
        "elseif failed_for then",
        "elseif false then",
        MOVES,
    ),
    Bug(
        "a run in between moves the place of the schedule",
        "store/lua/run.lua",
        "moment, kept.tries, kept.after = stamp(now), '0', due and goes_on or stamp(now)",
        "moment, kept = stamp(now), retry_state_of()",
        MOVES,
    ),
    Bug(
        "a one-off that has ended keeps its text",
        "store/lua/_end_place.lua",
        "if place == 'stop' or after then",
        "if place == 'stop' then",
        MOVES,
    ),
    Bug(
        "what has failed for good is revived by a file that is loaded again",
        "store/lua/_set_checks.lua",
        "local event = keeps_rest and not waits",
        "local event = false",
        MOVES,
    ),
    Bug(
        "a job that is set anew counts from when a dispatcher ran last",
        "control/setter.py",
        "        since, given = self.start.compute(after, now), after is not None\n        request",
        "        since, given = self.store.timeline.read_dispatched()[1] or now, after is not None\n        request",
        FACADE,
    ),
    Bug(
        "a slow client sets a job for an instant before",
        "store/lua/_set_checks.lua",
        "if given.from_now and",
        "if false and",
        f"{MOVES} -k passed_on_the_way",
    ),
    Bug(
        "an instant that is to come is believed",
        "store/timeline.py",
        "return instant > now + CLOCKS_DIFFER",
        "return False",
        DISPATCHER,
    ),
    Bug(
        "all tags are the same",
        "store/namespace.py",
        "os.urandom(OWNER * 6 // 8)",
        "bytes(OWNER * 6 // 8)",
        MOVES,
    ),
    Bug(
        "requests are remembered for ever",
        "store/lua/_notes.lua",
        "change('ZREMRANGEBYRANK', requests, {0, -REMEMBERED - 1})",
        "",
        MOVES,
    ),
    Bug(
        "after an outage the dispatcher waits for heartbeats in a pass that does not end",
        "dispatcher/dispatcher.py",
        "is_more = recovered and len(",
        "is_more = len(",
        DISPATCHER,
    ),
    Bug(
        "the fourth loss is the last",
        "loop/policies.py",
        "losses >= settings.max_losses",
        "losses > settings.max_losses",
        OUTCOME,
    ),
    Bug(
        "runs that are lost together count as lost",
        "dispatcher/dispatcher.py",
        "suspects = [len(runs) > 1 and",
        "suspects = [len(runs) > 99 and",
        BATCH,
    ),
    Bug(
        "runs of one worker on two pages are told apart",
        "store/lua/survey.lua",
        "local jobs = jobs_of(call('HGET', batches, tag))",
        "local jobs = {unpack(jobs_of(call('HGET', batches, tag)), 1, given.lost - many)}",
        DISPATCHER,
    ),
    Bug(
        "an overrun is not noticed by the heartbeat",
        "worker/heartbeat.py",
        'if word == "overrun":',
        'if word == "never":',
        WORKER,
    ),
    Bug(
        "the instant in Redis goes back",
        "store/lua/advance.lua",
        "'GT', ",
        "",
        DISPATCHER,
    ),
    Bug(
        "what a dispatcher is at counts as missed",
        "dispatcher/timekeeping.py",
        "now - since >= GAP",
        "now - since >= 0",
        DISPATCHER,
    ),
    Bug(
        "a clock that has gone back is not followed",
        "dispatcher/dispatcher.py",
        "min(max(self._offset, survey.now - self._surveyed_at), survey.now - asked)",
        "max(self._offset, survey.now - self._surveyed_at)",
        DISPATCHER,
    ),
    Bug(
        "the names of queues are read once a round",
        "loop/queues.py",
        "and now - self._read_at < REREAD",
        "",
        ROTATION,
    ),
    Bug(
        "turns begin at the first queue each time",
        "store/lua/_take_turns.lua",
        "      jobs[looked], home_of[looked] = home.jobs[home.left + 1], home\n",
        "      jobs[looked], home_of[looked], position = home.jobs[home.left + 1], home, 0\n",
        BATCH,
    ),
    Bug(
        "what is given back goes to the end of its queue",
        "store/lua/release.lua",
        "change('RPUSH',",
        "change('LPUSH',",
        BATCH,
    ),
    Bug(
        "a queue may have the name of a key",
        "store/names.py",
        "name in FIXED or name.startswith(FAMILIES)",
        "name.startswith(FAMILIES)",
        "tests/store/test_keys.py",
    ),
    Bug(
        "a server that has forgotten the scripts is not told them",
        "store/scripts.py",
        "        if unknown:\n",
        "        if False:\n",
        f"{CRASHES} scripts",
    ),
    Bug(
        "redis-py repeats requests by itself",
        "connection/client.py",
        "Retry(NoBackoff(), 0)",
        "Retry(NoBackoff(), 3)",
        "tests/connection/test_client.py",
    ),
    Bug(
        "an outage is taken for a bad schedule",
        "dispatcher/timekeeping.py",
        "find_schedule(jobid, text, options)",
        'find_schedule(jobid, store.questions.read_schedule(jobid) or "STOP", options)',
        f"{CRASHES} catchup",
    ),
    Bug(
        "after an outage live workers count as dead",
        "dispatcher/dispatcher.py",
        "        if self.loop.is_settling(SETTLING):\n",
        "        if False:\n",
        DISPATCHER,
    ),
    Bug(
        "a request is not sent again when its slot has moved",
        "store/scripts.py",
        "while any(isinstance(reply, MOVING) for reply in replies)",
        "while any(False for reply in replies)",
        "tests/connection/test_cluster.py -k moves_under_load",
    ),
    Bug(
        "jobs inherit the socket of the service manager",
        "process/watchdog.py",
        "environment.pop(name",
        "environment.get(name",
        "tests/process/test_watchdog.py -k up_is_ready",
    ),
    Bug(
        "a rule is not anchored",
        "schedule/rrule/recurrence.py",
        "instant = min(floor(anchor), LAST - 1)",
        "instant = 0",
        f"{RULE} -k without_dtstart",
    ),
    Bug(
        "a fixed time runs twice in a repeated hour",
        "schedule/cron.py",
        "local if local > reached else reached",
        "local",
        "tests/schedule/test_cron.py -k brute_force",
    ),
    Bug(
        "the second of two equal local times counts",
        "schedule/zones.py",
        "while wall - offset >= end:",
        "while wall - offset >= begin:",
        "tests/schedule/test_zones.py",
    ),
    Bug(
        "a command does not hold the lock of its job",
        "commands/start.py",
        "command.cwd, lock.descriptors, stdin,",
        "command.cwd, [], stdin,",
        f"{PROCESSES} -k next_run",
    ),
    Bug(
        "a command in time leaves its lock to what it left behind",
        "commands/job_lock.py",
        "if not self._is_kept:",
        "if self._is_kept:",
        f"{PROCESSES} -k 'in_time or lock'",
    ),
    Bug(
        "the children of a command are left alone",
        "commands/process_group.py",
        "os.killpg(self.pgid, number)",
        "os.kill(self.pgid, number)",
        f"{PROCESSES} -k 'abort or interpreter'",
    ),
    Bug(
        "the loss of a lease is not found",
        "store/inspection/fsck.py",
        "if state.lease is None:",
        "if False:",
        TAG,
    ),
    Bug(
        "what a schedule has missed that is set during a run is lost",
        "store/lua/_set_place.lua",
        "elseif due and due <= now and not (at_once or same or job.due == 'now') then",
        "elseif false then",
        f"{FACADE} -k set_during_a_run",
    ),
    Bug(
        "what was missed and gives way to an explicit run counts for nothing",
        "store/lua/run.lua",
        "  if leaves(run, ANEW) then count(WITHDRAWN, job, 1) end\n",
        "",
        PAUSES,
    ),
    Bug(
        "what is owed takes the next occurrence with it",
        "loop/changes.py",
        "after = next_state.due - JUST_BEFORE",
        "after = next_state.due",
        OUTCOME,
    ),
    Bug(
        "what came due while a queue was paused counts as missed",
        "loop/occurrences.py",
        "    if run.queue_pause is None:\n        return 0\n",
        "    return 0\n",
        QUEUE_LIMITS,
    ),
    Bug(
        "what waited when the job was paused counts as missed",
        "loop/resuming.py",
        "if retry_state.due is not None or due <= pause.since:",
        "if retry_state.due is not None:",
        RESUMING,
    ),
    Bug(
        "the occurrence that is queued counts as skipped",
        "loop/occurrences.py",
        "overlapped = next_state.overlapped - sum(passed.values()) - 1",
        "overlapped = next_state.overlapped - sum(passed.values())",
        OUTCOME,
    ),
    Bug(
        "a job that runs again and again is stopped when it expires",
        "loop/occurrences.py",
        "run.was_asked_for or schedule.allows_pause:",
        "run.was_asked_for:",
        EXPIRING,
    ),
    Bug(
        "a further try of an occurrence expires",
        "loop/occurrences.py",
        "if not settings.expires or run.has_begun or",
        "if not settings.expires or",
        EXPIRING,
    ),
    Bug(
        "what has expired keeps its place in its queue",
        "store/lua/expire.lua",
        "leave_queue(queue[1], job)",
        "change('HDEL', queued, {job})",
        EXPIRING,
    ),
    Bug(
        "a timer that comes too early skips an occurrence",
        "dispatcher/expiring.py",
        "if job.now < expiry - JUST_BEFORE:",
        "if job.now < job.at:",
        EXPIRING,
    ),
    Bug(
        "an import replaces files that are there",
        "cli/importing.py",
        "if there and not may_replace:",
        "if len(there) == len(files) and not may_replace:",
        f"{IMPORT_CRONTAB} -k replaces",
    ),
    Bug(
        "the page does to another set of jobs what was confirmed for one",
        "web/pages/act.py",
        "order.digest != found.digest",
        "False",
        f"{ACT_PAGE} -k has_changed",
    ),
    Bug(
        "a form that is sent twice acts twice",
        "web/memory.py",
        "            if key in self._used:\n",
        "            if False:\n",
        f"{PAGE_SAFETY} -k bounded",
    ),
    Bug(
        "the form of a job shows a secret URL",
        "web/drafts.py",
        'for name, text in kept.options.items() if OPTIONS[name].kind != "url"}',
        "for name, text in kept.options.items()}",
        f"{SET_PAGE} -k nothing_else",
    ),
    Bug(
        "bash gets ids that it would run",
        "cli/shells.py",
        '            printf -v word %q "$word"\n',
        "",
        f"{COMPLETION} -k 'no_id_is_ever_run and bash'",
    ),
    Bug(
        "a job between two pages of few is lost",
        "store/cursors.py",
        "page = ordered[first : first + ROWS]",
        "page = ordered[first : first + ROWS + 1][-ROWS:]",
        f"{PAGING} -k order_of_their_ids",
    ),
    Bug(
        "each viewer has the agenda counted",
        "web/background.py",
        "if task.progress is None and not task.is_fresh and",
        "if task.progress is None and",
        f"{FORECAST_PAGE} -k once_for_all",
    ),
    Bug(
        "an incident window reads the runs of all jobs, however long that takes",
        "queries/incident.py",
        "        if time.monotonic() > deadline and incident.looked_at >= len(named):\n            break\n",
        "",
        f"{INCIDENT} -k without_time",
    ),
    Bug(
        "a server that is suspended is waited for without an end",
        "connection/embedded.py",
        "elif time.monotonic() - answered >= SILENCE:",
        "elif False:",
        "tests/connection/embedded/test_servers.py -k for_long",
    ),
    Bug(
        "alert: a job that runs late is to begin still",
        "loop/alerts/late.py",
        'if "start-within" in options and not occurrence.has_begun:',
        'if "start-within" in options:',
        ALERT_LATE,
    ),
    Bug(
        "alert: a time of day is that of the day on which a job was due",
        "loop/alerts/late.py",
        "if instant > after:",
        "if instant > 0:",
        ALERT_LATE,
    ),
    Bug(
        "alert: each of two dispatchers tells it",
        "store/lua/alert.lua",
        "before == (each.was or '{}') and before ~= (each.record or '{}')",
        "before ~= ''",
        ALERTING,
    ),
    Bug(
        "alert: half of a claim is made",
        "store/lua/alert.lua",
        "if stale and given.together then words[i] = 'stale' end",
        "",
        ALERTING,
    ),
    Bug(
        "alert: a job is well again while it is asked for",
        "loop/alerts/conditions.py",
        "(job.has_failed or job.last_outcome in FAILED)",
        "job.has_failed",
        ALERTING,
    ),
    Bug(
        "alert: the same is repeated at once",
        "store/alerts.py",
        "return alert not in self.active and alert not in self.told",
        "return alert not in self.active",
        "tests/loop/alerts/test_deciding.py",
    ),
    Bug(
        "alert: a message that was not sent is forgotten",
        "loop/alerts/alerting.py",
        "None if sent.is_sent else self._put_off(mine, known.now, sent.how)",
        "None",
        ALERTING,
    ),
    Bug(
        "alert: what was missed before is told",
        "loop/alerts/deciding.py",
        "if is_first or more <= 0:",
        "if more <= 0:",
        ALERTING,
    ),
]
