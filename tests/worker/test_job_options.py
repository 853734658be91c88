"""What a worker makes of the options and the data of its jobs."""

import asyncio
import dataclasses

import pytest

from redbike import Redbike, RoundRobin, current_run
from redbike.commands import Commands
from redbike.config.options import format_options
from redbike.config.settings import Settings
from redbike.loop.pings import Pings
from redbike.loop.worker_class import takes_data
from redbike.schedule.parser import parse
from redbike.store.run import Run
from redbike.worker.runner import Runner


class Recorder(RoundRobin):
    """Notes what it is given."""

    def __init__(self):
        super().__init__("A")
        self.given = []

    def work(self, jobid, data):
        self.given.append((jobid, data, current_run().data))


class Coroutine(Recorder):
    async def work(self, jobid, data=None):
        await asyncio.sleep(0)
        super().work(jobid, data)


class Failing(RoundRobin):
    def work(self, jobid):
        raise ValueError("no")

    def settings_for(self, run, settings):
        return dataclasses.replace(settings, on_error="reschedule", retries=9)


def run(schedule="EVERY:1h@0", failures=0, **options):
    stored = format_options({name.replace("_", "-"): value for name, value in options.items()})
    return Run("one:A", 3600.0, "tag", 3600.0, 3700.0, failures, 0, parse(schedule).text, "work-A", options=stored)


@pytest.mark.parametrize("kind", [Recorder, Coroutine])
def test_a_work_with_a_second_parameter_is_given_the_data_of_its_run(client, prefix, kind):
    bike = Redbike(kind(), prefix, client)
    bike.set("some:A", "NOW", data={"size": [3]})
    bike.set("none:A", "NOW")
    assert [bike.work_one() for _ in range(2)] == ["some:A", "none:A"]
    assert bike.worker.given == [("some:A", {"size": [3]}, {"size": [3]}), ("none:A", None, None)]


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (lambda jobid: None, False),
        (lambda jobid, data: None, True),
        (lambda jobid, data=None: None, True),
        (lambda jobid, data, /: None, True),
        (lambda jobid, *rest: None, False),
        (lambda *rest: None, False),
        (lambda jobid, *, data=None: None, False),
        (lambda jobid, **rest: None, False),
        (dict.update, False),
        (7, False),
    ],
)
def test_whether_a_work_takes_data_is_read_from_its_signature(work, expected):
    worker = RoundRobin("A")
    worker.work = work
    assert takes_data(worker) is expected


def test_the_options_of_a_job_override_the_worker_class_which_overrides_the_settings():
    runner = Runner(Failing("A"), Settings(on_error="stop", retries=1, on_timeout="requeue"), Pings())
    found = runner.settings_for(run(on_error="retry"))
    assert (found.on_error, found.retries, found.on_timeout) == ("retry", 9, "requeue")
    assert runner.settings_for(run()).on_error == "reschedule"
    assert Runner(RoundRobin("A"), Settings(), Pings()).settings_for(run(on_error="retry")).on_error == "retry"


def test_the_options_of_a_job_override_those_of_its_command(tmp_path):
    (tmp_path / "commands.ini").write_text(
        "[commands]\none: /bin/sleep 5\n[one]\ntimeout: 0.2\non-error: stop\non-timeout: stop\nretries: 2\n"
    )
    runner = Runner(Commands("A", str(tmp_path / "commands.ini")), Settings(), Pings())

    def found(**options):
        own = runner.settings_for(run(**options))
        return own.on_error, own.on_timeout, own.retries

    assert found() == ("stop", "stop", 2)
    assert found(on_error="reschedule") == ("reschedule", "stop", 2)
    assert found(retries=5) == ("stop", "stop", 5)
    assert found(retries=0, on_timeout="requeue") == ("stop", "requeue", 0)
    assert runner.settings_for(run(stop_after=4)).stop_after == 4


def test_a_timeout_of_its_job_overrides_that_of_the_command(client, prefix, tmp_path):
    # The second time it takes so long that it is ended, however late.
    line = f"sh -c 'sleep 0.5; [ ! -e {tmp_path}/ran ] || sleep 60; touch {tmp_path}/ran'"
    (tmp_path / "commands.ini").write_text(f"[commands]\none: {line}\n[one]\ntimeout: 0.1\n")
    bike = Redbike(Commands("A", str(tmp_path / "commands.ini")), prefix, client)
    bike.set("one:A", "NOW", timeout=30)
    assert bike.work_one() == "one:A"
    assert bike.tell("one:A")["status"].startswith("STP:")
    bike.set("one:A", "NOW", timeout=None)
    assert bike.work_one() == "one:A"
    assert "not done after 0.1 s" in bike.tell("one:A")["failure"]["error"]
