"""Check all that jobs need, except stored data.

1. The config: the file, the environment and the command line, and which of them counts.
2. The server: its version and settings, the rights of the user, its clock; and the timefile.
3. The worker class: can it be made, does it name its queues, are its commands there?
"""

import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any
from urllib.parse import unquote

from redbike.config.alert_targets import read_target
from redbike.config.file import DEFAULT_FILE, Examined
from redbike.config.settings import SHARED, Settings, describe_shared, get_default
from redbike.connection.check import REPLICA, UNCHECKED, check_server
from redbike.connection.options import list_bad_arguments
from redbike.connection.refusals import translate_errors
from redbike.connection.urls import parse_login, redact, split_url
from redbike.errors import BadConfig, RedbikeError, ServerError, Unreachable
from redbike.loop.naming import knows_commands, knows_functions
from redbike.loop.queues import Queues, read_limits
from redbike.loop.timefile import Timefile
from redbike.loop.worker_class import Checkable, RoundRobin, check_worker, read_concurrency
from redbike.queries.check.findings import Finding, Needed, note
from redbike.queries.health import describe_refusal
from redbike.schedule.zones import find_release
from redbike.store.lease import CLOCKS_DIFFER
from redbike.store.processes import ZONES, Process
from redbike.store.rights import PUBLISHING, ROLES, describe_missing
from redbike.store.store import Store
from redbike.text.printable import name_some

ALMOST_FULL = 0.9  # of its maxmemory
WRITES = {
    "aof_last_write_status": "write its append-only file",
    "aof_last_bgrewrite_status": "rewrite its append-only file",
    "rdb_last_bgsave_status": "save a snapshot",
}


def check_settings(examined: Examined, path: str | None) -> Iterator[Finding]:
    """Yield the findings on a config, whose file is at `path`; None is the default file."""
    yield from map(Finding, (*examined.problems, *examined.config.warnings))
    for source, server in examined.servers:
        if isinstance(server, dict):
            yield from (Finding(f"{source}: {problem}") for problem in list_bad_arguments(server))
    yield from _check_alert(examined.config.settings.alert)
    yield from _check_overridden(examined)
    yield from _check_mode(examined, DEFAULT_FILE if path is None else path)


def _check_alert(alert: str | None) -> Iterator[Finding]:
    argv = read_target(alert).argv if alert else ()
    if argv and shutil.which(argv[0]) is None:
        yield Finding(f"the program {argv[0]!r} of alert is missing on this host: nobody is told what is wrong")


def check_shared(settings: Settings, processes: Sequence[Process]) -> Iterator[Finding]:
    """Yield which processes have other values than `settings` for settings that all processes should share."""
    own, found = describe_shared(settings), dict[str, list[str]]()
    for process in processes:
        if process.state == "lost" or process.settings is None:
            continue
        others = dict(process.settings)
        for key in SHARED:
            name, default = key.replace("_", "-"), get_default(key)
            if own.get(name) != others.get(name):
                differs = f"{name}: {others.get(name, default)}, this config has {own.get(name, default)}"
                found.setdefault(differs, []).append(f"{process.kind} {process.id}")
    for differs, ids in found.items():
        yield Finding(
            f"the {name_some(ids, 1)} has {differs}: so what happens to a job depends on which process has it"
        )


def check_zones(processes: Sequence[Process]) -> Iterator[Finding]:
    """Yield which processes have another release of the time zone database than this host."""
    own, found = find_release(), dict[str, list[str]]()
    for process in processes:
        other = dict(process.settings or ()).get(ZONES, own)
        if process.state != "lost" and other != own:
            found.setdefault(other, []).append(f"{process.kind} {process.id}")
    for other, ids in found.items():
        yield note(
            f"the {name_some(ids, 1)} has the time zones of tzdata {other}, this host those of {own}: "
            "in a zone that has changed, the due time of a job depends on which process schedules it"
        )


def check_running(processes: Sequence[Process]) -> Iterator[Finding]:
    """Yield a remark if no dispatcher or no worker is running: no job begins before one is."""
    alive = {process.kind for process in processes if process.state == "alive"}
    if missing := [kind for kind in ("dispatcher", "worker") if kind not in alive]:
        yield note(f"no {' and no '.join(missing)} is running: no job begins before one is")


def _check_overridden(examined: Examined) -> Iterator[Finding]:
    """Yield which server is used, if more than one is named. This surprises users most often."""
    if len(examined.servers) > 1:
        (source, server), *others = examined.servers
        shown = redact(server) if isinstance(server, str) else "one"
        yield note(f"the server is {shown}, by {source}, which overrides {' and '.join(name for name, _ in others)}")


def _check_mode(examined: Examined, path: str) -> Iterator[Finding]:
    """Yield a problem if other users can change the config file, or read a password in it."""
    try:
        found = os.stat(path)
    except OSError:
        return  # there is no file, or another finding says that it cannot be read
    if not stat.S_ISREG(found.st_mode):
        return
    mode = f"its mode is {stat.S_IMODE(found.st_mode):04o}"
    if found.st_mode & stat.S_IWOTH:
        yield Finding(f"every user can change the config file {path!r}, and so what workers run: {mode}")
    if found.st_mode & stat.S_IROTH and _holds_password(examined):
        yield Finding(f"every user can read the config file {path!r}, which holds a password: {mode}, 0600 is better")


def _holds_password(examined: Examined) -> bool:
    """Tell whether the config file has a password."""
    server = next((server for source, server in examined.servers if source[:1] == "["), None)
    if isinstance(server, dict):
        return any("password" in name for name in server)
    if server is None:
        return False
    parts = split_url(server)
    try:
        return bool(parse_login(parts)["password"]) or "password=" in unquote(parts.query)
    except (BadConfig, ValueError):
        return True  # a malformed URL may have one


class ServerCheck:
    """Checks the server that has `store`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.refuses_all = False  # whether the server refuses all changes: then it does not show which processes run

    def run(self, timefile: str | None) -> Iterator[Finding]:
        """Yield the findings. Raise `ServerError` if the server cannot be used at all."""
        warnings = check_server(self._store.client)
        yield from self._check_settings(warnings)
        yield from self._check_rights()
        if not any(text.startswith(REPLICA) for text in warnings):
            yield from self._check_refusal()
        before = time.time()
        now = self._store.timeline.read_clock()
        after = time.time()
        ahead = (before + after) / 2 - now
        if abs(ahead) > CLOCKS_DIFFER + (after - before) / 2:
            side = "ahead of" if ahead > 0 else "behind"
            yield note(f"the clock of this host is {abs(ahead):.1f} s {side} that of the server, which Redbike uses")
        if timefile is not None:
            yield from _check_timefile(timefile, now)

    def _check_settings(self, warnings: Sequence[str]) -> Iterator[Finding]:
        yield from (Finding(text, is_problem=not text.startswith(UNCHECKED)) for text in warnings)
        if any(text.startswith(UNCHECKED) for text in warnings):
            return
        with translate_errors(), self._store.client.pipeline(transaction=False) as pipeline:
            pipeline.info("persistence")
            pipeline.info("memory")
            persistence, memory = pipeline.execute()
        yield from (
            Finding(f"the server cannot {what}") for name, what in WRITES.items() if persistence.get(name) == "err"
        )
        most, used = memory.get("maxmemory", 0), memory.get("used_memory", 0)
        if most and used > ALMOST_FULL * most:
            yield Finding(
                f"the server uses {used:,} bytes of its maxmemory {most:,}; when it is full, it takes no jobs"
            )
        if not persistence.get("aof_enabled", 1) and not warnings:
            yield note("the server has no append-only file: a restart loses what its last snapshot does not have")

    def _check_rights(self) -> Iterator[Finding]:
        """Yield missing rights of the user: a problem if no role has all it needs, as each may have its own user."""
        user = self._store.client.connection_pool.connection_kwargs.get("username") or "default"
        missing = {role: self._store.questions.list_missing_rights(needed.split()) for role, needed in ROLES.items()}
        suffices = not all(missing.values())
        for role, commands in missing.items():
            if commands:
                yield Finding(describe_missing(user, role, commands), is_problem=not suffices)
        if self._store.questions.list_missing_rights([PUBLISHING]):
            yield note(f"Redis does not let the user {user!r} publish: redbike tail shows nothing of what it does")

    def _check_refusal(self) -> Iterator[Finding]:
        """Yield what the server refuses. Other checks find problems of keys and shards."""
        try:
            refusal = self._store.questions.find_refusal()
        except Unreachable:
            raise
        except (BadConfig, ServerError):
            return
        if refusal:
            self.refuses_all = not refusal.is_full
            yield Finding(describe_refusal(refusal))


def _check_timefile(path: str, now: float) -> Iterator[Finding]:
    if problem := Timefile(path).find_problem(now):
        yield Finding(problem)
    elif not os.access(os.path.dirname(os.path.realpath(path)), os.W_OK):
        yield note(f"the timefile {path!r}: this user may not write into its folder, as a dispatcher must")


class WorkerCheck:
    """Checks an instance of a worker class."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker
        self.queues: list[str] | None = None  # that it names; None if they are not known
        self.needed: Needed | None = None  # what it must have for each job; None for nothing

    def run(self, settings: Settings) -> Iterator[Finding]:
        """Yield the findings."""
        works = getattr(type(self._worker), "work", None) is not RoundRobin.work
        if not works:
            name = type(self._worker).__name__
            yield Finding(f"the worker class {name} has no work() of its own, so all of its jobs would fail")
        readers = (read_concurrency, read_limits)
        checks: list[Callable[[], Any]] = [partial(read, self._worker) for read in readers]
        queues = Queues(self._worker, settings.default_timeout)
        own = self._worker if isinstance(self._worker, Checkable) else Checkable()
        bad = own.examine()
        yield from (Finding(str(problem)) for problem in bad)
        if not bad:
            # Bad commands would only fail here once more, as their timeouts are read.
            checks += [partial(check_worker, self._worker), queues.refresh]
            # The worker may be on another host, so it is only a note.
            yield from map(note, own.find_missing())
            self.needed = _find_needed(self._worker)
        for check in checks:
            try:
                check()
            except RedbikeError as error:
                yield Finding(f"the worker class: {error}")
        self.queues = queues.names() or None if works else None


def _find_needed(worker: Any) -> Needed | None:
    if knows_commands(worker):
        return Needed("command", worker.has_command)
    return Needed("function", worker.has_function) if knows_functions(worker) else None
