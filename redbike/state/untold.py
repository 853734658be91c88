"""Ended runs that the method ``ended`` of a worker class is to be told of: kept until it was called."""

import math
import re
from collections.abc import Iterator, Sequence

from redbike.serving.refusals import translate_errors
from redbike.state.entries import EntryRun, read_entry
from redbike.state.namespace import PAGE, Namespace
from redbike.state.records import MOMENT, decode
from redbike.state.runs import Answer, EndedRun
from redbike.state.timeline import Timeline

TELLING = 30.0  # seconds for which others leave what somebody tells just now


class Untold:
    """What is kept of ended runs until they were told."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._timeline = Timeline(namespace)

    def claim_all(self) -> Iterator[tuple[str, list[EntryRun]]]:
        """Yield what nobody has told in time: its field, and the runs. The caller is to tell it, and `forget` it."""
        kept = list(self._scan())
        now = self._timeline.read_clock() if self._namespace.now is None else self._namespace.now
        for field in [field for field, value in kept if _read_time(value) <= now]:
            reply = self._namespace.run("claim", field=field, seconds=TELLING)
            if reply[0] == "ok":
                runs = read_entry(bytes(reply[1])) or []
                yield field, [run for run in runs if isinstance(run, EntryRun)]

    def forget(self, fields: Sequence[str]) -> None:
        """Remove what was told."""
        client, key = self._namespace.client, self._namespace.keys.untold
        if fields:
            with translate_errors():
                self._namespace.fetch(lambda key: client.hdel(key, *fields), key, "hash")

    def list_bad(self) -> Iterator[tuple[str, str]]:
        """Yield the fields that are damaged, and in words what is wrong with each."""
        for field, value in self._scan():
            if _read_time(value) == math.inf or read_entry(value.partition(b"\n")[2]) is None:
                yield field, f"holds {decode(value[:80])!r}, which is no run that is to be told"

    def _scan(self) -> Iterator[tuple[str, bytes]]:
        client, key = self._namespace.client, self._namespace.keys.untold
        with translate_errors():
            if self._namespace.fetch(client.hlen, key, "hash"):
                for field, value in client.hscan_iter(key, count=PAGE):
                    yield decode(field), bytes(value)


def _read_time(value: bytes) -> float:
    """Return from when on anybody may tell it; never for a damaged one."""
    time = decode(value.partition(b"\n")[0])
    return float(time) if re.fullmatch(MOMENT, time) else math.inf


def find_field(ended: Sequence[EndedRun], answers: Sequence[Answer]) -> str | None:
    """Return the field of runs that were ended by one request, from what it replied; None if none has ended."""
    done = (f"{run.tag} {run.jobid}" for (run, _), answer in zip(ended, answers, strict=True) if answer.word == "ok")
    return next(done, None)
