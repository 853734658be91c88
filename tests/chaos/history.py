"""What a run has noted, read back: runs, processes, faults, operations, snapshots; all times in epoch seconds."""

import csv
import json
import re
from binascii import crc_hqx
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from redbike.store.links import MARK
from tests.chaos.journal import entries

Entry = dict[str, Any]

REMEMBERED = "remembered.csv"
SLOTS = 16_384  # of a cluster
MORE = 1 << 32  # than any pid
TAKEOVERS = ("master-kill", "master-pause", "switchover", "move-takeover")
ELECTION = re.compile(r"^\d+:\w (\d+ \w+ \d+ [\d:.]+) .*Failover election won", re.MULTILINE)
NEAR = 1.0  # seconds before and after an election in which the old master may still acknowledge what is forgotten
SKIPS = ("missed", "running", "withdrawn", "late", "paused", "cancelled", "expired")


@dataclass
class Run:
    """One run of a job by one worker; `end` is None if the worker did not get to it."""

    job: str
    due: float
    tag: str
    pid: int
    taken: float  # by Redis' clock
    start: float
    end: float | None = None
    outcome: str = ""
    next_take: float = float("inf")  # when the same worker took something else, so that this was ended before

    def __str__(self) -> str:
        end = "no end" if self.end is None else f"{self.outcome} {self.end:.3f}"
        return f"due {self.due:.3f} taken {self.taken:.3f} start {self.start:.3f} {end} pid {self.pid} tag {self.tag}"


@dataclass
class Process:
    """A process of the farm."""

    role: str
    many: bool  # several jobs at once
    born: float
    died: float = float("inf")
    status: int = 0  # negative: the signal that ended it


@dataclass
class Snapshot:
    """All that Redis kept of the jobs at one instant between `began` and `ended`."""

    began: float
    ended: float
    held: dict[str, dict[str, Any]]

    def pending(self, job: str) -> float | None:
        """The due time that is waited for, queued or in flight; None if there is none."""
        if job in self.held["timeline"]:
            # That of a retry is kept apart from when it is tried again.
            tried = self.held["retry_states"].get(job, "").split(" ")[3:4]
            return float(tried[0] if tried and tried != ["-"] else self.held["timeline"][job])
        if job in self.held["queued"]:
            return float(self.held["queued"][job].split(" ")[0])
        if job in self.held["running"]:
            return float(self.held["running"][job].split(" ")[3])
        return self.held_for(job)

    def held_for(self, job: str) -> float | None:
        """The due time of what is held of a paused job; None if nothing is."""
        due = self.held.get("pauses", {}).get(job, "-").split(" ")[0]
        if due == "-":
            return None
        tried = self.held["retry_states"].get(job, "").split(" ")[3:4]
        return float(tried[0] if tried and tried != ["-"] else due)

    def has_mail_of(self, parents: Collection[str]) -> bool:
        """Whether a message is still to tell the followers in another shard that one of these has ended."""
        messages = (link for link in self.held.get("followers", ()) if link.startswith(MARK))
        return any(message.split(" ", 3)[-1] in parents for message in messages)

    def counted_until(self, job: str) -> float:
        """Until when the occurrences after the one that is pending are accounted for; 0.0 if none is."""
        after = self.held["retry_states"].get(job, "").split(" ")[4:5]
        return float(after[0]) if after and after != ["-"] else 0.0

    def paused_until(self, job: str) -> float | None:
        """When the pause of a job ends by itself; None if it is not paused, or for good."""
        until = self.held.get("pauses", {}).get(job, "- - -").split(" ")[2]
        return None if until == "-" else float(until)

    def waits_until(self, job: str) -> float | None:
        """When the job must have been taken from where it is: on the timeline, that is when it is dispatched."""
        return float(self.held["timeline"][job]) if job in self.held["timeline"] else self.pending(job)

    def tag(self, job: str) -> str:
        """Of the run in flight, or ""."""
        return str(self.held["running"].get(job, "").split(" ")[0])

    def left_behind(self, job: str) -> str:
        """What was set or asked for during the run in flight, and counts in its place if that is lost; or ""."""
        record = self.held["running"].get(job, "")
        next_run = record.split(" ")[6] if record else "-"
        return "unset" if job not in self.held["schedules"] else "" if next_run == "-" else str(next_run)

    def awaited(self, job: str) -> list[float]:
        """The due time that must be run, if one is known now: what was changed during a run may take its place."""
        pending = self.pending(job)
        return [] if pending is None or self.left_behind(job) not in ("", "once") else [pending]

    def skipped(self, job: str) -> int:
        """How many of its occurrences are counted as not run."""
        return sum(int(self.held["skipped"].get(f"{why}:{job}", 0)) for why in SKIPS)

    def died(self, job: str) -> float | None:
        """The due time of the run after which the job was given up, and said so; None if it was not."""
        if not self.held["statuses"].get(job, "").startswith("DIE") or job not in self.held["failures"]:
            return None
        return float(json.loads(self.held["failures"][job])["due"])


@dataclass
class History:
    """Everything, by job and by process."""

    runs: dict[str, list[Run]] = field(default_factory=lambda: defaultdict(list))
    by_pid: dict[int, list[Run]] = field(default_factory=lambda: defaultdict(list))
    processes: dict[int, Process] = field(default_factory=dict)
    faults: list[Entry] = field(default_factory=list)
    operations: dict[str, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    segments: list[tuple[Snapshot, Snapshot]] = field(default_factory=list)
    notes: dict[str, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    remembered: list[tuple[str, float, str, int]] | None = None  # runs, by Redis: job, due time, outcome, pid
    offset: float = 0.0  # from the monotonic to Redis' clock
    drift: float = 0.0  # between the two, in seconds

    def sort(self) -> None:
        """Put everything in order of time, and find out when each worker took what came next."""
        for runs in (*self.runs.values(), *self.by_pid.values()):
            runs.sort(key=lambda run: run.start)
        for operations in self.operations.values():
            operations.sort(key=lambda entry: entry["began"])
        for pid, runs in self.by_pid.items():
            # A worker goes on with other shards while it cannot tell one of the end of a run.
            for shard in range(self.shards):
                of_one = [run for run in runs if find_shard(run.job, self.shards) == shard]
                _note_next_takes(of_one, self.processes.get(pid))

    @property
    def shards(self) -> int:
        """Among how many the jobs were divided."""
        return int(self.notes["run"][0]["options"].get("--shards", 1))

    @property
    def struck(self) -> Counter[str]:
        """How many faults of each kind there were."""
        return Counter(fault["name"] for fault in self.faults)


def read(folder: Path) -> History:
    """The history that a run has left in `folder`."""
    history = History()
    journal = entries(folder / "faults.log")
    offsets = [entry["offset"] for entry in journal if entry["kind"] == "clock"]
    history.offset, history.drift = offsets[0], max(offsets) - min(offsets)
    number = ProcessNumbers(journal)
    for entry in journal:
        _take_in(history, _shifted(number.replace(entry), history.offset))
    _note_elections(history, folder)
    for entry in entries(folder / "operations.log"):
        shifted = _shifted(entry, history.offset)
        (history.operations[entry["job"]] if entry["job"] else history.notes[entry["kind"]]).append(shifted)
    _read_runs(history, folder / "runs.log", number)
    _read_snapshots(history, folder / "snapshots.log")
    _read_remembered(history, folder / REMEMBERED)
    history.sort()
    return history


class ProcessNumbers:
    """One number for each process: an operating system gives a pid again after some ten thousand others."""

    def __init__(self, journal: Iterable[Entry]) -> None:
        self._born: dict[int, list[float]] = defaultdict(list)
        for entry in journal:
            if entry["kind"] == "start":
                self._born[entry["pid"]].append(entry["at"])

    def find(self, pid: int, at: float) -> int:
        """The number of the process that had this pid at that instant, which is the pid of the first one."""
        return pid + MORE * max(bisect(self._born[pid], at) - 1, 0)

    def replace(self, entry: Entry) -> Entry:
        """The entry with that number as its pid."""
        at = entry.get("began", entry.get("at"))
        return entry if "pid" not in entry or at is None else entry | {"pid": self.find(entry["pid"], at)}


def _note_elections(history: History, folder: Path) -> None:
    """Note as faults the takeovers that nobody ordered: of a busy machine, a server may take another one for dead."""
    ordered = [(fault["began"] - NEAR, fault["ended"] + NEAR) for fault in history.faults if fault["name"] in TAKEOVERS]
    for log in folder.glob("servers/*/log"):
        for text in ELECTION.findall(log.read_text(errors="replace")):
            at = datetime.strptime(text, "%d %b %Y %H:%M:%S.%f").timestamp()
            if not any(began <= at <= ended for began, ended in ordered):
                span = {"began": at - NEAR, "ended": at + NEAR, "since": at - NEAR, "until": at + NEAR}
                history.faults.append({"kind": "fault", "name": "takeover", **span})


def _shifted(entry: Entry, offset: float) -> Entry:
    times = {name: entry[name] + offset for name in ("began", "ended", "at", "since", "until") if name in entry}
    return entry | times


def _take_in(history: History, entry: Entry) -> None:
    if entry["kind"] == "fault":
        history.faults.append(entry)
    elif entry["kind"] == "start":
        history.processes[entry["pid"]] = Process(entry["role"], entry["many"], entry["at"])
    elif entry["kind"] == "exit":
        process = history.processes[entry["pid"]]
        process.died, process.status = entry["at"], entry["status"]
        history.notes["exit"].append(entry)
    else:
        history.notes[entry["kind"]].append(entry)


def _read_runs(history: History, path: Path, number: ProcessNumbers) -> None:
    open_runs: dict[tuple[str, str], Run] = {}
    for line in path.read_text().splitlines():
        what, time, pid, tag, *rest, job = line.split(" ")
        moment = float(time) + history.offset
        if what == "S":
            run = Run(job, float(rest[0]), tag, number.find(int(pid), float(time)), float(rest[1]), moment)
            open_runs[tag, job] = run
            history.runs[job].append(run)
            history.by_pid[run.pid].append(run)
        else:
            run = open_runs[tag, job]
            run.end, run.outcome = moment, rest[0]


def _read_remembered(history: History, path: Path) -> None:
    """What ``redbike runs`` has printed in the end."""
    if path.exists():
        rows = csv.DictReader(path.read_text().splitlines())
        history.remembered = [
            (row["jobid"], float(row["due"]), row["outcome"], int(row["worker"].split(":")[1]) if row["worker"] else 0)
            for row in rows
        ]


def key(due: float) -> int:
    """By what due times are the same: milliseconds."""
    return round(due * 1000)


def find_shard(job: str, shards: int) -> int:
    """The shard of a job whose id has neither braces nor ``@``."""
    return crc_hqx(job.encode(), 0) % SLOTS * shards // SLOTS


def _note_next_takes(runs: list[Run], process: Process | None) -> None:
    if process is None or process.many:
        return
    for run, later in zip(reversed(runs[:-1]), reversed(runs[1:]), strict=True):
        run.next_take = later.next_take if later.tag == run.tag else later.taken


def _read_snapshots(history: History, path: Path) -> None:
    start = None
    for held in entries(path):
        snapshot = Snapshot(held["began"] + history.offset, held["ended"] + history.offset, held)
        if held["kind"] == "after":
            start = snapshot
        else:
            assert start is not None
            history.segments.append((start, snapshot))
