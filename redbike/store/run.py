"""A run in flight, where its job goes when it has ended, and what is asked and answered; see ``store/runs.py``."""

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

MOST_TEXT = 100  # characters of how far a run is
SAFE = "".join(char for char in map(chr, range(33, 127)) if char != "%")  # what a key has of a job id as it is


def format_due(due: float) -> str:
    """Return epoch seconds with all their digits, as people and shells calculate with them: 1000.25, 1000."""
    return f"{due:.6f}".rstrip("0").rstrip(".")


class Saver(Protocol):
    """What keeps something for the next try of an occurrence; in a coroutine, all return what is to be awaited."""

    def save(self, run: "Run", value: Any) -> Any:
        """Keep `value`."""

    def read(self, run: "Run") -> Any:
        """Return what is kept."""

    def find_order(self, run: "Run") -> Any:
        """Return who has ordered it."""
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
    over: float = field(default=0.0, compare=False)  #: when its work was over, by the monotonic clock; 0.0 before
    tries: int = 0  #: of the same occurrence, before this one
    after: float | None = None  #: after when the schedule goes on, if that is not `due`
    began: float = field(default=0.0, compare=False)  #: when its work began, by the monotonic clock; 0.0 before
    worker: str = field(default="", compare=False)  #: the name of its worker; "" if this process does not know it
    cancelled: bool = field(default=False, compare=False)  #: as far as its worker has heard
    failed: int = 0  #: occurrences in a row, before this one, if the job is to be stopped after so many
    alone: bool = field(default=False, repr=False)  # it may have begun before, with a worker that died
    options: str = ""  #: of the job, as they are stored
    queue_pause: tuple[float, float] | None = None  #: first and last instant of the last one in a day
    stored_data: str = field(default="", repr=False)  #: JSON
    output: str | None = field(default=None, compare=False, repr=False)  #: the end of it, if the job keeps it
    output_size: int = field(default=0, compare=False, repr=False)  # bytes that it may have
    result: str = field(default="", compare=False, repr=False)  # JSON, if it is to be kept; see history.py
    usage: Any = field(default=None, compare=False, repr=False)  # a `Usage`, of its command
    tap: Any = field(default=None, compare=False, repr=False)  # a `Tap`, of what its command prints
    ping_url: str | None = field(default=None, compare=False, repr=False)  #: what is called when it has ended
    thread: int = field(default=0, compare=False, repr=False)  #: the one in which its work began; 0 before
    awaited: bool = field(default=False, compare=False, repr=False)  # whether a loop of coroutines runs it
    stop_flag: Any = field(default=None, compare=False, repr=False)  # a `StopFlag`, set when its worker is to stop
    find_bike: Callable[[], Any] = field(default=_refuse_bike, compare=False, repr=False)  # what runs it
    predict_retry: "Callable[[Run, BaseException], bool]" = field(default=_refuse_to_predict, compare=False, repr=False)
    saver: Any = field(default=None, compare=False, repr=False)  # a `Saver`, of its worker
    uses_saved: bool = field(default=False, compare=False, repr=False)  # whether it has saved something, or found it
    reported: Any = field(default=None, compare=False, repr=False)  # a `Progress`: how far it says it is
    told: Any = field(default=None, compare=False, repr=False)  # a `Progress`: what the server may know of that
    saved_text: str | None = field(default=None, compare=False, repr=False)  # JSON, "" for none; None: not read yet

    @property
    def data(self) -> Any:
        """The data of the job, a new copy each time; None if it has none."""
        return json.loads(self.stored_data) if self.stored_data else None

    @property
    def bike(self) -> Any:
        """The `Redbike` that works it; in a coroutine an `AsyncRedbike`. Raise `LookupError` where nobody works it."""
        return self.find_bike()

    @property
    def stopping(self) -> "Stopping":
        """Whether its worker is to stop: a long run may end early, and raise `Again` to go on elsewhere.

        A coroutine may also wait for it: ``await current_run().stopping``.
        """
        return Stopping(self.stop_flag)

    @property
    def saved(self) -> Any:
        """What an earlier try of this occurrence, or this one, has saved; None if there is nothing.

        It is read when it is first asked for. In a coroutine it is awaited: ``await current_run().saved``. Raise
        `Unreachable` if the server is away for 12 seconds, and `LookupError` where nobody works the run.
        """
        return self._find_saver().read(self)

    def save(self, value: Any) -> Any:
        """Keep `value`, JSON of up to 64 KiB, as `saved` for the next try of this occurrence; None for nothing.

        It takes the place of what was saved before. In a coroutine it is awaited: ``await current_run().save(5)``.
        Raise `BadConfig` for another value, `LostRun` if another worker may have the job by now, `Unreachable` if
        the server is away for 12 seconds, and `LookupError` where nobody works the run.
        """
        return self._find_saver().save(self, value)

    @property
    def scheduled_by(self) -> Any:
        """Who had set its job, or ordered this run, last before it started: a `LogEntry`, with ``who`` and ``action``.

        It is read from the log, in a request or two, each time it is asked for. None where the log does not know: it
        has no changes by programs without ``noted_as``. In a coroutine it is awaited, as `saved` is, and raises the
        same.
        """
        return self._find_saver().find_order(self)

    def progress(self, share: float, text: str = "") -> None:
        """Say how far it is: a share of its work from 0 to 1, and one line of up to 100 characters.

        It costs no request: the next heartbeat has it, within three seconds. ``tell``, ``show``, ``top`` and the page
        of the job show the last one until the run ends. What cannot be printed of `text` is escaped, and a longer one
        is cut. Raise `BadConfig` for another share, `TypeError` for what is no number and text, and `LookupError` where
        nobody works the run.
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
        """The job whose work this is: its own, or that of which it is a backfill."""
        return (self.options and self.backfill_of) or self.jobid

    @property
    def attempt(self) -> int:
        """The number of this try of the same occurrence, from 1."""
        return 1 + self.tries

    @property
    def key(self) -> str:
        """What no other occurrence of any job has, the same in each try of this one: its job id and its due time.

        It is ASCII, as a header of a request needs; what is not, and blanks and ``%``, stand there as in a URL. An
        occurrence of a backfill has the key that it has by the schedule of its job.
        """
        return format_key(self.base, self.due)

    @property
    def has_begun(self) -> bool:
        """Tell whether this occurrence may have begun before, in an earlier try."""
        return self.tries > 0 or self.alone

    @property
    def was_asked_for(self) -> bool:
        """Tell whether somebody has asked for this occurrence when it was overdue; see ``lua/run.lua``."""
        return self.after == self.due

    @property
    def goes_on_after(self) -> float:
        """The instant after which the schedule has its next occurrence."""
        return self.due if self.after is None else self.after

    @property
    def timeout(self) -> float:
        """The seconds from its start to its deadline, as they were set: so large times are not kept so exactly."""
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
        """Let an occurrence of a backfill have its own due time: for the queue, it is due since it was put there."""
        if self.options and (found := find_backfill(self.options))[0]:
            self.due = found[1]

    def now(self) -> float:
        """Return Redis' clock, as far as this process knows it without a request; only drift can put it ahead."""
        return self.start + time.monotonic() - self.received


def format_key(jobid: str, due: float) -> str:
    """Return the key of the occurrence of a job that is due then, see `Run.key`."""
    return f"{urllib.parse.quote(jobid, SAFE)}@{format_due(due)}"


class Poll(NamedTuple):
    """One poll of queues: (name, timeout in seconds) of each, and whose turn it is, by numbers from 1.

    The first job is looked for in the queue of the first turn, and in the next ones if that has none. So it goes on,
    over and over. If it is `strict`, a queue has its turn for as long as it has jobs.
    """

    queues: Sequence[tuple[str, float]]
    turns: Sequence[int]
    strict: bool = False
