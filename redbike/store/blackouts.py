"""The transitions of blackouts: at each time of a schedule, a job, a queue or everything is paused for some seconds.

The name of a blackout is the name of its field: ``job:ID``, ``queue:NAME``, or ``queue:`` for everything.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypedDict

from redbike.errors import BadSchedule
from redbike.schedule.kinds import Schedule
from redbike.schedule.parser import parse_stored
from redbike.schedule.windows import Window, find_window, list_windows
from redbike.store.names import is_queue_name
from redbike.store.namespace import PAGE, STEP, Part, read_time, split
from redbike.store.records import decode, make_note
from redbike.store.scripts import Call

OF_JOB, OF_QUEUE = "job:", "queue:"  # what the names begin with
EVERYTHING = OF_QUEUE
TIMER = "blackout:"  # the timer of a blackout is this, and then its name
LONGEST = 1e9  # seconds


class BlackoutDetails(TypedDict):
    """When a job is paused again and again, see `Redbike.pause`. Times are epoch seconds."""

    of: str  #: ``job``, the name of its queue, or ``everything``
    every: str  #: the schedule of its times, in its complete form
    seconds: float  #: how long each one lasts
    start: float  #: of the window that is on, or else of the next one
    end: float
    by: str  #: ``user@host``
    reason: str


@dataclass(frozen=True, slots=True)
class Blackout:
    """When something is paused again and again. Times are epoch seconds."""

    every: str  #: the schedule of its times, in its complete form
    seconds: float  #: how long each one lasts
    since: float  #: when it was set
    by: str = ""
    reason: str = ""
    #: when it begins next: earlier windows are left out, as they are pauses or were resumed; None: they count, too
    begins: float | None = field(default=None, compare=False)

    @classmethod
    def parse(cls, record: str) -> "Blackout | None":
        """Read a record; None for a damaged or empty one."""
        try:
            kept = json.loads(record)
            times = float(kept["seconds"]), float(kept["since"])
            found = cls(str(kept["every"]), *times, str(kept.get("by", "")), str(kept.get("reason", "")))
            parse_stored(found.every)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            return None
        return found if 0 < found.seconds <= LONGEST and 0 <= found.since < 1e12 else None

    def format(self) -> str:
        """Write the record."""
        return json.dumps({**self.to_dict(), "since": self.since}, ensure_ascii=False)

    def to_dict(self) -> dict[str, str | float]:
        """Return it as a file of jobs has it: without the time when it was set."""
        return {"every": self.every, "seconds": self.seconds, "by": self.by, "reason": self.reason}

    def is_like(self, other: "Blackout | None") -> bool:
        """Tell whether `other` is equal to it, no matter when and by whom it was set."""
        return other is not None and replace(other, since=self.since, by=self.by) == self

    @property
    def schedule(self) -> Schedule:
        """The schedule of its times."""
        return parse_stored(self.every)

    def find(self, now: float) -> Window | None:
        """Return the window that is on at `now`, or else the next one; None if no window is left."""
        try:
            return find_window(self.schedule, self.seconds, max(now, self.begins or now))
        except BadSchedule:
            return None

    def list_between(self, start: float, end: float) -> Iterable[Window]:
        """Yield its windows that overlap [`start`, `end`)."""
        return list_windows(self.schedule, self.seconds, max(start, self.begins or start), end)


class BlackoutState(NamedTuple):
    """What is stored of a blackout, at one instant."""

    name: str
    record: str  # "" for none
    timer: float | None
    has_job: bool  # whether its job exists; True for a queue
    now: float

    @property
    def blackout(self) -> Blackout | None:
        """The blackout; None if there is none, or a damaged one."""
        return Blackout.parse(self.record)


class Blackouts(Part):
    """Sets, begins and ends blackouts."""

    def set(self, names: Sequence[str], blackout: Blackout, at: float, detail: str) -> list[str]:
        """Set `blackout` for each of `names`, to begin `at`; return a word of ``lua/pause_every.lua`` for each.

        The names are those of jobs, or one name of a queue. `detail` is for the log.
        """
        return self._run(names, detail, record=blackout.format(), at=at)

    def end(self, names: Sequence[str], detail: str) -> list[str]:
        """End the blackouts of `names`; return words as `set` does. A pause that is on now stays."""
        return self._run(names, detail)

    def _run(self, names: Sequence[str], detail: str, **given: Any) -> list[str]:
        calls = []
        for page in split(names, STEP):
            jobs = [name.removeprefix(OF_JOB) for name in page if name.startswith(OF_JOB)]
            own = {**given, "jobs": jobs} if jobs else given
            calls.append(self._namespace.pack("pause_every", names=page, detail=detail, **own))
        return [decode(word) for reply in self._namespace.scripts.run_all(calls) for word in reply[1:]]

    def begin(self, state: BlackoutState, window: Window | None, following: float | None) -> str:
        """Pause the job, queue or everything for `window`, if it is on now. The blackout begins again at `following`.

        Return a word of ``lua/begin.lua``: ``stale`` if the blackout has changed since it was read as `state`.
        """
        is_of_job = state.name.startswith(OF_JOB)
        home = self._namespace.find_queue(state.name.removeprefix(OF_JOB)) if is_of_job else ""
        while True:
            [reply] = self._namespace.scripts.run_all([self._pack_begin(state, window, following, home)])
            if reply[0] != "elsewhere":
                return decode(reply[1]) if reply[0] == "ok" else str(reply[0])
            home = decode(reply[1])

    def _pack_begin(self, state: BlackoutState, window: Window | None, following: float | None, home: str) -> Call:
        given: dict[str, Any] = {"name": state.name}
        if state.record:
            given["record"] = state.record
        if state.timer is not None:
            given["at"] = state.timer
        if following is not None:
            given["next"] = following
        if window and (found := state.blackout):
            note = make_note(found.by, found.reason, found.every)
            given |= {"since": window.start, "till": window.end, "note": note}
            given |= {"by": found.by, "reason": found.reason}
        return self._namespace.pack("begin", [home] if home else [], **given)

    def inspect(self, names: Sequence[str], together: bool = False) -> list[BlackoutState]:
        """Return what is stored of the blackouts of `names`. With `together`, a state is read at one instant.

        Without it, `begin` finds out if a state was read in the middle of a change.
        """
        return [state for page in split(names, PAGE) for state in self._inspect(page, together)]

    def _inspect(self, names: Sequence[str], together: bool) -> list[BlackoutState]:
        keys = self._namespace.keys
        records, timers, schedules, clock = self._namespace.ask_all(
            ("hmget", keys.blackouts, names),
            ("zmscore", keys.timers, [f"{TIMER}{name}" for name in names]),
            ("hmget", keys.schedules, [name.removeprefix(OF_JOB) for name in names]),
            ("time",),
            at_once=together,
        )
        now = self._namespace.now or read_time(clock)
        return [
            BlackoutState(name, decode(record), timer, text is not None or not name.startswith(OF_JOB), now)
            for name, record, timer, text in zip(names, records, timers, schedules, strict=True)
        ]

    def read(self, names: Sequence[str]) -> dict[str, Blackout]:
        """Return those of `names` that exist, without the windows that have begun. Damaged ones are left out."""
        found = ((state, state.blackout) for state in self.inspect(names))
        return {state.name: replace(blackout, begins=state.timer) for state, blackout in found if blackout}

    def list_all(self) -> dict[str, Blackout]:
        """Return all blackouts by name, as `read` does."""
        return self.read([name for name, _ in self._namespace.scan(self._namespace.keys.blackouts)])

    def repair(self, state: BlackoutState) -> None:
        """Set the timer of a blackout to now, for a dispatcher. Remove a damaged one, and one whose job is gone."""
        if state.blackout and state.has_job:
            self._run([state.name], "", record=state.record, at=state.now, mends=True)
        else:
            self.end([state.name], "")


def is_blackout_name(name: str) -> bool:
    """Tell whether this may be the name of a blackout."""
    kind, colon, rest = name.partition(":")
    return bool(colon) and ((kind == "job" and rest != "") or (kind == "queue" and (not rest or is_queue_name(rest))))


def name_all(jobid: str, queue: str) -> list[str]:
    """Return the names of the blackouts that may pause a job of this queue; "" for no queue."""
    return [f"{OF_JOB}{jobid}", *([f"{OF_QUEUE}{queue}"] if queue else []), EVERYTHING]
