"""Type checkers: one run of mypy over all code that users may begin with, and over mistakes that it has to find."""

import os
import shutil
import subprocess
import sys
from collections import defaultdict

import pytest

from tests.commandline import ROOT
from tests.pages import PAGES, list_programs

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

PROGRAM = """
import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from croniter import croniter
from dateutil.rrule import DAILY, rrule, rruleset

import redbike
from redbike import (
    Again, AsyncRedbike, AsyncResults, End, EventName, InstantLike, JobDetails, JobHandle, JobOptions, Jobs, Limit,
    Limits, PastRun, PauseDetails, QueueLimits, Redbike, Results, RoundRobin, Run, RunDetails, ScheduleLike,
    ServerError, Settings, Source, Steered, WorkerClass, ZoneLike, current_run,
)


class Own:
    def queue_for(self, jobid: str) -> str:
        return "own"

    def queue_names(self) -> Iterable[str]:
        return ["own"]

    async def work(self, jobid: str, data: object) -> None:
        run: Run = current_run()
        if run.attempt < 2:
            raise Again(after=5, reason="not yet")

    def timeout(self, queue_name: str) -> float | None:
        return None

    def ended(self, run: Run, end: End) -> None:
        print(run.jobid, end.event, end.error)

    def limits(self) -> dict[str, Limit]:
        return {"own": Limit(at_once=3, rate="5/s")}


def schedule(bike: Redbike, when: ScheduleLike, after: InstantLike, tz: ZoneLike, rows: Source) -> None:
    options: JobOptions = {"timeout": "5m", "on_error": "retry"}
    bike.set("job:A", when, after, tz, **options)
    bike.set("job:A", timedelta(hours=1), retries=3, data={"any": ["JSON"]})
    bike.set("job:A", datetime.now(UTC), after=5)
    bike.set("job:A", rrule(DAILY), tz=ZoneInfo("Europe/Berlin"))
    bike.set("job:A", rruleset(), tz=UTC)
    bike.enter("job:A", croniter("0 3 * * *"))
    pairs: list[tuple[str, ScheduleLike | None]] = [("a", "NOW"), ("b", timedelta(1)), ("c", None)]
    results: Results[tuple[str, bool | ValueError]] = bike.set_many(pairs)
    bike.set_many([("d", "NOW", {"retries": 3, "data": [1]}), ("e", timedelta(1)), ("f", None)]).close()
    refused: list[str] = [jobid for jobid, result in results if result is not True]
    for line, jobid, result in bike.load(rows):
        print(line, refused, jobid, result)
    steered: list[Steered] = bike.pause("*", until=datetime.now(UTC))
    limits: Limits = {"at_once": 5}
    limited: QueueLimits = bike.limit("A", **limits)
    print(steered, limited.rate, bike.agenda().densest, bike.health().problems)


def look(bike: Redbike) -> None:
    told: JobDetails = bike.tell("job:A")
    next_run: float | None = told["next_run"]
    runs: list[RunDetails] = told.get("runs", [])
    pause: PauseDetails | None = told.get("paused")
    print(next_run, [run["outcome"].name for run in runs], pause and pause["until"])


jobs = Jobs()


@jobs.job("double")
def double(number: int) -> int:
    return 2 * number


def wait(bike: Redbike, status: EventName) -> PastRun:
    handle: JobHandle = double.enqueue(4)
    events: list[EventName] = [event for _, event, _ in bike.get_statuses() if event == status or event == "DIE"]
    print(events, [job.jobid for name in events for job in bike.jobs(status=name)], bike.jobs(status=redbike.Event.DIE))
    return handle.wait(timeout=5)


async def wait_in_loop() -> PastRun:
    handle = await double.enqueue(4)
    return await handle.wait(timeout=5)


def work() -> None:
    workers: list[WorkerClass] = [Own(), RoundRobin("A")]
    for worker in workers:
        with Redbike(worker, timezone="Europe/Berlin", redis_config={"host": "localhost"}) as bike:
            schedule(bike, "NOW", 0, "UTC", Path("jobs.csv"))
            settings: Settings = bike.settings
            try:
                bike.work(concurrency=2)
            except ServerError as error:
                print(error, settings.timezone)
            bike.stop()


async def main() -> None:
    async with AsyncRedbike(Own(), on_error="stop") as bike:
        loops = [asyncio.create_task(bike.dispatch()), asyncio.create_task(bike.work(5))]
        is_set: bool = await bike.set("job:A", timedelta(days=1), retries=3, tz="UTC")
        set_: AsyncResults[tuple[str, bool | ValueError]] = bike.set_many([("a", "NOW")])
        async for jobid, result in set_:
            print(jobid, result, is_set)
        runs: list[PastRun] = await bike.runs(since=datetime.now(UTC))
        async for event in bike.events():
            print(event, runs)
            break
        for loop in loops:
            loop.cancel()
    print(redbike.__version__)
"""
MISTAKES = {
    'bike.set("job:A", 7)': "incompatible type",
    'bike.set("job:A", "NOW", retreis=3)': 'Unexpected keyword argument "retreis"',
    'bike.set("job:A", "NOW", retries="three")': "incompatible type",
    'bike.set("job:A", "NOW", after="2030")': "incompatible type",
    'bike.set("job:A", "NOW", on_error="retyr")': "incompatible type",
    'bike.set("job:A", "NOW", overlap="stop")': "incompatible type",
    'bike.set("job:A", "NOW", tz=7)': "incompatible type",
    'bike.limit("A", at_onse=3)': 'Unexpected keyword argument "at_onse"',
    "bike.nothing()": 'has no attribute "nothing"',
}
CALLS = {False: "def act(bike: Redbike)", True: "async def act(bike: AsyncRedbike)"}
# What is wrong with a key of `tell`.
TOLD = {
    '["nextrun"]': '"nextrun" is not a valid TypedDict key',
    '["next_run"] + 5': "Unsupported operand types for +",
    '["paused"]["untill"]': '"untill" is not a valid TypedDict key',
    '["runs"][0]["outcome"] + 5': "Unsupported operand types for +",
}
WRONG = {
    "Redbike(RoundRobin('A'), on_eror='stop')": 'Unexpected keyword argument "on_eror"',
    "Redbike(RoundRobin('A'), on_lost='retry')": "incompatible type",
    "redbike.Redbik": 'Module has no attribute "Redbik"',
    "Redbike(RoundRobin('A')).jobs(status='DYE')": "incompatible type",
    "[event == 'DYE' for _, event, _ in Redbike(RoundRobin('A')).get_statuses()]": "Non-overlapping equality check",
    "redbike.Jobs().job('a')(len).enqueue(5)": 'Argument 1 to "enqueue"',
    "redbike.Jobs().job('a')(len).set('k', 'NOW', [], size=3)": '"size" for "set"',
    "redbike.Jobs().job('a')(len).options(after=[])": 'Argument "after" to "options"',
    "redbike.Jobs().job('a')(len)([], 2)": "Too many arguments",
    "redbike.Jobs().job('a')(len)([]) + 'b'": "Unsupported operand types for +",
    "redbike.Jobs().job('a', every='1h', retry=3)": 'keyword argument "retry"',
    "redbike.Jobs().job('a', cron=7)": 'Argument "cron"',
    "redbike.JobHandle('a').wait().outcom": '"PastRun" has no attribute "outcom"',
    "async def act(a: redbike.JobHandle) -> None: print((await a).wait().outcome)": 'has no attribute "outcome"',
}
# What is to be as short as can be has no annotations of its own.
UNTYPED = dict.fromkeys(("first-steps", "python"), "# mypy: allow-untyped-defs, allow-untyped-calls\n")
# These import what has no types: a class of Django, and the folder of the project.
OF_DJANGO = {"worker.py", "shop/management/commands/set_jobs.py", "shop/tests.py", "shop/views.py"}


# What other programs of the pages import.
IMPORTED = {
    ("fastapi", "main.py"),
    ("first-steps", "tour.py"),
    ("integrations", "shipping.py"),
    *(("jobs", name) for name in ("app.py", "billing.py", "cleaning.py", "registry.py")),
    ("testing", "signup.py"),
}


def write_pages(folder):
    """The programs of the pages, each under a name of its own, but for those that others import."""
    for page in PAGES:
        for name, blocks in list_programs(page).items():
            if page == "django" and name in OF_DJANGO:
                continue
            own = name if (page, name) in IMPORTED else f"{page}_{name}".replace("-", "_").replace("/", "_")
            (folder / own).write_text(UNTYPED.get(page, "") + "\n\n\n".join(block.text for block in blocks) + "\n")


def test_what_users_begin_with_is_typed_and_their_mistakes_are_found(tmp_path):
    write_pages(tmp_path)
    for path in (ROOT / "examples" / "programs").glob("*.py"):
        shutil.copy(path, tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)
    said = {"wrong.py": [*WRONG.values()]}
    lines = "\n".join(WRONG)
    (tmp_path / "wrong.py").write_text(f"import redbike\nfrom redbike import Redbike, RoundRobin\n{lines}\n")
    for is_async, begin in CALLS.items():
        name = f"wrong_{is_async}.py"
        lines = "".join(f"    {'await ' if is_async else ''}{mistake}\n" for mistake in MISTAKES)
        told = "(await bike.tell('a'))" if is_async else "bike.tell('a')"
        lines += "".join(f"    {told}{mistake}\n" for mistake in TOLD)
        (tmp_path / name).write_text(f"from redbike import AsyncRedbike, Redbike\n{begin} -> None:\n{lines}")
        said[name] = [*MISTAKES.values(), *TOLD.values()]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "."],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    found = defaultdict(list)
    for line in done.stdout.splitlines():
        # Dateutil and croniter have no stubs here.
        if ": error: " in line and "import-untyped" not in line:
            found[line.partition(":")[0]].append(line)
    assert {name: lines for name, lines in found.items() if name not in said} == {}, done.stderr
    for name, errors in said.items():
        assert len(found[name]) == len(errors), found[name]
        for line, error in zip(found[name], errors, strict=True):
            assert error in line
