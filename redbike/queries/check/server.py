"""Check the server: its version and settings, what it lets the user do, its clock, and the timefile beside it."""

import os
import time
from collections.abc import Iterator

from redbike.connection.check import UNCHECKED, check_server
from redbike.connection.refusals import translate_errors
from redbike.loop.timefile import Timefile
from redbike.queries.check.findings import Finding, note
from redbike.store.rights import PUBLISHING, ROLES, describe_missing
from redbike.store.store import Store
from redbike.store.timeline import CLOCKS_DIFFER

ALMOST_FULL = 0.9  # of its maxmemory
WRITES = {
    "aof_last_write_status": "write its append-only file",
    "aof_last_bgrewrite_status": "rewrite its append-only file",
    "rdb_last_bgsave_status": "save a snapshot",
}


class ServerCheck:
    """Checks the server that has `store`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def run(self, timefile: str | None) -> Iterator[Finding]:
        """Yield what was found. Raise `ServerError` if the server cannot be used at all."""
        yield from self._check_settings()
        yield from self._check_rights()
        before = time.time()
        now = self._store.timeline.read_clock()
        after = time.time()
        ahead = (before + after) / 2 - now
        if abs(ahead) > CLOCKS_DIFFER + (after - before) / 2:
            side = "ahead of" if ahead > 0 else "behind"
            yield note(f"the clock of this host is {abs(ahead):.1f} s {side} that of the server, which counts")
        if timefile is not None:
            yield from _check_timefile(timefile, now)

    def _check_settings(self) -> Iterator[Finding]:
        warnings = check_server(self._store.client)
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
        """Yield what the user may not do. That is a problem if it suffices for no role: each may have its own user."""
        user = self._store.client.connection_pool.connection_kwargs.get("username") or "default"
        missing = {role: self._store.questions.list_missing_rights(needed.split()) for role, needed in ROLES.items()}
        suffices = not all(missing.values())
        for role, commands in missing.items():
            if commands:
                yield Finding(describe_missing(user, role, commands), is_problem=not suffices)
        if self._store.questions.list_missing_rights([PUBLISHING]):
            yield note(f"Redis does not let the user {user!r} publish: redbike tail hears nothing of what it does")


def _check_timefile(path: str, now: float) -> Iterator[Finding]:
    if problem := Timefile(path).find_problem(now):
        yield Finding(problem)
    elif not os.access(os.path.dirname(os.path.realpath(path)), os.W_OK):
        yield note(f"the timefile {path!r}: this user may not write into its folder, as a dispatcher must")
