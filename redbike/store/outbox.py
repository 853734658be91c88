"""The outbox: ended runs, until the method ``ended`` of their worker class was called with them."""

import logging
import math
import re
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from redbike.connection.refusals import translate_errors
from redbike.store.entries import EntryRun, read_entry
from redbike.store.namespace import PAGE, Part
from redbike.store.next_state import Answer, EndedRun
from redbike.store.records import MOMENT, decode
from redbike.store.scripts import Reply

log = logging.getLogger("redbike.worker")

CLAIM_TIMEOUT = 30.0  # seconds for which an entry belongs to the process that has claimed it
RENEWED = CLAIM_TIMEOUT / 3  # seconds after which this process renews its claim
MOST_CLAIMS = 3  # claims of an entry after which ``ended`` is not called any more
KEPT = 86400.0  # seconds for which an entry is kept that no process claims

_HEAD = re.compile(rf"({MOMENT}) (\d{{1,9}})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Claim:
    """An entry: runs that were ended together. The process with this claim calls ``ended`` for them."""

    name: str  # the field of the entry in ``-untold``
    number: int = 0  # how often the entry was claimed; 0 for the worker that ran the runs, which needs no claim
    runs: tuple[EntryRun, ...] = ()  # the runs, if another worker ran them
    since: float = field(default_factory=time.monotonic)  # by the monotonic clock


class Outbox(Part):
    """Keeps ended runs until their worker class was notified."""

    def claim_all(self, queues: Collection[str]) -> Iterator[Claim]:
        """Claim and yield overdue entries with runs of these queues. The caller calls ``ended``, and then `forget`."""
        now = self._namespace.read_clock()
        for name, value in list(self._scan()):
            moment = _read_time(value)
            runs = tuple(run for run in read_entry(value.partition(b"\n")[2]) or () if isinstance(run, EntryRun))
            jobids = ", ".join(run.jobid for run in runs)
            if moment > now:
                continue
            if now - moment > KEPT:
                log.warning("%s: no worker that has ended() works its queue, so it is not called", jobids)
                self.forget([name])
            elif not runs or any(run.queue in queues for run in runs):
                reply = self._claim(name)
                if reply[0] == "ok":
                    yield Claim(name, int(reply[1]), runs)
                elif reply[0] == "dropped":
                    log.error(
                        "%s: ended() was begun %d times, and did not end: it is not called again", jobids, MOST_CLAIMS
                    )

    def renew(self, claim: Claim) -> Claim | None:
        """Renew a claim and return it; return None if another process has claimed or removed the entry."""
        reply = self._claim(claim.name, mine=claim.number)
        return replace(claim, since=time.monotonic()) if reply[0] == "ok" else None

    def _claim(self, name: str, **given: Any) -> Reply:
        return self._namespace.run("claim", field=name, seconds=CLAIM_TIMEOUT, most=MOST_CLAIMS, **given)

    def forget(self, fields: Sequence[str]) -> None:
        """Remove entries for whose runs ``ended`` was called."""
        if fields:
            self._namespace.ask("hdel", self._namespace.keys.untold, *fields)

    def list_bad(self) -> Iterator[tuple[str, str, str]]:
        """Yield for each damaged entry: the key, the field, and in words what is wrong."""
        for name, value in self._scan():
            if _read_time(value) == math.inf or read_entry(value.partition(b"\n")[2]) is None:
                yield (
                    self._namespace.keys.untold,
                    name,
                    f"holds {decode(value[:80])!r}, which is no run that is to be told",
                )

    def _scan(self) -> Iterator[tuple[str, bytes]]:
        client, key = self._namespace.client, self._namespace.keys.untold
        if self._namespace.ask("hlen", key):
            with translate_errors():
                for field, value in client.hscan_iter(key, count=PAGE):
                    yield decode(field), bytes(value)


def _read_time(value: bytes) -> float:
    """Return the instant from which any process may claim an entry; infinity for a damaged one."""
    head = _HEAD.fullmatch(decode(value.partition(b"\n")[0]))
    return float(head[1]) if head else math.inf


def find_field(ended: Sequence[EndedRun], answers: Sequence[Answer]) -> str | None:
    """Return the field of runs that one request ended, from the answers to it; None if no run has ended."""
    done = (f"{run.tag} {run.jobid}" for (run, _), answer in zip(ended, answers, strict=True) if answer.word == "ok")
    return next(done, None)
