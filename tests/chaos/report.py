"""The verdict as a table, and as what goes into JSON."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from tests.chaos.history import History, Run
from tests.chaos.verdict import Verdict

SHOWN = 8  # of each kind of what is wrong
BLOW = 1.0  # seconds between two runs that were not repeated for the same reason
UNTOLD = 30e-6  # seconds of work whose end a worker may not have told yet, beside its last run


def summary(history: History, verdict: Verdict) -> dict[str, Any]:
    """All figures, by name."""
    statuses = Counter(entry["status"] for entry in history.notes["fsck"])
    wrong: dict[str, list[str]] = dict(verdict.wrong)
    wrong["fsck"] = [entry["output"] for entry in history.notes["fsck"] if entry["status"] or entry["output"]]
    wrong["harness"] = [entry["error"] for entry in history.notes["harness"]]
    wrong["did not stop"] = [str(entry["names"]) for entry in history.notes["stubborn"]]
    return {
        "options": history.notes["run"][0]["options"],
        "impossible": {entry["name"]: entry["reason"] for entry in history.notes["impossible"]},
        "faults": dict(sorted(history.struck.items())),
        "occurrences": dict(verdict.occurrences),
        "runs": dict(verdict.runs),
        "processes": dict(Counter(process.role for process in history.processes.values())),
        "halts": len(history.notes["halt"]),
        "fsck": sum(statuses.values()),
        "lateness": lateness(verdict.lateness),
        "repeats": {reason: distribution(counts) for reason, counts in verdict.repeats.items()},
        "repeats by": repeats_by_victim(history, verdict),
        "repeated too much": wasteful(verdict),
        "wrong": wrong,
    }


def lateness(seconds: list[float]) -> dict[str, float]:
    """Percentiles of how late runs started."""
    ordered = sorted(seconds) or [0.0]
    at = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    return {name: round(ordered[int(share * (len(ordered) - 1))], 4) for name, share in at.items()}


def distribution(repeated: list[Run]) -> dict[str, int]:
    """How many runs were repeated, of how many processes, and the most of one."""
    counts = Counter(run.pid for run in repeated)
    return {"runs": len(repeated), "processes": len(counts), "most of one": max(counts.values(), default=0)}


def repeats_by_victim(history: History, verdict: Verdict) -> dict[str, dict[int, int]]:
    """For killed and for suspended workers: how many of them caused how many repeated runs."""
    died = {pid for pid, process in history.processes.items() if process.role == "worker" and process.status != 0}
    paused = {fault["pid"] for fault in history.faults if fault["name"] == "worker-pause"}
    found = {}
    for reason, pids in (("killed", died), ("paused", paused)):
        counts = Counter(run.pid for run in verdict.repeats.get(reason, []))
        found[reason] = dict(sorted(Counter(counts[pid] for pid in pids | set(counts)).items()))
    return found


def wasteful(verdict: Verdict) -> list[int]:
    """The workers that at one blow repeated more than one run, and what took next to no time before it."""
    repeated = [run for reason in ("killed", "paused") for run in verdict.repeats.get(reason, [])]
    blows: list[list[Run]] = []
    for run in sorted(repeated, key=lambda run: (run.pid, run.start)):
        if blows and blows[-1][-1].pid == run.pid and run.start - blows[-1][-1].start < BLOW:
            blows[-1].append(run)
        else:
            blows.append([run])
    return [blow[0].pid for blow in blows if sum(map(_work, blow[:-1])) > UNTOLD]


def _work(run: Run) -> float:
    return 0.0 if run.end is None else run.end - run.start


def failures(found: dict[str, Any]) -> list[str]:
    """What must be 0 and is not."""
    return [f"{len(cases)} {kind}" for kind, cases in found["wrong"].items() if cases]


def table(found: dict[str, Any]) -> str:
    """The verdict for people."""
    return "\n".join(_lines(found))


def _lines(found: dict[str, Any]) -> Iterator[str]:
    yield from _section("faults", {**found["faults"], "all": sum(found["faults"].values())})
    for name, reason in found["impossible"].items():
        yield f"  {name}: not possible here, {reason}"
    yield from _section("occurrences", found["occurrences"])
    yield from _section("runs", found["runs"])
    yield from _section("processes started", found["processes"])
    yield f"  times that all were halted: {found['halts']}; looks by fsck: {found['fsck']}"
    yield from _section("lateness of jobs left alone, in seconds", found["lateness"])
    yield from _section("repeated runs", {why: _words(counts) for why, counts in found["repeats"].items()})
    for reason, counts in found["repeats by"].items():
        told = ", ".join(f"{workers} caused {runs}" for runs, workers in counts.items())
        yield f"  workers that were {reason}, by how many runs were repeated: {told}"
    many = len(found["repeated too much"])
    yield f"  workers that repeated more than their last run and {UNTOLD * 1e6:g} µs of work: {many}"
    yield from _section("must be 0", {kind: len(cases) for kind, cases in found["wrong"].items()})
    for kind, cases in found["wrong"].items():
        yield from _shown(kind, cases)


def _section(title: str, figures: dict[str, Any]) -> Iterable[str]:
    width = max(map(len, figures), default=0)
    return [f"{title}:", *(f"  {name:<{width}}  {figure}" for name, figure in figures.items())]


def _words(counts: dict[str, int]) -> str:
    return f"{counts['runs']} of {counts['processes']} processes, at most {counts['most of one']} of one"


def _shown(kind: str, cases: list[str]) -> Iterator[str]:
    for case in cases[:SHOWN]:
        yield f"\n{kind}: {case}"
    if len(cases) > SHOWN:
        yield f"\n{kind}: … and {len(cases) - SHOWN} more"
