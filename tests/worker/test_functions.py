"""Workers made of functions."""

import csv
import inspect
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from redbike import BadConfig, BadJobId, BadQueueName, BadSchedule, Jobs, Limit, Redbike, current_run
from redbike.cli.load import set_schedules
from redbike.loop.queues import apply_limits
from redbike.loop.worker_class import RoundRobin
from redbike.worker.loader import load_placer, load_worker
from tests.commandline import ROOT
from tests.loops import raising
from tests.waiting import wait_until


@pytest.fixture
def jobs():
    return Jobs()


@pytest.fixture
def bike(client, prefix, jobs):
    return Redbike(jobs, prefix, client)


def set_some():
    """A function for a job."""


def set_all(bike):
    for jobid, schedule, options in bike.worker.schedules():
        assert bike.set(jobid, schedule, **options)


def test_a_function_is_given_what_its_parameters_name(bike, jobs):
    calls = []

    @jobs.job("bare", schedule="NOW")
    def bare():
        calls.append("bare")

    @jobs.job("named", schedule="NOW")
    def named(jobid):
        calls.append(jobid)

    @jobs.job("informed", schedule="NOW", data={"a": [1]})
    def informed(data, jobid, *more, folder="/srv", **others):
        calls.append((jobid, data, more, folder, others))

    @jobs.job("data", schedule="NOW")
    def only_data(*, data):
        calls.append(data)

    @jobs.job("async", schedule="NOW", data=7)
    async def asynchronous(jobid, data):
        calls.append((jobid, data, current_run().jobid))

    set_all(bike)
    while bike.work_one():
        pass
    assert calls == ["bare", "named", ("informed", {"a": [1]}, (), "/srv", {}), None, ("async", 7, "async")]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda jobid, data, more: None, "has 'data' and the parameter 'more' without a default: have only one"),
        (eval("lambda jobid, /: None"), "parameter 'jobid', which cannot be given by its name"),  # noqa: S307
        (lambda: (yield), "has a yield"),
        (7, "a job is a function, not 7"),
        (Jobs, "a job is a function, not <class"),
    ],
)
def test_what_cannot_be_called_is_refused_where_it_is_decorated(jobs, function, said):
    with pytest.raises(TypeError, match=said):
        jobs.job("backup", every="1h")(function)
    assert jobs.schedules() == []
    # The decorator without an id says how it is written.
    with pytest.raises(TypeError, match=r'@job\("set_some"\)'):
        jobs.job(set_some)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"every": 900}, "EVERY:900"),
        ({"every": 0.5}, "EVERY:0.5"),
        ({"every": "1h30m"}, "EVERY:1h30m"),
        ({"every": timedelta(minutes=1, milliseconds=1)}, "EVERY:60.001"),
        ({"every": "1h", "tz": "Europe/Berlin"}, "EVERY:1h"),
        ({"cron": "0 3 * * *"}, "0 3 * * *"),
        ({"cron": "0 3 * * *", "tz": "Europe/Berlin"}, "CRON_TZ=Europe/Berlin 0 3 * * *"),
        ({"cron": "0 3 * * *", "tz": "UTC"}, "CRON_TZ=UTC 0 3 * * *"),
        ({"cron": "@daily", "tz": ZoneInfo("Asia/Tokyo")}, "CRON_TZ=Asia/Tokyo @daily"),
        ({"rrule": "FREQ=DAILY;COUNT=3"}, "FREQ=DAILY;COUNT=3"),
        (
            {"rrule": "DTSTART:20260101T080000\nRRULE:FREQ=DAILY", "tz": "Europe/Berlin"},
            "DTSTART;TZID=Europe/Berlin:20260101T080000\nRRULE:FREQ=DAILY",
        ),
        ({"at": 1798761600}, "AT:1798761600"),
        ({"at": "2027-01-01T00:00", "tz": "Europe/Berlin"}, "AT:2026-12-31T23:00:00Z"),
        ({"at": datetime(2027, 1, 1, tzinfo=UTC)}, "AT:2027-01-01T00:00:00+00:00"),
        ({"schedule": "CONTINUE"}, "CONTINUE"),
    ],
)
def test_each_kind_of_schedule_becomes_its_text(jobs, given, text):
    jobs.job("backup", data={"a": [1]}, **given)(lambda: None)
    [(_, _, copied)] = jobs.schedules()
    copied["data"]["a"].append(2)
    copied["timeout"] = 5
    assert jobs.schedules() == [("backup", text, {"data": {"a": [1]}})]


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"every": "soon"}, BadSchedule, "job 'backup': bad duration 'soon'"),
        ({"every": True}, BadSchedule, "bad duration 'True'"),
        ({"cron": "0 0 30 2 *"}, BadSchedule, "job 'backup': bad cron '0 0 30 2 \\*'"),
        ({"cron": "FREQ=DAILY"}, BadSchedule, "'FREQ=DAILY': it is a schedule of another kind"),
        ({"rrule": "@daily"}, BadSchedule, "'@daily': it is a schedule of another kind"),
        ({"rrule": "FREQ=DAILY", "tz": "Europe/Berlin"}, BadSchedule, "a rule with a tz needs a line such as 'DTSTART"),
        ({"schedule": "sometimes"}, BadSchedule, "'sometimes'"),
        ({"schedule": 7}, TypeError, "a schedule is a text"),
        ({"cron": "@daily", "tz": "Mars/Base"}, BadConfig, "bad timezone 'Mars/Base'"),
        ({"tz": "Europe/Berlin"}, TypeError, "tz is given, but no schedule"),
        ({"at": datetime(2027, 1, 1)}, TypeError, "is naive: give it a time zone"),
        ({"every": "1h", "cron": "@daily"}, TypeError, "every and cron are given"),
        ({"every": "1h", "retries": "many"}, BadConfig, "bad retries 'many'"),
        ({"every": "1h", "retry": 3}, TypeError, "unexpected option 'retry'"),
        ({"every": "1h", "queue": "a:b"}, BadQueueName, "bad queue 'a:b'"),
        ({"spread": "1h"}, BadConfig, "it has no schedule here, so 'spread' is to be set with each of its jobs"),
        ({"data": 7}, BadConfig, "'data' is to be set with each of its jobs"),
    ],
)
def test_what_is_wrong_is_told_where_it_is_decorated(jobs, given, error, said):
    with pytest.raises(error, match=said):
        jobs.job("backup", **given)
    assert jobs.queue_names() == []


def test_bad_ids_one_that_is_there_twice_and_bad_arguments_are_refused(jobs):
    with pytest.raises(BadJobId, match="control characters"):
        jobs.job("back\nup", every="1h")
    with pytest.raises(BadJobId, match="names a queue"):
        jobs.job("backup:", every="1h")
    add = jobs.job("backup", every="1h")
    assert add(set_some).__wrapped__ is set_some
    with pytest.raises(BadConfig, match=r"'backup' is there twice: for set_some\(\) and for \S+<lambda>\(\)"):
        add(lambda: None)
    with pytest.raises(BadConfig, match="bad concurrency 0"):
        Jobs(concurrency=0)
    with pytest.raises(BadConfig, match=r"limits\(\) returned 5 for the queue 'mail'"):
        Jobs(limits={"mail": 5})


def test_a_function_works_the_jobs_that_begin_with_its_name(bike, jobs):
    calls = []
    jobs.job("remind")(lambda jobid, data: calls.append((jobid, data)))
    jobs.job("remind:boss", schedule="NOW")(lambda: calls.append("boss"))
    queues = {"remind": "work-remind", "remind:a:b": "work-remind", "remind:boss": "work-boss"}
    assert {jobid: jobs.queue_for(jobid) for jobid in queues} == queues
    set_all(bike)
    bike.set("remind:anna", "NOW", data=1)
    bike.set("remind", "NOW")
    while bike.work_one():
        pass
    assert sorted(calls, key=repr) == ["boss", ("remind", None), ("remind:anna", 1)]


def test_a_job_without_a_function_fails_and_names_those_that_there_are(bike, jobs):
    assert jobs.queue_names() == []
    with pytest.raises(BadQueueName, match="there is no function yet"):
        jobs.queue_for("backup")
    jobs.job("backup")(lambda: None)
    jobs.job("remind", queue="A")(lambda: None)
    # Somebody else has set it, or its function is gone.
    other = Jobs()
    other.job("remnd", queue="backup")(lambda: None)
    Redbike(other, bike.prefix, bike.client).set("remnd:anna", "NOW")
    assert bike.work_one() == "remnd:anna"
    [failure] = bike.failures()
    assert failure["error"] == "no function for the job 'remnd:anna': there are functions for 'backup', 'remind'"
    assert failure["traceback"] == ""


def test_queues_are_those_of_stock_workers_unless_they_are_named(jobs):
    jobs.job("backup", every="1h")(lambda: None)
    jobs.job("mail", queue="slow", timeout="5m")(lambda: None)
    jobs.job("report:A", every="1h", queue="slow", timeout=20)(lambda: None)
    jobs.job("check:A", every="1h", timeout=None)(lambda: None)
    assert list(jobs.queue_names()) == ["work-backup", "work-slow", "work-A"]
    assert [jobs.timeout(name) for name in jobs.queue_names()] == [None, 300.0, None]
    # Those who know nothing of the functions find the same queue for what is scheduled in code.
    assert jobs.queue_for("backup") == RoundRobin("A").queue_for("backup")


def test_options_of_a_function_hold_for_its_jobs_unless_they_have_their_own(bike, jobs):
    jobs.job("upload", retries=1, backoff="1h")(raising(OSError("no luck")))
    bike.set("upload:a", "NOW")
    bike.set("upload:b", "NOW", retries=0)
    for _ in range(2):
        bike.work_one()
    assert bike.tell("upload:a")["status"].startswith("TML:")
    assert bike.tell("upload:a")["next_run"] == pytest.approx(bike.store.timeline.read_clock() + 3600, abs=60)
    assert bike.tell("upload:b")["status"].startswith("DIE:")


def test_after_a_failure_a_recurring_job_goes_on_and_a_one_off_is_stopped(bike, jobs):
    @jobs.job("often", every="1h")
    @jobs.job("once", at=0)
    @jobs.job("strict", every="1h", on_error="stop")
    def fails():
        raise OSError("no luck")

    set_all(bike)
    for jobid in ("often", "strict"):
        bike.run(jobid)
    for _ in range(3):
        assert bike.work_one()
    events = {jobid: event for jobid, event, _ in bike.get_statuses()}
    assert events == {"often": "TML", "once": "DIE", "strict": "DIE"}


def test_limits_of_queues_hold(client, prefix):
    jobs = Jobs(limits={"mail": Limit(at_once=1)})
    assert jobs.limits() == {"mail": Limit(at_once=1)}
    jobs.job("mail")(lambda: None)
    bike = Redbike(jobs, prefix, client)
    apply_limits(bike.store, jobs, jobs.queue_names())
    assert [(limits.queue, limits.at_once) for limits in bike.queue_limits()] == [("work-mail", 1)]


PROGRAM = """
import sys

from redbike import Jobs, Redbike

jobs = Jobs()
nothing = object()

@jobs.job("hello", every="1h", timeout="5s")
def hello():
    print("hello!", flush=True)

@jobs.job("greet")
async def greet(jobid, data):
    print("hello", jobid, data, flush=True)

class Mine(Jobs):
    pass
"""


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """A folder, which is the current one, with a program."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "program_of_functions", raising=False)
    (tmp_path / "program_of_functions.py").write_text(PROGRAM)


def test_an_instance_is_taken_as_it_is(saved):
    worker = load_worker("program_of_functions:jobs")
    assert load_placer("program_of_functions:jobs", None, RoundRobin) is worker
    assert worker is sys.modules["program_of_functions"].jobs
    assert isinstance(load_worker("program_of_functions:Mine(concurrency=2)"), Jobs)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("jobs()", "jobs is an instance, which takes no arguments: 'program_of_functions:jobs' names it"),
        ("jobs('A')", "jobs is an instance, which takes no arguments"),
        ("hello", "has no class 'hello'"),
        ("hello()", "has no class 'hello'"),
        ("nothing", "has no class 'nothing'"),
        ("sys", "has no class 'sys'"),
        ("jobs.job('x')", "is needed"),
    ],
)
def test_what_is_no_instance_of_a_worker_is_refused_and_not_called(saved, capfd, name, said):
    for load in (load_worker, lambda spec: load_placer(spec, None, RoundRobin)):
        with pytest.raises(BadConfig, match="bad worker 'program_of_functions:") as refused:
            load(f"program_of_functions:{name}")
        assert said in str(refused.value)
    assert capfd.readouterr().out == ""


def test_what_is_started_says_if_it_has_no_schedules_or_takes_jobs_from_other_groups(client, prefix, jobs, capsys):
    jobs.job("remind")(lambda: None)
    set_schedules(Redbike(jobs, prefix, client), "app:jobs")
    assert capsys.readouterr().err == "redbike: app:jobs: none of its functions has a schedule\n"
    for name in ("one", "two", "three"):
        jobs.job(name, every="1h")(lambda: None)
    bike = Redbike(jobs, prefix=prefix, redis_config=client)
    bike.sync([("one", "EVERY:1h"), ("two", "EVERY:1h")], group="old")
    bike.set("three", "EVERY:1h")
    set_schedules(bike, "app:jobs")
    said = "redbike: app:jobs: took over 2 jobs, such as 'one', from the group 'old'\n"
    assert said in capsys.readouterr().err
    set_schedules(bike, "app:jobs")
    assert "took over" not in capsys.readouterr().err


def test_one_command_runs_a_program_and_sets_its_schedules(shell):
    (shell.folder / "app.py").write_text(PROGRAM)
    up = shell.start("up", "app:jobs")
    wait_until(lambda: "redbike: app:jobs: 1 added" in shell.log(), 30)
    wait_until(lambda: "works work-hello, work-greet" in shell.log(), 30)
    # What is scheduled in code has its queue from its id: every command finds it, also without a config file.
    assert shell.run("run", "hello").returncode == 0
    wait_until(lambda: "hello!" in shell.log())
    (shell.folder / ".redbike.conf").write_text("[redbike]\nworker: app:jobs\n")
    assert shell.run("set", "greet:anna", "NOW", "--data=7").returncode == 0
    wait_until(lambda: "hello greet:anna 7" in shell.log())
    up.terminate()
    assert up.wait(timeout=30) == 0
    rows = csv.DictReader(shell.run("schedules", "--full").stdout.splitlines())
    [row] = (row for row in rows if row["jobid"] == "hello")
    assert {name: text for name, text in row.items() if text and name not in ("jobid", "schedule")} == {"timeout": "5"}


@pytest.mark.acceptance
def test_up_takes_back_what_an_option_was_and_leaves_what_is_unchanged(shell):
    (shell.folder / "app.py").write_text(PROGRAM)
    (shell.folder / "jobs.csv").write_text("jobid,schedule,timeout,retries\nhello,EVERY:1h@5,9,2\n")
    assert shell.run("load", "jobs.csv").returncode == 0
    assert shell.run("pause", "hello").returncode == 0
    up = shell.start("up", "app:jobs")
    wait_until(lambda: "redbike: app:jobs: 1 changed" in shell.log(), 30)
    wait_until(lambda: "works work-hello, work-greet" in shell.log(), 30)
    up.terminate()
    assert up.wait(timeout=30) == 0
    told = Redbike(RoundRobin("A"), redis_config=shell.environment["REDBIKE_URL"]).tell("hello")
    assert told["schedule"] == "EVERY:1h@5"
    assert told["options"] == {"timeout": 5}
    assert told["paused"]


def test_a_mistake_in_a_program_is_one_line(shell):
    (shell.folder / "app.py").write_text(PROGRAM.replace('every="1h"', 'every="often"'))
    done = shell.run("up", "app:jobs")
    said = "importing app fails: BadSchedule: job 'hello': bad duration 'often': 900, 15m, 1h30m, 1.5h or 2d is needed"
    assert (done.returncode, done.stderr) == (2, f"redbike: bad worker 'app:jobs': {said}\n")


TYPED = """
from redbike import AsyncRedbike, Jobs, Redbike

jobs = Jobs()

@jobs.job("backup", every="1h", timeout="60s")
def backup(folder: str = '/srv') -> int:
    return len(folder)

@jobs.job("remind", retries=3)
async def remind(jobid: str, data: dict[str, str]) -> None:
    print(jobid, data)

def start() -> None:
    for jobid, schedule, options in jobs.schedules():
        Redbike(jobs).set(jobid, schedule, **options)

reveal_type(backup)
reveal_type(remind)
backup.options(after="30s", retries=3, bike=Redbike(jobs)).enqueue("/srv")
backup.options(key=7, bike=AsyncRedbike(jobs)).set("ann", "@daily", folder="/srv")
backup.enqueue(5)
backup.set("ann", "NOW", size=3)
backup.options(after=[])
jobs.job("backup", every="1h", retry=3)
jobs.job("other", cron=7)
backup(1, 2)
"""


@pytest.mark.acceptance
def test_a_type_checker_knows_the_function_and_the_options(tmp_path):
    (tmp_path / "typed.py").write_text(TYPED)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "typed.py"]
    environment = {"MYPYPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "JobFunction[[folder: str =], int]" in done.stdout
    assert "JobFunction[[jobid: str, data: dict[str, str]], typing.Coroutine[Any, Any, None]]" in done.stdout
    wrong = [line for line in done.stdout.splitlines() if ": error" in line]
    said_once = ('argument "retry"', 'Argument "cron"', 'Argument 1 to "__call__"', "Too many", '"size" for "set"')
    for said in (*said_once, 'Argument 1 to "enqueue"', '"after" to "options"'):
        wrong.remove(next(line for line in wrong if said in line))
    assert wrong == []


def test_everything_that_a_signature_names_is_documented():
    for name, member in inspect.getmembers(Jobs, inspect.isfunction):
        assert name.startswith("_") or member.__doc__, name
