"""A run in flight, as its worker has it, and a poll of queues; see ``store/runs.py``."""

import json
import time
import urllib.parse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from redbike.config.definitions import read_share
from redbike.config.options import find_backfill
from redbike.store.records import Progress
from redbike.store.stopping import Stopping
from redbike.text.printable import escape

MOST_TEXT = 100  # characters of the text of a progress
SAFE = "".join(char for char in map(chr, range(33, 127)) if char != "%")  # characters of a job id that a key keeps


def format_due(due: float) -> str:
    """Return epoch seconds as a decimal number for people and shells, without trailing zeros: 1000.25, 1000."""
    return f"{due:.6f}".rstrip("0").rstrip(".")


class Saver(Protocol):
    """Saves a value for the next try of an occurrence. In a coroutine, all methods return awaitables."""

    def save(self, run: "Run", value: Any) -> Any:
        """Save `value`."""

    def read(self, run: "Run") -> Any:
        """Return the saved value."""

    def find_order(self, run: "Run") -> Any:
        """Return the `LogEntry` of `Run.scheduled_by`."""
        ...


def _refuse_bike() -> Any:
    raise LookupError("a run has a bike only while a worker runs it")


def _refuse_to_predict(run: "Run", error: BaseException) -> bool:
    raise LookupError("a run knows only in a middleware whether it is tried again")


@dataclass(slots=True)  # not frozen: that makes a new one four times as slow, and there is one for every job
class Run:
    """A run in flight, as its worker holds it. Times are epoch seconds by Redis' clock."""

    jobid: str
    due: float
    tag: str
    start: float
    deadline: float
    failures: int  #: runs in a row that raised, before this one
    losses: int  #: runs in a row whose worker died, before this one
    schedule: str  #: the text at the time when the run was taken
    queue: str
    prefix: str = field(default="", compare=False)  #: of the keys: two prefixes may have jobs of the same id
    received: float = field(default_factory=time.monotonic, compare=False)
    over: float = field(default=0.0, compare=False)  #: when its work ended, by the monotonic clock; 0.0 before
    tries: int = 0  #: tries of the same occurrence before this one
    after: float | None = None  #: the instant after which the schedule goes on, if that is not `due`
    began: float = field(default=0.0, compare=False)  #: when its work began, by the monotonic clock; 0.0 before
    worker: str = field(default="", compare=False)  #: the name of its worker; "" if this process does not know it
    cancelled: bool = field(default=False, compare=False)  #: whether it was cancelled, as far as its worker knows
    failed: int = 0  #: occurrences in a row that failed before this one, if the job is to be stopped after some number
    alone: bool = field(default=False, repr=False)  # whether it may have begun before, with a worker that died
    options: str = ""  #: of the job, as they are stored
    queue_pause: tuple[float, float] | None = None  #: first and last instant of its queue's last pause, for a day
    stored_data: str = field(default="", repr=False)  #: JSON
    output: str | None = field(default=None, compare=False, repr=False)  #: the end of its output, if the job keeps it
    output_size: int = field(default=0, compare=False, repr=False)  # the most bytes of `output`
    result: str = field(default="", compare=False, repr=False)  # JSON, if it is to be kept; see history.py
    usage: Any = field(default=None, compare=False, repr=False)  # a `Usage`, of its command
    tap: Any = field(default=None, compare=False, repr=False)  # a `Tap`, of what its command prints
    ping_url: str | None = field(default=None, compare=False, repr=False)  #: the URL that is called when it has ended
    thread: int = field(default=0, compare=False, repr=False)  #: the thread in which its work began; 0 before
    awaited: bool = field(default=False, compare=False, repr=False)  # whether a loop of coroutines runs it
    stop_flag: Any = field(default=None, compare=False, repr=False)  # a `StopFlag`, set when its worker is to stop
    find_bike: Callable[[], Any] = field(default=_refuse_bike, compare=False, repr=False)  # what runs it
    predict_retry: "Callable[[Run, BaseException], bool]" = field(default=_refuse_to_predict, compare=False, repr=False)
    saver: Any = field(default=None, compare=False, repr=False)  # a `Saver`, of its worker
    uses_saved: bool = field(default=False, compare=False, repr=False)  # whether it has saved something, or found it
    reported: Any = field(default=None, compare=False, repr=False)  # the last `Progress` that it has reported
    told: Any = field(default=None, compare=False, repr=False)  # the last `Progress` that the server may have
    saved_text: str | None = field(default=None, compare=False, repr=False)  # JSON, "" for none; None: not read yet

    @property
    def data(self) -> Any:
        """The data of the job, a new copy each time; None if it has none."""
        return json.loads(self.stored_data) if self.stored_data else None

    @property
    def bike(self) -> Any:
        """The `Redbike` that runs it; in a coroutine an `AsyncRedbike`. Raise `LookupError` if no worker runs it."""
        return self.find_bike()

    @property
    def stopping(self) -> "Stopping":
        """Whether its worker is to stop. If so, a long run may end early, and raise `Again` to go on elsewhere.

        A coroutine may also wait for it: ``await current_run().stopping``.
        """
        return Stopping(self.stop_flag)

    @property
    def saved(self) -> Any:
        """The value that this try of the occurrence, or an earlier one, has saved; None for none.

        It is read at the first access. In a coroutine it is awaited: ``await current_run().saved``. Raise
        `Unreachable` if the server is away for 12 seconds, and `LookupError` if no worker runs it.
        """
        return self._find_saver().read(self)

    def save(self, value: Any) -> Any:
        """Save `value` for the next try of this occurrence, as `saved`: JSON of up to 64 KiB. None removes it.

        It replaces the value that was saved before. In a coroutine it is awaited: ``await current_run().save(5)``.
        Raise `BadConfig` for another value, `LostRun` if another worker may have the job by now, `Unreachable` if
        the server is away for 12 seconds, and `LookupError` if no worker runs it.
        """
        return self._find_saver().save(self, value)

    @property
    def scheduled_by(self) -> Any:
        """The last `LogEntry` before its start that set its job or ordered this run, with ``who`` and ``action``.

        It is read from the log at each access, with one or two requests. None if the log has no such entry: it has no
        changes by programs without ``noted_as``. In a coroutine it is awaited, as `saved` is. It raises the same errors
        as `saved`.
        """
        return self._find_saver().find_order(self)

    def progress(self, share: float, text: str = "") -> None:
        """Report its progress: the done share of its work, from 0 to 1, and one line of up to 100 characters.

        It costs no request of its own: the next heartbeat sends it, within three seconds. ``tell``, ``show``, ``top``
        and the page of the job show the last progress until the run ends. Unprintable characters of `text` are escaped,
        and a longer text is cut. Raise `BadConfig` for another share, `TypeError` if the arguments are no number and
        text, and `LookupError` if no worker runs it.
        """
        self._find_saver()
        if isinstance(share, str) or not isinstance(text, str):
            raise TypeError(f"progress({share!r:.40}, {text!r:.40}): a number and a text are needed")
        line = escape(" ".join(text.split()).encode(errors="replace"))
        shown = line if len(line) <= MOST_TEXT else f"{line[: MOST_TEXT - 1]}…"
        self.reported = Progress(read_share("share", share), shown)

    def will_retry(self, error: BaseException) -> bool:
        """Tell whether this occurrence runs again if ``work`` raises `error`, as ``retries`` and ``retry_on`` say.

        It is for a middleware. Raise `LookupError` if the worker has none.
        """
        return self.predict_retry(self, error)

    def _find_saver(self) -> Saver:
        if self.saver is None:
            raise LookupError("a run can save data and report progress only while a worker runs it")
        found: Saver = self.saver
        return found

    @property
    def backfill_of(self) -> str:
        """The job of whose backfill this is an occurrence, which has a job id of its own; "" for any other run."""
        return find_backfill(self.options)[0] if self.options else ""

    @property
    def base(self) -> str:
        """The id of the job whose work this is: of the backfilled job if it is of a backfill, else its own."""
        return (self.options and self.backfill_of) or self.jobid

    @property
    def attempt(self) -> int:
        """The number of this try of the same occurrence, from 1."""
        return 1 + self.tries

    @property
    def key(self) -> str:
        """The unique key of its occurrence, the same in each try: its job id and its due time.

        It is ASCII, so that it fits into a header of a request. Other characters, spaces and ``%`` are encoded as in a
        URL. An occurrence of a backfill has the key that it would have by the schedule of its job.
        """
        return format_key(self.base, self.due)

    @property
    def has_begun(self) -> bool:
        """Tell whether this occurrence may have begun before, in an earlier try."""
        return self.tries > 0 or self.alone

    @property
    def was_asked_for(self) -> bool:
        """Tell whether somebody has ordered this run when it was overdue or had no due time; see ``lua/run.lua``."""
        return self.after == self.due

    @property
    def goes_on_after(self) -> float:
        """The instant after which the schedule has its next occurrence."""
        return self.due if self.after is None else self.after

    @property
    def timeout(self) -> float:
        """The seconds from its start to its deadline, in whole microseconds: a float of epoch seconds is inexact."""
        return round(self.deadline - self.start, 6)

    @property
    def local_deadline(self) -> float:
        """Its deadline by the monotonic clock of its worker."""
        return self.received + self.deadline - self.start

    @property
    def was_in_time(self) -> bool:
        """Tell whether its work was over before its deadline."""
        return 0.0 < self.over < self.local_deadline

    def take_own_due(self) -> None:
        """Set `due` of an occurrence of a backfill to its own due time: the queue has the time when it was enqueued."""
        if self.options and (found := find_backfill(self.options))[0]:
            self.due = found[1]

    def now(self) -> float:
        """Return an estimate of Redis' clock (epoch seconds) without a request. Only drift can put it ahead."""
        return self.start + time.monotonic() - self.received


def format_key(jobid: str, due: float) -> str:
    """Return the key of the occurrence of a job that is due at `due`, see `Run.key`."""
    return f"{urllib.parse.quote(jobid, SAFE)}@{format_due(due)}"


class Poll(NamedTuple):
    """One poll of queues: (name, timeout in seconds) of each, and the turns: numbers of queues, from 1.

    The first job is taken from the queue of the first turn, or, if that is empty, from the next one that has a job. The
    turns repeat. If the poll is `strict`, a queue keeps its turn as long as it has jobs.
    """

    queues: Sequence[tuple[str, float]]
    turns: Sequence[int]
    strict: bool = False
