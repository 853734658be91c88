"""A log of every kind of transition, cut off at any byte: what the server makes of it when it starts again.

``python -m tests.cuts`` cuts it at every byte (some minutes), the test suite within the last two requests.
"""

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from redbike import Redbike
from redbike.connection.embedded import EmbeddedServer
from redbike.store.next_state import NextState
from tests.states import dump
from tests.verbs import Once, take_one

PREFIX = "r"  # short, since there is a start of the server for each byte
YEAR = 366 * 86400.0


class Cuts:
    """A server in `folder` whose log holds the `marks`: (size after it, all data then) for each request."""

    def __init__(self, folder: Path) -> None:
        self.server = EmbeddedServer(folder / "server")
        self.logs = self.server.folder / "appendonlydir"
        self.kept = folder / "kept"
        self.marks: list[tuple[int, dict[str, Any]]] = []
        self.checked: set[int] = set()
        self.server.start()
        self.bike = self._bike()

    def close(self) -> None:
        self.server.stop()

    def record(self) -> None:
        """Every kind of transition, once or more."""
        bike, store, runs = self.bike, self.bike.store, list[Any]()
        # Otherwise a server may answer first, and write two seconds later, while it waits for a slow disk.
        bike.redis.config_set("appendfsync", "always")

        def take(tag: str) -> Any:
            return take_one(store, [("work-A", 10_000.0)], tag)

        steps = [
            lambda: list(bike.set_many([("e:A", "EVERY:1h"), ("s:A", "STOP"), ("n:A", "NOW"), ("c:A", "CONTINUE")])),
            lambda: bike.set("a:A", f"AT:{store.timeline.read_dispatched()[0] + 1000:.0f}"),
            lambda: bike.set("x:A", "NOW"),
            lambda: bike.unset("x:A"),
            lambda: bike.run("s:A"),
            lambda: bike.set("t:A", "NOW"),
            lambda: bike.set("t:A", "EVERY:2h"),
            lambda: bike.dispatch_due(store.timeline.read_dispatched()[0] + 1500),
            lambda: runs.append(take("first")),
            lambda: bike.set("n:A", "EVERY:3h"),
            lambda: store.timeline.advance(store.timeline.read_dispatched()[0]),
            lambda: runs.append(take("second")),
            lambda: store.runs.end(runs[1], NextState("next", store.timeline.read_dispatched()[0] + 3600)),
            lambda: runs.append(take("third")),
            lambda: store.runs.end(runs[2], NextState("die", failure={"error": "it broke"})),
            lambda: runs.append(take("fourth")),
            lambda: store.runs.end(runs[3], NextState("stop")),
        ]
        for step in steps:
            step()
            self.marks.append((self._log().stat().st_size, dump(store)))
        self._kill()
        shutil.copytree(self.logs, self.kept)

    def check(self, cut: int) -> None:
        """Start the server with the first `cut` bytes of the log, and say what is not as it should be."""
        self._kill()
        shutil.rmtree(self.logs)
        shutil.copytree(self.kept, self.logs)
        os.truncate(self._log(), cut)
        self.server.start()
        self.bike = self._bike()
        number, (_, data) = [(n, mark) for n, mark in enumerate(self.marks) if mark[0] <= cut][-1]
        assert dump(self.bike.store) == data, f"cut at {cut}: not as it was after step {number}"
        # A job that is half moved would be found here.
        assert list(self.bike.fsck()) == []
        if number not in self.checked:
            self.checked.add(number)
            self._check_runs()

    def _check_runs(self) -> None:
        """Everything that its schedule keeps going is in circulation, once: it runs when it comes due."""
        bike = self.bike
        assert list(bike.repair()) == []
        stopped = {jobid for jobid, event, _ in bike.get_statuses() if event in ("STP", "DIE")}
        expected = sorted({jobid for jobid, _ in bike.get_schedules()} - stopped)
        # Twice, as one that is on the timeline behind a lost run goes there once more.
        for years in (1, 2):
            bike.dispatch_due(bike.store.timeline.read_dispatched()[0] + years * YEAR)
        while bike.work_one():
            pass
        assert sorted(bike.worker.worked) == expected
        assert list(bike.fsck()) == []

    def _bike(self) -> Redbike:
        # The timeout is longer than all of this takes.
        return Redbike(Once("A"), PREFIX, self.server.url, default_timeout=10_000.0)

    def _log(self) -> Path:
        return next(self.logs.glob("*.incr.aof"))

    def _kill(self) -> None:
        status = self.server.status()
        if status["running"]:
            os.kill(status["pid"], signal.SIGKILL)
            os.waitpid(status["pid"], 0)


def check_all(folder: Path, last: int | None = None, step: int = 1) -> int:
    """Cut at every byte (or `step`) and end of what all or the last requests have written; how many cuts were made."""
    cuts = Cuts(folder)
    try:
        cuts.record()
        sizes = [size for size, _ in cuts.marks]
        first = sizes[0] if last is None else sizes[-1 - last]
        ends = {size for size in sizes if size >= first}
        places = sorted({*range(first, sizes[-1], step), *ends, *(size - 1 for size in ends if size > first)})
        for cut in reversed(places):
            cuts.check(cut)
        return len(places)
    finally:
        cuts.close()


def main() -> int:
    """0, or an error at the first cut after which something is not as it should be."""
    with tempfile.TemporaryDirectory(prefix="redbike-cuts-") as folder:
        number = check_all(Path(folder))
    print(f"{number} cuts: after each the data was as after the last whole request, and every job was in its one place")
    return 0


if __name__ == "__main__":
    sys.exit(main())
