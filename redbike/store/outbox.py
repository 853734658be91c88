"""The outbox: ended runs of which the method ``ended`` of a worker class is to be notified, until it was."""

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

CLAIM_TIMEOUT = 30.0  # seconds for which others leave what somebody has claimed
RENEWED = CLAIM_TIMEOUT / 3  # seconds after which the process that notifies renews its claim
MOST_CLAIMS = 3  # claims after which nobody notifies any more
KEPT = 86400.0  # seconds for which something is kept that nobody claims

_HEAD = re.compile(rf"({MOMENT}) (\d{{1,9}})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Claim:
    """Runs that were ended together. The process that holds this is to notify its worker class of them."""

    name: str  # its field in ``-untold``
    number: int = 0  # of claims; the worker that had the runs needs none
    runs: tuple[EntryRun, ...] = ()  # those of a worker that is gone
    since: float = field(default_factory=time.monotonic)  # by the monotonic clock


class Outbox(Part):
    """Keeps ended runs until their worker class was notified."""

    def claim_all(self, queues: Collection[str]) -> Iterator[Claim]:
        """Yield what nobody has notified in time, of runs of these queues. The caller does so, and calls `forget`."""
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
        """Claim it for longer; return None if another process has claimed or removed it."""
        reply = self._claim(claim.name, mine=claim.number)
        return replace(claim, since=time.monotonic()) if reply[0] == "ok" else None

    def _claim(self, name: str, **given: Any) -> Reply:
        return self._namespace.run("claim", field=name, seconds=CLAIM_TIMEOUT, most=MOST_CLAIMS, **given)

    def forget(self, fields: Sequence[str]) -> None:
        """Remove what the worker class was notified of."""
        if fields:
            self._namespace.ask("hdel", self._namespace.keys.untold, *fields)

    def list_bad(self) -> Iterator[tuple[str, str, str]]:
        """Yield what is damaged: the key, the field, and in words what is wrong with it."""
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
    """Return from when on anybody may claim it; never for a damaged one."""
    head = _HEAD.fullmatch(decode(value.partition(b"\n")[0]))
    return float(head[1]) if head else math.inf


def find_field(ended: Sequence[EndedRun], answers: Sequence[Answer]) -> str | None:
    """Return the field of runs that were ended by one request, from what it replied; None if none has ended."""
    done = (f"{run.tag} {run.jobid}" for (run, _), answer in zip(ended, answers, strict=True) if answer.word == "ok")
    return next(done, None)
