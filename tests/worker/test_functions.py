"""Workers made of functions."""

import csv
import functools
import inspect
import logging
import sys
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from redbike import BadConfig, BadJobId, BadQueueName, BadSchedule, Jobs, Limit, Redbike, current_run
from redbike.cli.load import set_schedules
from redbike.loop.queues import Queues
from redbike.loop.worker_class import RoundRobin
from redbike.worker.hooks import Hooks
from redbike.worker.loader import load_placer, load_worker
from tests.loops import raising
from tests.waiting import wait_until


class Yielding:
    def __call__(self):
        yield


@pytest.fixture
def jobs():
    return Jobs()


@pytest.fixture
def bike(client, prefix, jobs):
    return Redbike(jobs, prefix, client)


def set_all(bike):
    for jobid, schedule, options in bike.worker.schedules():
        assert bike.set(jobid, schedule, **options)


def test_a_function_is_given_what_its_parameters_name(bike, jobs):
    calls = []
    jobs.job("remind")(lambda jobid, data: calls.append((jobid, data)))

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

    # It works all jobs that begin with its name, unless another one has more of the id.
    jobs.job("remind:boss", schedule="NOW")(lambda: calls.append("boss"))
    queues = {
        "remind": "work-remind",
        "remind:a:b": "work-remind",
        "remind:boss": "work-boss",
        "remind:boss:a": "work-boss",
    }
    assert {jobid: jobs.queue_for(jobid) for jobid in queues} == queues
    set_all(bike)
    bike.set("remind:anna", "NOW", data=1)
    while bike.work_one():
        pass
    given = [("informed", {"a": [1]}, (), "/srv", {}), None, ("async", 7, "async"), "boss", ("remind:anna", 1)]
    assert sorted(calls, key=repr) == sorted(["bare", "named", *given], key=repr)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"every": 900}, "EVERY:900"),
        ({"every": "1h30m"}, "EVERY:1h30m"),
        ({"every": 10 / 3}, "EVERY:3.333333"),
        ({"every": timedelta(minutes=1, milliseconds=1)}, "EVERY:60.001"),
        ({"every": "1h", "tz": "Europe/Berlin"}, "EVERY:1h"),
        ({"schedule": "IN:2h", "tz": "Europe/Berlin"}, "IN:2h"),
        ({"cron": "0 3 * * *"}, "0 3 * * *"),
        ({"cron": "0 3 * * *", "tz": "Europe/Berlin"}, "CRON_TZ=Europe/Berlin 0 3 * * *"),
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
    [(jobid, schedule, options)] = jobs.schedules()
    assert (jobid, schedule, options.pop("data")) == ("backup", text, {"a": [1]})
    assert set(options.values()) == {None}


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"every": "soon"}, BadSchedule, "job 'backup': bad duration 'soon'"),
        ({"cron": "0 0 30 2 *"}, BadSchedule, "job 'backup': bad cron '0 0 30 2 \\*'"),
        ({"cron": "FREQ=DAILY"}, BadSchedule, "'FREQ=DAILY': it is a schedule of another kind"),
        ({"rrule": "@daily"}, BadSchedule, "'@daily': it is a schedule of another kind"),
        ({"rrule": "FREQ=DAILY", "tz": "Europe/Berlin"}, BadSchedule, "a rule with a tz needs a line such as 'DTSTART"),
        ({"schedule": "sometimes"}, BadSchedule, "'sometimes'"),
        ({"schedule": 7}, TypeError, "a schedule is a text"),
        ({"tz": "Europe/Berlin"}, TypeError, "tz is given, but no schedule"),
        ({"at": datetime(2027, 1, 1)}, TypeError, "is naive: give it a time zone"),
        ({"every": "1h", "cron": "@daily"}, TypeError, "every and cron are given"),
        ({"every": "1h", "retries": "many"}, BadConfig, "bad retries 'many'"),
        ({"every": "1h", "retry": 3}, TypeError, "unexpected option 'retry'"),
        ({"every": "1h", "queue": "a:b"}, BadQueueName, "bad queue 'a:b'"),
        ({"spread": "1h"}, BadConfig, "@job gives it no schedule, so give 'spread' when you set a job of it"),
        # What cannot be called as a job.
        (lambda jobid, data, more: None, TypeError, "has 'data' and the parameter 'more' without a default: have only"),
        (lambda jobid, /: None, TypeError, "parameter 'jobid', which cannot be passed by its name"),
        (lambda: (yield), TypeError, "has a yield"),
        (Yielding(), TypeError, r"Yielding\(\) has a yield"),
        (7, TypeError, "a job is a function, not 7"),
    ],
)
def test_what_is_wrong_is_told_where_it_is_decorated(jobs, given, error, said):
    with pytest.raises(error, match=said):
        jobs.job("backup", **given) if isinstance(given, dict) else jobs.job("backup", every="1h")(given)
    assert (jobs.queue_names(), jobs.schedules()) == ([], [])


def test_bad_ids_one_that_is_there_twice_and_bad_arguments_are_refused(jobs):
    wrong = {
        "back\nup": "control characters",
        "backup:": "names a queue",
        "backup@all": "no job of a function runs on ev",
    }
    for jobid, said in wrong.items():
        with pytest.raises(BadJobId, match=said):
            jobs.job(jobid, every="1h")
    # The decorator without an id says how it is written.
    with pytest.raises(TypeError, match=r'@job\("set_all"\)'):
        jobs.job(set_all)
    add = jobs.job("backup", every="1h")
    assert add(nothing := lambda: None).__wrapped__ is nothing
    with pytest.raises(BadConfig, match=r"'backup' is given twice: to \S+<lambda>\(\) and to \S+<lambda>\(\)"):
        add(lambda: None)
    with pytest.raises(BadConfig, match="bad concurrency 0"):
        Jobs(concurrency=0)
    with pytest.raises(BadConfig, match=r"limits\(\) returned 5 for the queue 'mail'"):
        Jobs(limits={"mail": 5})
    assert Jobs(limits={"mail": Limit(at_once=1)}).limits() == {"mail": Limit(at_once=1)}


def test_a_job_without_a_function_is_left_to_a_worker_that_has_it(bike, jobs, caplog):
    """As while a new version of a program starts, whose functions share a queue."""
    assert jobs.queue_names() == []
    with pytest.raises(BadQueueName, match="no function was added yet"):
        jobs.queue_for("backup")
    caplog.set_level(logging.INFO)
    ran, other = [], Jobs()
    jobs.job("backup")(lambda: None)
    other.job("remind", queue="backup")(lambda: ran.append(True))
    newer = Redbike(other, bike.prefix, bike.client)
    newer.set("remind:anna", "EVERY:1h")
    newer.run("remind:anna")
    assert bike.work_one() == "remind:anna"
    assert "remind:anna: left to other workers: this one has no function 'remind'" in caplog.text
    assert (list(bike.failures()), list(bike.runs()), bike.tell("remind:anna")["status"][:3]) == ([], [], "TML")
    assert "a worker without a command or function for it has left it to others" in bike.why("remind:anna")
    [state] = bike.store.questions.inspect(["remind:anna"])
    assert bike.dispatch_due(state.timeline) == 1
    assert newer.work_one() == "remind:anna"
    assert (ran, [run.attempt for run in bike.runs()]) == ([True], [1])


def decorate(function):
    """As an ordinary decorator, whose function may also call that of its own in an event loop of its own."""
    return functools.wraps(function)(lambda: function())


class Called:
    def __call__(self):
        """Do nothing."""


class Awaited:
    async def __call__(self):
        """Do nothing."""


async def coroutine():
    """Do nothing."""


@pytest.mark.parametrize(
    ("function", "is_async"),
    [
        *((coroutine, True), (functools.partial(coroutine), True), (Awaited(), True), (Awaited().__call__, True)),
        (functools.partial(Awaited()), True),
        *((set_all, False), (Called(), False), (decorate(coroutine), False)),
    ],
)
def test_what_was_written_as_a_coroutine_function_runs_in_the_event_loop(jobs, function, is_async):
    added = jobs.job("job")(function)
    assert jobs.is_async("job:a") is inspect.iscoroutinefunction(added.__call__) is is_async
    worker = RoundRobin("A")
    worker.work = function
    assert Hooks(worker, None, None).is_async("job:A") is is_async


def test_queues_are_those_of_stock_workers_unless_they_are_named(jobs):
    jobs.job("backup", every="1h")(lambda: None)
    jobs.job("mail", queue="slow", timeout="5m")(lambda: None)
    jobs.job("report:A", every="1h", queue="slow", timeout=20)(lambda: None)
    jobs.job("check:A", every="1h", timeout=None)(lambda: None)
    assert list(jobs.queue_names()) == ["work-backup", "work-slow", "work-A"]
    assert jobs.name_queue("slow") == "work-slow"
    assert [jobs.timeout(name) for name in jobs.queue_names()] == [None, 300.0, None]
    # Those who know nothing of the functions find the same queue for what is scheduled in code.
    assert jobs.queue_for("backup") == RoundRobin("A").queue_for("backup")


def test_a_short_timeout_of_one_function_does_not_shorten_that_of_others_in_its_queue(jobs):
    for jobid, given in {"quick": {"timeout": 2}, "long": {"timeout": "1m"}, "plain": {}}.items():
        jobs.job(f"{jobid}-alone", queue=jobid, **given)(lambda: None)
        jobs.job(f"{jobid}-mixed", queue=f"{jobid}-mixed", **given)(lambda: None)
        jobs.job(f"{jobid}-other", queue=f"{jobid}-mixed")(lambda: None)
    [poll] = Queues(jobs, 10.0).polls()
    expected = {"quick": 2, "quick-mixed": 10, "long": 60, "long-mixed": 60, "plain": 10, "plain-mixed": 10}
    assert dict(poll.queues) == {f"work-{name}": seconds for name, seconds in expected.items()}

    class Own(Jobs):
        def timeout(self, queue_name):
            return 3

    own = Own()
    own.job("plain")(lambda: None)
    [poll] = Queues(own, 10.0).polls()
    assert poll.queues == [("work-plain", 3)]


def test_options_of_a_function_hold_for_its_jobs_unless_they_have_their_own(bike, jobs):
    """After a failure a recurring job goes on, and a one-off is stopped."""
    options = {
        "often": {"every": "1h"},
        "once": {"at": 0},
        "strict": {"every": "1h", "on_error": "stop"},
        "tried": {"at": 0, "retries": 1, "backoff": "1h"},
    }
    for jobid, given in options.items():
        jobs.job(jobid, **given)(raising(OSError("no luck")))
    set_all(bike)
    bike.set("tried:b", "NOW")
    bike.set("tried:c", "NOW", retries=0)
    for jobid in ("often", "strict"):
        bike.run(jobid)
    while bike.work_one():
        pass
    events = [(jobid, event) for jobid, event, _ in bike.get_statuses()]
    assert {jobid for jobid, event in events if event == "TML"} == {"often", "tried", "tried:b"}
    assert {jobid for jobid, event in events if event == "DIE"} == {"once", "strict", "tried:c"}
    assert bike.tell("tried")["next_run"] == pytest.approx(bike.store.timeline.read_clock() + 3600, abs=60)


def test_what_is_no_more_in_the_code_is_reset_with_the_schedules(client, prefix):
    def deploy(**given):
        jobs = Jobs()
        jobs.job("backup", every="1h", **given)(lambda folder="/srv": None)
        with Redbike(jobs, prefix, client) as bike:
            changes = bike.sync(jobs.schedules(), prune=True, group="app:jobs")
            told = bike.tell("backup")
            # The command up does the same.
            assert not set_schedules(bike, "app:jobs")
            assert bike.tell("backup") == told
            return str(changes), told.get("options"), told.get("data")

    given = {"timeout": "5m", "on-lost": "stop", "data": {"folder": "/home"}}
    assert deploy(**given) == ("1 added", {"timeout": 300.0, "on-lost": "stop"}, {"folder": "/home"})
    assert deploy() == ("1 changed", None, None)
    assert deploy() == ("1 unchanged", None, None)


PROGRAM = """
import sys

from redbike import Jobs, Redbike

jobs = Jobs()

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
    (shell.folder / "app.py").write_text(PROGRAM.replace('every="1h"', 'every="often"'))
    done = shell.run("up", "app:jobs")
    said = "importing app fails: BadSchedule: job 'hello': bad duration 'often': 900, 15m, 1h30m, 1.5h or 2d is needed"
    assert (done.returncode, done.stderr) == (2, f"redbike: bad worker 'app:jobs': {said}\n")
    (shell.folder / "app.py").write_text(PROGRAM)
    # It takes back what an option was, and leaves what is unchanged.
    (shell.folder / "jobs.csv").write_text("jobid,schedule,timeout,retries\nhello,EVERY:1h@5,9,2\n")
    shell.run("load", "jobs.csv")
    up = shell.start("up", "app:jobs")
    wait_until(lambda: "redbike: app:jobs: 1 changed" in shell.log(), 30)
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
    expected = {"jobid": "hello", "schedule": "EVERY:1h@5", "timeout": "5"}
    assert {name: text for name, text in row.items() if text} == expected
