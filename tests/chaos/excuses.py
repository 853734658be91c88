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
TIMED_OUT = 5.0  # seconds after which a worker gives up waiting for a reply
PAUSE = 2.5  # seconds at most until it has tried again
CUTS = ("cut-before", "reply-lost", "cut-mid-reply", "reset", "stall", "black-hole", "delay")
OUTAGES = ("server-kill", "server-stop", "server-restart", "aof-tail", "promotion", "client-kill")
STOPS = ("worker-term", "worker-hup", "worker-clock")  # signals that ask a worker to stop
OUTAGES += ("master-kill", "master-pause", "switchover", "slot-move", "takeover")


class Excuses:
    """Looks faults up by process."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._pauses = _by_pid(history, ("worker-pause", "dispatcher-pause"))
        self._cuts = _by_pid(history, CUTS)
        self._stops = _by_pid(history, STOPS)
        self._outages = [fault for fault in history.faults if fault["name"] in OUTAGES]
        # Spans of what the servers have acknowledged and forgotten: at a takeover, until the old master was none.
        self.forgotten = [
            (fault["since"], fault.get("until", fault["ended"])) for fault in history.faults if "since" in fault
        ]
        self._takeovers = [(fault["since"], fault["until"]) for fault in history.faults if "until" in fault]

    def of(self, run: Run, again: Run) -> list[str]:
        """Why `run` was repeated by `again`: the strongest reason first; empty if there is none."""
        # A run is given to another worker no sooner than its lease has run out, or its time.
        waited = abs(again.taken - run.taken) + SLACK
        expired, over = waited >= self.lease(run), waited >= min(self.lease(run), self.timeout(run))
        # Also one that was taken earlier, and is run later than it was by another worker, by one that was suspended.
        late = again.taken <= run.taken and self._paused(again)
        killed, paused = expired and self._killed(run), over and (self._paused(run) or late)
        found = {
            "raised": run.outcome == "raised" and again.start >= (run.end or 0),
            "forgotten": self.is_replaced(run, again),
            "killed while cut off": killed and self._is_untold(run, self._death(run)),
            "killed": killed,
            "paused while cut off": paused and self._is_untold(run, self._first_pause(run)),
            "paused": paused,
            "overran": over and self._overran(run),
            "stopped twice": run.end is None and self._was_stopped_twice(run),
            "stopped while cut off": expired and self._stopped(run) and self._could_not_tell(run, self._death(run)),
            "cut off": over and self._could_not_tell(run, run.taken + min(self.lease(run), self.timeout(run))),
        }
        return [reason for reason, holds in found.items() if holds]

    def for_both(self, run: Run, other: Run) -> bool:
        """Whether two runs may overlap. That a worker was killed later is no reason."""
        return bool({"paused", "overran", "forgotten", "cut off"} & {*self.of(run, other), *self.of(other, run)})

    def is_forgotten(self, moment: float) -> bool:
        """Whether the server may have forgotten what it acknowledged at `moment`."""
        return any(since <= moment <= until for since, until in self.forgotten)

    def is_overtaken(self, moment: float) -> bool:
        """Whether a master may have acknowledged something at `moment` that the next one has never heard of."""
        return any(since <= moment <= until for since, until in self._takeovers)

    def is_suspended(self, pid: int, moment: float, seconds: float) -> bool:
        """Whether the process was suspended in the `seconds` after `moment`."""
        return any(overlaps(fault, moment, moment + seconds) for fault in self._pauses.get(pid, ()))

    def is_replaced(self, run: Run, again: Run) -> bool:
        """Whether the servers may have forgotten `run`, or what was done to it, when `again` was taken."""
        # Of a batch that was taken, and then forgotten, the last jobs may begin after others have run them.
        first, second = (run, again) if run.taken <= again.taken else (again, run)
        return any(
            since <= self.open_until(first) and until >= first.taken and second.taken >= since
            for since, until in self.forgotten
        )

    def is_struck(self, run: Run, moment: float) -> bool:
        """Whether the worker of `run` was suspended or cut off until `moment`."""
        faults = [*self._pauses.get(run.pid, ()), *self._cuts.get(run.pid, ())]
        return any(overlaps(fault, run.taken, moment) for fault in faults)

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
        return (run.end or deadline) >= deadline and self._death(run) >= deadline

    def _killed(self, run: Run) -> bool:
        process = self.history.processes[run.pid]
        return process.status != 0 and process.died <= self.open_until(run)

    def _stopped(self, run: Run) -> bool:
        return self.history.processes[run.pid].status == 0 and self._death(run) <= self.open_until(run)

    def _was_stopped_twice(self, run: Run) -> bool:
        """Whether its worker was to hand back what runs: the second signal does not wait for that."""
        death = self._death(run) + SLACK
        return sum(fault["began"] <= death for fault in self._stops.get(run.pid, ())) > 1

    def _paused(self, run: Run) -> bool:
        return any(overlaps(fault, run.taken, self.open_until(run)) for fault in self._pauses.get(run.pid, ()))

    def _could_not_tell(self, run: Run, until: float) -> bool:
        """Whether one fault came after the other from the end of the run to `until`, and no time was left to tell."""
        at = run.taken if run.end is None else run.end
        faults = [*self._outages, *self._cuts.get(run.pid, ())]
        for fault in sorted(faults, key=lambda fault: fault["began"]):
            if fault["began"] <= at + SLACK:
                at = max(at, min(fault["ended"], fault["began"] + TIMED_OUT) + PAUSE)
        return at >= until

    def _is_untold(self, run: Run, until: float) -> bool:
        """Whether it had ended, and that could not be told before `until`."""
        return run.end is not None and run.end < until and self._could_not_tell(run, until)

    def _first_pause(self, run: Run) -> float:
        return min(
            (fault["began"] for fault in self._pauses.get(run.pid, ()) if fault["ended"] > run.taken), default=0.0
        )

    def _death(self, run: Run) -> float:
        return self.history.processes[run.pid].died


def overlaps(fault: Entry, begin: float, end: float) -> bool:
    """Whether a fault was there at some instant from `begin` to `end`."""
    return bool(fault["began"] <= end and fault["ended"] >= begin)


def _by_pid(history: History, names: tuple[str, ...]) -> dict[int, list[Entry]]:
    found: dict[int, list[Entry]] = {}
    for fault in history.faults:
        if fault["name"] in names:
            found.setdefault(fault["pid"], []).append(fault)
    return found
