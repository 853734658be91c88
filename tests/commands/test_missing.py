"""A worker that has no command for a job leaves it to others; ``health`` names what no worker has."""

import contextlib
from pathlib import Path

import pytest

from redbike.commands import Commands, reloading
from redbike.config.settings import Settings
from redbike.facade.redbike import Redbike
from redbike.store.store import Store
from redbike.worker import missing_commands
from redbike.worker.worker import Worker
from tests.commands.conftest import HOURLY, dispatch_later
from tests.loops import make_worker
from tests.verbs import set_job
from tests.waiting import wait_until


@pytest.fixture
def make(client, prefix, tmp_path):
    """Make a worker of a host that has the commands of these names; it is registered from then on."""
    with contextlib.ExitStack() as registered:

        def making(host, *names, **settings):
            file = tmp_path / f"{host}.ini"
            file.write_text(
                "[commands]\n" + "".join(f"{name if '=' in name else name + ' = true'}\n" for name in names)
            )
            handler = Commands("A", str(file))
            worker = make_worker(Store(client, prefix, handler.queue_for), handler, Settings(prefix=prefix, **settings))
            registered.enter_context(worker.presence)
            return worker

        yield making


@pytest.fixture
def bike(client, prefix):
    return Redbike(Commands("A", "none.ini"), prefix, client)


def leave(bike, worker):
    """Let `worker` leave x:A to others, and dispatch it when it is due; return the least and the most that it waits."""
    before = bike.store.timeline.read_clock()
    assert worker.work_one() == "x:A"
    state = dispatch_later(bike, "x:A")
    return state.timeline - state.now, state.timeline - before


def test_it_is_left_to_a_worker_that_has_it_and_nothing_has_failed(make, bike):
    one, two = make("one", "x"), make("two", "y", ping_url="http://127.0.0.1:1/")
    set_job(bike.store, "x:A", HOURLY, "now")
    due = bike.tell("x:A")["queued_for"]
    assert two.work_one() == "x:A"
    assert two.work_one() is None  # not at once again
    assert "without a command or function for it has left it to others; it is offered again" in bike.why("x:A")
    dispatch_later(bike, "x:A")
    for _ in range(6):
        least, _ = leave(bike, two)
        assert least < 1.0, "another worker has it"
    assert two.missing.list_lacking() == {}
    assert one.work_one() == "x:A"
    [run] = bike.runs()
    assert (run.due, run.attempt, run.outcome) == (due, 1, "ok")
    assert (bike.tell("x:A").get("failure"), list(bike.failures())) == (None, [])
    assert bike.store.questions.inspect(["x:A"])[0].retry_state == ""


def test_what_nobody_has_is_offered_again_less_and_less_often(make, bike, monkeypatch):
    for name in ("LOOK", "SETTLED"):
        monkeypatch.setattr(reloading, name, 0.0)
    worker = make("one", "y")
    set_job(bike.store, "x:A", HOURLY, "now")
    for expected in (0.5, 2, 4, 8, 16, 20, 20):
        least, most = leave(bike, worker)
        assert least < expected + 0.9
        assert most > expected - 0.9
    file = Path(worker.worker._path)
    file.write_text("[commands]\nx = true\n")
    assert worker.work_one() == "x:A"
    file.write_text("[commands]\ny = true\n")
    bike.run("x:A")
    assert leave(bike, worker)[0] < 0.5 + 0.9, "as if it had never been left"


def test_a_failure_that_is_kept_stays(make, bike):
    set_job(bike.store, "x:A", HOURLY, "now")
    assert make("one", "x = false").work_one() == "x:A"
    dispatch_later(bike, "x:A")
    assert make("two", "y").work_one() == "x:A"
    assert len(list(bike.runs())) == 1
    assert bike.tell("x:A")["failure"]


@pytest.fixture
def lacking(make, bike, monkeypatch):
    """What `health` says of commands, while a worker without x has left x:A to others often enough."""
    monkeypatch.setattr(missing_commands, "FIRST", 0.0)
    monkeypatch.setattr(missing_commands, "SHORT", 0.0)
    worker = make("one", "y")
    set_job(bike.store, "x:A", HOURLY, "now")
    for _ in range(missing_commands.SURE):
        assert worker.work_one() == "x:A"

    def health():
        worker.presence._changed.set()  # as an idle worker does each second
        return [each for each in bike.health().problems if "command" in each]

    return health


def test_health_check_and_why_name_what_no_worker_has_until_one_has(make, lacking, bike, caplog):
    wait_until(lambda: lacking() == ["x:A waits, but no worker of work-A has a command or function for 'x'"])
    logged = [record.getMessage() for record in caplog.get_records("setup")]
    assert any("no worker of its queue 'work-A' has a command or function for 'x'" in line for line in logged)
    assert "but no worker of work-A has a command or function for 'x'" in bike.why("x:A")
    assert [str(each) for each in Redbike.check(bike) if "function for" in str(each)] == [
        "problem: no worker of the queue 'work-A' has a command or function for 'x': the job 'x:A'"
    ]
    make("two", "x")
    wait_until(lambda: lacking() == [])
    assert not [each for each in Redbike.check(bike) if "function for" in str(each)]


def test_a_job_that_is_gone_is_no_problem(lacking, bike):
    wait_until(lambda: lacking())
    bike.unset("x:A")
    assert lacking() == []


def test_a_subclass_that_does_other_jobs_itself_leaves_none(make, bike):
    class Own(Commands):
        def work(self, jobid):
            done.append(jobid)

    done = []
    path = make("one").worker._path
    set_job(bike.store, "x:A", HOURLY, "now")
    assert Worker(bike.store, Own("A", path), Settings()).work_one() == "x:A"
    assert done == ["x:A"]
