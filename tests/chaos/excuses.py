"""Which recorded fault explains that a run was repeated, or overlapped with another one of the same job.

A run is open from when its worker took it until the end of it is surely told: when the same worker took what came
next. Only what befell the worker or the server in that time explains that it did not count.
"""

from tests.chaos.history import Entry, History, Run

LEASE = 12.0  # seconds without a sign of life after which a run is given to another worker
TIMEOUTS = {"C": 4.0}  # seconds, by queue
TIMEOUT = 10.0  # of the other queues
GRACE = 2.0  # seconds after its deadline until a run counts as lost
SLACK = 0.05  # seconds
TELLING = 3.0  # seconds within which the end of a run is told, if nothing is in the way
CUTS = ("cut-before", "reply-lost", "cut-mid-reply", "reset", "stall", "black-hole", "delay")
OUTAGES = ("server-kill", "server-stop", "server-restart", "aof-tail", "promotion", "client-kill")


class Excuses:
    """Looks faults up by process."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._pauses = _by_pid(history, ("worker-pause",))
        self._cuts = _by_pid(history, CUTS)
        self._outages = [fault for fault in history.faults if fault["name"] in OUTAGES]
        self._forgotten = [fault for fault in history.faults if "since" in fault]

    def of(self, run: Run, again: Run) -> list[str]:
        """Why `run` was repeated by `again`: the strongest reason first; empty if there is none."""
        # A run is given to another worker no sooner than its lease has run out, or its time.
        waited = abs(again.taken - run.taken) + SLACK
        expired, over = waited >= self.lease(run), waited >= min(self.lease(run), self.timeout(run))
        found = {
            "killed": expired and self._killed(run),
            "paused": over and (self._paused(run) or self._paused(again)),
            "overran": over and self._overran(run),
            "forgotten": self._was_forgotten(run, again),
            "stopped while cut off": expired and self._stopped(run) and self._was_cut(run),
            "cut off": expired and self._was_cut(run),
        }
        return [reason for reason, holds in found.items() if holds]

    def for_both(self, run: Run, other: Run) -> bool:
        """Whether two runs may overlap. That a worker was killed later is no reason."""
        return bool({"paused", "overran", "forgotten", "cut off"} & {*self.of(run, other), *self.of(other, run)})

    def timeout(self, run: Run) -> float:
        """Seconds that the run may take."""
        return TIMEOUTS.get(run.job.rpartition(":")[2], TIMEOUT)

    def lease(self, run: Run) -> float:
        """Seconds after which it counts as lost, from when it was taken on, if nothing is heard of it."""
        return min(LEASE, self.timeout(run) + GRACE)

    def open_until(self, run: Run) -> float:
        """When the end of the run was surely told, or could not be told any more."""
        process = self.history.processes[run.pid]
        told = float("inf") if run.end is None else run.end + TELLING
        for fault in (*self._outages, *self._cuts.get(run.pid, ())):
            if run.end is not None and fault["began"] <= told and fault["ended"] >= run.end:
                told = max(told, fault["ended"] + TELLING)
        return min(told, run.next_take, process.died)

    def _overran(self, run: Run) -> bool:
        # Its own worker says that it did; one that is dead cannot.
        deadline = run.taken + self.timeout(run)
        return (run.end or deadline) >= deadline and self.history.processes[run.pid].died >= deadline

    def _killed(self, run: Run) -> bool:
        process = self.history.processes[run.pid]
        return process.status != 0 and process.died <= self.open_until(run)

    def _stopped(self, run: Run) -> bool:
        process = self.history.processes[run.pid]
        return process.status == 0 and process.died <= self.open_until(run)

    def _paused(self, run: Run) -> bool:
        return any(overlaps(fault, run.taken, self.open_until(run)) for fault in self._pauses.get(run.pid, ()))

    def _was_cut(self, run: Run) -> bool:
        until = self.open_until(run)
        return any(overlaps(fault, run.taken, until) for fault in (*self._outages, *self._cuts.get(run.pid, ())))

    def _was_forgotten(self, run: Run, again: Run) -> bool:
        return any(
            fault["since"] <= self.open_until(run) and fault["ended"] >= run.taken and again.taken >= fault["since"]
            for fault in self._forgotten
        )


def overlaps(fault: Entry, begin: float, end: float) -> bool:
    """Whether a fault was there at some instant from `begin` to `end`."""
    return bool(fault["began"] <= end and fault["ended"] >= begin)


def _by_pid(history: History, names: tuple[str, ...]) -> dict[int, list[Entry]]:
    found: dict[int, list[Entry]] = {}
    for fault in history.faults:
        if fault["name"] in names:
            found.setdefault(fault["pid"], []).append(fault)
    return found
