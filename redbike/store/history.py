r"""Ended runs, packed into few bytes, as they are kept for every job and written for every run.

A run has these fields, without alignment, the lowest byte first:

=======  =====================================================================
bytes    field
=======  =====================================================================
1        size of the run in bytes
8        due time, a double
4        from the due time until it started: tenths of a millisecond if less than `LONG`, else `LONG` plus seconds
4        seconds that it took, a float
1        outcome: its number in `Outcome`, with marks for what follows the run: `WITH_USAGE`, `WITH_RESULT`
1        number of this try, 255 for more
1        length of the name of the worker; an archived run may have another number: see `redbike.store.archived`
\        the name of the worker; ``-`` if it is unknown
\        what went wrong, in one line
=======  =====================================================================

The size does not include what follows the run. First comes the usage of a command: seconds of CPU (4, a float), and the
peak of its memory (4, KiB, 0 if it is unknown). Then comes the result of a run that is ok: its own size (2), and then
JSON, or `NOT_KEPT` and the reason why it is not kept.
"""

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, NotRequired, Self, TypedDict, cast

from redbike.store.enums import Outcome
from redbike.store.records import RetryState
from redbike.text.parsing import load_json

MAX_SIZE = 255  # bytes of a run
MAX_WORKER = 60  # bytes of its name
MAX_ATTEMPT = 255
UNKNOWN = "-"  # the name of a worker that nobody knows
WITH_USAGE, WITH_RESULT = 64, 128  # marks of an outcome
MARKS = WITH_USAGE | WITH_RESULT
NOT_KEPT = "!"  # no JSON begins with it
LONG, TICKS = 2**31, 10_000  # a float would be wrong by a minute for a run that was due long ago

BAD = (IndexError, ValueError, struct.error)  # the errors that reading a damaged run raises

_NOTHING = object()  # no result
HEAD = struct.Struct("<BdIfBBB")
OUTCOMES = list(Outcome)
_NUMBERS = {outcome: number for number, outcome in enumerate(Outcome)}
_TOOK, _TOOK_AT = struct.Struct("<f"), 13
_OUTCOME_AT, _RESULT_SIZE = 17, struct.Struct("<H")
NAME_LENGTH = HEAD.size - 1  # the offset of the length of the name
_PACKED, KIB, MOST_KIB = struct.Struct("<fI"), 1024, 2**32 - 1
USAGE_SIZE = _PACKED.size


class Usage(NamedTuple):
    """What a command has used, with its children."""

    cpu: float  # seconds
    memory: int | None  # bytes of the process that had the most; None if unknown

    def pack(self) -> bytes:
        """Return it in bytes, as it is stored."""
        return _PACKED.pack(self.cpu, min(math.ceil((self.memory or 0) / KIB), MOST_KIB))

    @classmethod
    def read(cls, packed: bytes, position: int) -> Self:
        """Read it at `position`. Raise `struct.error` if `packed` is too short."""
        cpu, memory = _PACKED.unpack_from(packed, position)
        return cls(round(cpu, 6), memory * KIB or None)


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
    result_error: NotRequired[str]  #: why the result is not kept
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
    error: str  #: what went wrong, in one line; "" if nothing did, or if it is unknown
    worker: str  #: the id of its process, see `Process`; "" if unknown
    stored_result: str = field(default="", repr=False)  #: the result as it is stored; "" for none
    cpu: float | None = None  #: seconds of CPU that a command and its children have used; None if unknown
    memory: int | None = None  #: the most bytes that the command or a child had; None if unknown

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
        """Why its result is not kept, in one line; "" if it is kept, or if it was not to be kept."""
        return self.stored_result[len(NOT_KEPT) :] if self.stored_result.startswith(NOT_KEPT) else ""

    @property
    def has_failed(self) -> bool:
        """Tell whether something went wrong. A run whose occurrence was tried again counts, too."""
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
        """Return for JSON its ``result``, or ``result_error``: why that is not kept; {} if there is neither."""
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
    """Return a packed run without the name of its worker. Times are in seconds. A long error is cut.

    `result` is the one of a run that is ok, in the form of `PastRun.stored_result`.
    """
    text = _cut(error, MAX_SIZE - MAX_WORKER - HEAD.size) if error else b""
    size, number = HEAD.size + len(text), _NUMBERS[outcome]
    if usage:
        text, number = text + usage.pack(), number | WITH_USAGE
    if result and outcome == Outcome.OK:
        encoded = result.encode(errors="replace")
        text, number = text + _RESULT_SIZE.pack(len(encoded)) + encoded, number | WITH_RESULT
    return HEAD.pack(size, due, _pack_waited(waited), took, number, min(attempt, MAX_ATTEMPT), 0) + text


def _pack_waited(seconds: float) -> int:
    ticks = round(max(0.0, seconds) * TICKS)
    return ticks if ticks < LONG else LONG + min(int(seconds), LONG - 1)  # down: no run begins after it ends


def _read_waited(packed: int) -> float:
    return packed / TICKS if packed < LONG else packed - LONG


def pack_worker(name: str) -> bytes:
    """Return the name of a worker as it is stored, cut to `MAX_WORKER` bytes."""
    return _cut(name or UNKNOWN, MAX_WORKER)


def read_run(jobid: str, packed: bytes, worker: bytes) -> PastRun:
    """Read a run that `pack_run` has packed. Raise `ValueError`, `IndexError` or `struct.error` for other bytes."""
    _, due, waited, took, outcome, attempt, _ = HEAD.unpack_from(packed)
    error = packed[HEAD.size : packed[0]].decode(errors="replace")
    name, more = worker.decode(errors="replace"), packed[0]
    used = Usage.read(packed, more) if outcome & WITH_USAGE else None
    more += USAGE_SIZE if used else 0
    return PastRun(
        jobid=jobid,
        due=due,
        started=round(due + _read_waited(waited), 6),
        took=round(took, 6),
        outcome=OUTCOMES[outcome & ~MARKS],
        attempt=attempt,
        error=error,
        worker="" if name == UNKNOWN else name,
        stored_result=packed[more + _RESULT_SIZE.size :].decode(errors="replace"),
        cpu=used and used.cpu,
        memory=used and used.memory,
    )


def is_tried_again(run: PastRun, kept: RetryState, runs: Iterable[PastRun]) -> bool:
    """Tell whether the occurrence of an ended run goes on, by the `kept` retry state and the `runs` of its job."""
    if run.outcome not in (Outcome.LOST, Outcome.OVERRUN):
        return run.outcome == Outcome.RETRY
    if kept.alone or (kept.due == run.due and kept.tries >= run.attempt):
        return True
    # The next try may have ended meanwhile.
    number = run.attempt, run.started
    return any(later.due == run.due and (later.attempt, later.started) > number for later in runs)


def find_end(text: bytes, start: int) -> int:
    """Return where a run that begins at `start` ends, with what follows it. Raise `IndexError` or `struct.error`."""
    end, outcome = start + text[start], text[start + _OUTCOME_AT]
    if outcome & WITH_USAGE:
        end += USAGE_SIZE
    if not outcome & WITH_RESULT:
        return end
    return end + _RESULT_SIZE.size + int(_RESULT_SIZE.unpack_from(text, end)[0])


def read_took(text: bytes, start: int) -> float:
    """Return the seconds that the run packed at `start` took. Raise `struct.error` if the text is too short."""
    return float(_TOOK.unpack_from(text, start + _TOOK_AT)[0])


def read_facts(text: bytes, start: int, end: int) -> tuple[int, float, float, float, int]:
    """Return the facts of a run that is packed from `start` to `end`.

    They are: its outcome, the seconds that it ran, when it ended (epoch seconds), how many seconds after its due time
    it began, and the number of its try. The outcome is its number in `OUTCOMES`: to count by numbers is faster. Raise
    `ValueError`, `IndexError` or `struct.error` for a damaged run.
    """
    _, due, packed, took, outcome, attempt, _ = HEAD.unpack_from(text, start)
    # Function calls for these two would take half of the time that this function takes for each run.
    waited, outcome = packed / TICKS if packed < LONG else packed - LONG, outcome & ~MARKS
    ended = due + waited + took
    if not (math.isfinite(ended) and took >= 0 and end - start >= HEAD.size):
        raise ValueError(f"a run of {end - start} bytes that took {took} s and ended at {ended}")
    if outcome >= len(OUTCOMES):
        raise IndexError(f"an outcome with the number {outcome}")
    return outcome, took, ended, waited, attempt


def get_end(run: PastRun) -> float:
    """Return when a run ended, in epoch seconds."""
    return run.started + run.took


@lru_cache(64)
def _cut(text: str, most: int) -> bytes:
    """Return the first bytes of a text in UTF-8, without half a character at the end."""
    encoded = text.encode(errors="replace")
    return encoded if len(encoded) <= most else encoded[:most].decode(errors="ignore").encode()
