"""Groups, backfills and blackouts, by the notes of those who asked for them and by the runs that workers have noted.

- A group: each of its jobs has run, and what follows it has run once since then for each time that it was asked for.
- A backfill: each of its occurrences has run, and what follows each. That none runs twice is judged as for all jobs.
- A blackout: in the end, when nothing is in the way, none of its jobs runs during it. What it holds counts as skipped.
"""

from collections.abc import Iterator

from tests.chaos.excuses import Excuses
from tests.chaos.history import Entry, History
from tests.chaos.verdict import Verdict, told

MEMBERS = 20  # jobs of a group
HOUR, FIRST, NUMBER = 3600, 1_790_002_800, 24  # the occurrences of a backfill: seconds, the first one, how many
DARK, BETWEEN, LASTS = 20, 20, 8  # jobs with a blackout; seconds from one to the next, how long each lasts
BLACKOUT = f"* * * * * */{BETWEEN}"
LATE = 5.0  # seconds until a dispatcher has surely begun one


def list_members(then: str) -> list[str]:
    """The jobs of the group that the job `then` follows."""
    return [then.replace("-then", "-member").replace(":", f"-{number}:") for number in range(MEMBERS)]


def name_child(base: str) -> str:
    """The job that follows one that has a backfill."""
    return base.replace("-base", "-child")


def list_dark() -> list[tuple[str, str]]:
    """The jobs with a blackout, and their schedules."""
    return [(f"fast.dark.{number}:A", f"EVERY:4s@{number / 5}") for number in range(DARK)]


def judge_sets(history: History, verdict: Verdict, excuses: Excuses) -> None:
    """Judge all of them."""
    for job, operations in sorted(history.operations.items()):
        asked = [entry for entry in operations if entry["kind"] in ("group", "backfill")]
        last = asked[-1] if asked else {"answer": "unknown"}
        if last["answer"] == "ok" and not excuses.is_forgotten(last["ended"]):
            judge = _judge_group if last["kind"] == "group" else _judge_backfill
            verdict.occurrences[f"{last['kind']}s"] += 1
            for problem in judge(history, excuses, verdict, job, asked):
                verdict.wrong["lost"].append(told(history, job, last["ended"], problem))
    _judge_blackouts(history, verdict)


def _judge_group(history: History, excuses: Excuses, verdict: Verdict, then: str, asked: list[Entry]) -> Iterator[str]:
    ran = {job: [run for run in history.runs.get(job, ()) if run.outcome == "done"] for job in list_members(then)}
    missing = [job for job, runs in ran.items() if not runs]
    dues = {round(run.due, 3) for run in history.runs.get(then, ())}
    if missing:
        yield f"of its group {len(missing)} were not run: {missing[:5]}"
    if not any(run.outcome == "done" for run in history.runs.get(then, ())):
        yield "its group has ended, but it was not run"
    since = [begun for begun, _ in excuses.forgotten if begun > asked[0]["began"] - 60]
    if len(dues) > len(asked) + len(since):
        yield f"it was run {len(dues)} times, but asked for {len(asked)} times"
    last = max((min(run.end or 0.0 for run in runs) for runs in ran.values() if runs), default=0.0)
    if len(asked) == 1 and not since and history.runs.get(then) and history.runs[then][0].taken < last:
        yield "it was run before all of its group had ended"
    verdict.occurrences["jobs of groups"] += MEMBERS - len(missing)


def _judge_backfill(
    history: History, excuses: Excuses, verdict: Verdict, base: str, asked: list[Entry]
) -> Iterator[str]:
    for job in (base, name_child(base)):
        runs = [run for each, found in history.runs.items() if each.startswith(f"{job}@") for run in found]
        done = {round(run.due) for run in runs if run.outcome == "done"}
        missing = [due for due in range(FIRST, FIRST + NUMBER * HOUR, HOUR) if due not in done]
        others = {round(run.due) for run in runs} - set(range(FIRST, FIRST + NUMBER * HOUR, HOUR))
        if missing or others:
            yield f"of the backfill of {job} were not run: {missing[:5]}; were run: {sorted(others)[:5]}"
        verdict.occurrences["backfilled"] += NUMBER - len(missing)


def _judge_blackouts(history: History, verdict: Verdict) -> None:
    calm = max((entry["at"] for entry in history.notes["calm"]), default=float("inf")) + BETWEEN / 2
    for job, _ in list_dark():
        for run in history.runs.get(job, ()):
            verdict.occurrences["run between blackouts"] += 1
            if run.taken > calm and LATE < run.taken % BETWEEN < LASTS:
                verdict.wrong["paused"].append(told(history, job, run.taken, "it ran during a blackout"))
