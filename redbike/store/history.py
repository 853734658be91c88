r"""Ended runs, as few bytes as possible: they are kept for every job, and written for every run.

A run has these fields, without any alignment, the lowest byte first:

=======  =====================================================================
bytes    field
=======  =====================================================================
1        size of the run in bytes
8        due time, a double
4        from then until it started: tenths of milliseconds, or from `LONG` on seconds and `LONG`
4        seconds that it took, a float
1        outcome: its number in `Outcome`, with a mark for what stands behind the run: `WITH_USAGE`, `WITH_RESULT`
1        number of this try, 255 for more
1        length of the name of the worker; or `NAMED` and the number of a name that stands before, from 0
\        the name of the worker, if it does not stand before; ``-`` if nobody knows it
\        what went wrong, in one line
=======  =====================================================================

The size does not count what stands behind the run. First what a command has used: seconds of CPU (4, a float), and the
peak of its memory (4, KiB, 0 if nobody knows it). Then a result of a run that is ok: its own size (2), and then JSON,
or `NOT_KEPT` and why it is not kept.

The value of a job in ``-history`` begins with the number of its runs. The runs follow, the newest first.
"""

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NotRequired, TypedDict, cast

from redbike.store.enums import Outcome
from redbike.store.usage import USAGE_SIZE, Usage
from redbike.text.parsing import load_json

MAX_SIZE = 255  # bytes of a run
MAX_WORKER = 60  # bytes of its name
MAX_ATTEMPT = 255
UNKNOWN = "-"  # the name of a worker that nobody knows
NAMED, MOST_NAMES = 128, 127
WITH_USAGE, WITH_RESULT = 64, 128  # marks of an outcome
NOT_KEPT = "!"  # no JSON begins like that
FEW = 3  # runs that make an average
LONG, TICKS = 2**31, 10_000  # a float would be a minute wrong for what was due long ago

BAD = (IndexError, ValueError, struct.error)  # what damaged runs raise

_NOTHING = object()  # no result
_HEAD = struct.Struct("<BdIfBBB")
OUTCOMES = list(Outcome)
_NUMBERS = {outcome: number for number, outcome in enumerate(Outcome)}
_TOOK, _TOOK_AT = struct.Struct("<f"), 13
_OUTCOME_AT, _RESULT_SIZE = 17, struct.Struct("<H")
NAME_LENGTH = _HEAD.size - 1  # where it stands


class RunDetails(TypedDict):
    """A run that has ended, see `PastRun`. Times are epoch seconds, durations seconds."""

    due: float
    started: float
    took: float
    outcome: Outcome
    attempt: int
    error: str
    worker: str
    result: NotRequired[Any]  #: what ``work`` returned, with ``keep-result``
    result_error: NotRequired[str]  #: why that is not kept
    cpu: NotRequired[float]  #: see `PastRun`
    memory: NotRequired[int]  #: see `PastRun`


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run that has ended. Times are epoch seconds, durations seconds."""

    jobid: str
    due: float
    started: float
    took: float
    outcome: Outcome
    attempt: int  #: the number of this try of the same occurrence, from 1
    error: str  #: what went wrong, in one line; "" if nothing did, or nobody knows
    worker: str  #: the id of its process, see `Process`; "" if nobody knows
    stored_result: str = field(default="", repr=False)  #: what follows the run, see above; "" for nothing
    cpu: float | None = None  #: seconds that a command and its children have used; None if nobody knows
    memory: int | None = None  #: bytes that it or a child had at most; None if nobody knows

    @property
    def has_result(self) -> bool:
        """Tell whether what ``work`` returned is kept, see ``keep-result``."""
        return load_json(self.stored_result, _NOTHING) is not _NOTHING

    @property
    def result(self) -> Any:
        """What ``work`` returned, a new copy each time; None if it is not kept: see `has_result`."""
        return load_json(self.stored_result)

    @property
    def result_error(self) -> str:
        """Why its result is not kept, in one line; "" if it is, or was not to be."""
        return self.stored_result[len(NOT_KEPT) :] if self.stored_result.startswith(NOT_KEPT) else ""

    @property
    def has_failed(self) -> bool:
        """Tell whether something went wrong, also if the same occurrence was tried again."""
        return self.outcome in (Outcome.FAILED, Outcome.OVERRUN, Outcome.LOST) or bool(self.error)

    def to_dict(self) -> RunDetails:
        """Return all but the job id, for JSON."""
        found = {
            "due": self.due,
            "started": self.started,
            "took": self.took,
            "outcome": self.outcome,
            "attempt": self.attempt,
            "error": self.error,
            "worker": self.worker,
        }
        used = {name: value for name in ("cpu", "memory") if (value := getattr(self, name)) is not None}
        return cast(RunDetails, found | self.show_result() | used)

    def show_result(self) -> dict[str, Any]:
        """Return its ``result``, or as ``result_error`` why that is not kept, for JSON; nothing if there is neither."""
        if self.has_result:
            return {"result": self.result}
        return {"result_error": self.result_error} if self.result_error else {}


def pack_run(
    due: float,
    waited: float,
    took: float,
    outcome: Outcome,
    attempt: int,
    error: str,
    result: str = "",
    usage: Usage | None = None,
) -> bytes:
    """Return a run without the name of its worker; the error is cut to the bytes that there are for it.

    `result` is that of a run that is ok, as `PastRun.stored_result`.
    """
    text = _cut(error, MAX_SIZE - MAX_WORKER - _HEAD.size) if error else b""
    size, number = _HEAD.size + len(text), _NUMBERS[outcome]
    if usage:
        text, number = text + usage.pack(), number | WITH_USAGE
    if result and outcome == Outcome.OK:
        encoded = result.encode(errors="replace")
        text, number = text + _RESULT_SIZE.pack(len(encoded)) + encoded, number | WITH_RESULT
    return _HEAD.pack(size, due, _pack_waited(waited), took, number, min(attempt, MAX_ATTEMPT), 0) + text


def _pack_waited(seconds: float) -> int:
    ticks = round(max(0.0, seconds) * TICKS)
    return ticks if ticks < LONG else LONG + min(int(seconds), LONG - 1)  # down: no run begins after it ends


def _read_waited(packed: int) -> float:
    return packed / TICKS if packed < LONG else packed - LONG


def pack_worker(name: str) -> bytes:
    """Return the name of a worker as it is kept, cut to the bytes that there are for it."""
    return _cut(name or UNKNOWN, MAX_WORKER)


def read_run(jobid: str, packed: bytes, worker: bytes) -> PastRun:
    """Return a run that `pack_run` has packed. Raise `ValueError`, `IndexError` or `struct.error` for another one."""
    _, due, waited, took, outcome, attempt, _ = _HEAD.unpack_from(packed)
    error = packed[_HEAD.size : packed[0]].decode(errors="replace")
    name, more = worker.decode(errors="replace"), packed[0]
    used = Usage.read(packed, more) if outcome & WITH_USAGE else None
    more += USAGE_SIZE if used else 0
    return PastRun(
        jobid=jobid,
        due=due,
        started=round(due + _read_waited(waited), 6),
        took=round(took, 6),
        outcome=OUTCOMES[_get_number(outcome)],
        attempt=attempt,
        error=error,
        worker="" if name == UNKNOWN else name,
        stored_result=packed[more + _RESULT_SIZE.size :].decode(errors="replace"),
        cpu=used and used.cpu,
        memory=used and used.memory,
    )


def _get_number(outcome: int) -> int:
    return outcome & ~(WITH_USAGE | WITH_RESULT)


def find_end(text: bytes, start: int) -> int:
    """Return where a run that begins there ends, with what stands behind it. Raise `IndexError` or `struct.error`."""
    end, outcome = start + text[start], text[start + _OUTCOME_AT]
    if outcome & WITH_USAGE:
        end += USAGE_SIZE
    if not outcome & WITH_RESULT:
        return end
    return end + _RESULT_SIZE.size + int(_RESULT_SIZE.unpack_from(text, end)[0])


def read_facts(text: bytes, start: int, end: int) -> tuple[int, float, float, float, int]:
    """Return the facts of a run that is packed there.

    They are its outcome, for how many seconds it ran, when it ended, how many seconds after its due time it began, and
    the number of its try. The outcome is its number in `OUTCOMES`: to count by that is faster. Raise `ValueError`,
    `IndexError` or `struct.error` for one that nobody can have packed.
    """
    _, due, packed, took, outcome, attempt, _ = _HEAD.unpack_from(text, start)
    waited, outcome = _read_waited(packed), _get_number(outcome)
    ended = due + waited + took
    if not (math.isfinite(ended) and took >= 0 and end - start >= _HEAD.size):
        raise ValueError(f"a run of {end - start} bytes that took {took} s and ended at {ended}")
    if outcome >= len(OUTCOMES):
        raise IndexError(f"an outcome with the number {outcome}")
    return outcome, took, ended, waited, attempt


def add_runs(value: bytes, runs: Sequence[tuple[bytes, bytes]], most: int) -> bytes:
    """Return the value of a job with further runs, of which the last is the newest; of all, `most` are kept.

    Those that are the same count as one: they were archived before, but their entry had not left the journal. Each of
    `runs` is packed, with the name of its worker. A damaged value counts as empty.
    """
    kept = [*dict.fromkeys([*reversed(runs), *(_split(value) or ())])][:most]
    parts, numbers = [bytes((len(kept),))], dict[bytes, int]()
    for packed, worker in kept:
        number = numbers.get(worker)
        if number is None:
            if len(numbers) < MOST_NAMES:
                numbers[worker] = len(numbers)
            size, length, name = packed[0] + len(worker), len(worker), worker
        else:
            size, length, name = packed[0], NAMED + number, b""
        parts.append(b"%c%b%c%b%b" % (size, packed[1:NAME_LENGTH], length, name, packed[_HEAD.size :]))
    return b"".join(parts)


def read_runs(jobid: str, value: bytes) -> list[PastRun] | None:
    """Return the runs in the value of a job, the newest first; None if it is damaged."""
    found = _split(value)
    return None if found is None else [read_run(jobid, packed, worker) for packed, worker in found]


def read_newest(jobid: str, value: bytes) -> PastRun | None:
    """Return the newest run in the value of a job; None if there is none, or it is damaged."""
    try:
        return next((read_run(jobid, packed, worker) for packed, worker in _cut_apart(value)), None)
    except BAD:
        return None


def get_end(run: PastRun) -> float:
    """Return when a run ended, in epoch seconds."""
    return run.started + run.took


def read_last_end(value: bytes) -> float:
    """Return when the newest run in the value of a job ended, in epoch seconds; -inf if there is none.

    It reads no more than that. Of a damaged value it may return anything.
    """
    try:
        return read_facts(value, 1, 1 + value[1])[2]
    except BAD:
        return -math.inf


def read_duration(value: bytes) -> float | None:
    """Return the seconds that the newest runs in the value of a job took on average; None if there are none.

    It reads no more than that, as a forecast asks for it for each job. Of a damaged value it may return anything.
    """
    position, found = 1, list[float]()
    try:
        for _ in range(min(value[0], FEW) if value else 0):
            found += _TOOK.unpack_from(value, position + _TOOK_AT)
            position = find_end(value, position)
    except (IndexError, struct.error):
        return None
    mean = sum(found) / len(found) if found else math.nan
    return mean if 0 <= mean < math.inf else None


def _split(value: bytes) -> list[tuple[bytes, bytes]] | None:
    try:
        return list(_cut_apart(value))
    except BAD:
        return None


def _cut_apart(value: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield each run without the name of its worker, and that name. Raise an error for a damaged value."""
    if not value:
        return
    position, names = 1, list[bytes]()
    for _ in range(value[0]):
        size, length = value[position], value[position + NAME_LENGTH]
        name, end = position + _HEAD.size, find_end(value, position)
        own = length if length < NAMED else 0
        if length < NAMED:
            names.append(value[name : name + own])
        worker, rest = names[-1 if length < NAMED else length - NAMED], value[name + own : end]
        if len(rest) != end - name - own or size - own < _HEAD.size:
            raise ValueError
        packed = b"%c%b\0%b" % (size - own, value[position + 1 : name - 1], rest)
        read_facts(packed, 0, len(packed))
        yield packed, worker
        position = end
    if position != len(value):
        raise ValueError


@lru_cache(64)
def _cut(text: str, most: int) -> bytes:
    """Return the first bytes of a text in UTF-8, without half a character at the end."""
    encoded = text.encode(errors="replace")
    return encoded if len(encoded) <= most else encoded[:most].decode(errors="ignore").encode()
