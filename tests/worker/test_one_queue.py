"""A job has one queue, whoever sets it: how the workers of a prefix name queues is known in Redis."""

import json
import logging

import pytest

from redbike import Jobs, Redbike
from redbike.commands import Commands
from redbike.errors import BadQueueName
from redbike.loop import registration
from redbike.loop.naming import NoWorker
from redbike.store import agreed, processes, workers
from redbike.text.printable import name_host
from tests.loops import beside
from tests.verbs import Quiet
from tests.waiting import wait_until


def make_jobs():
    jobs = Jobs()
    jobs.job("backup", queue="heavy")(lambda: None)
    jobs.job("remind")(lambda: None)
    return jobs


class ByLength(Quiet):
    """Names queues in a way of its own."""

    def queue_for(self, jobid):
        return f"length-{len(jobid)}"

    def queue_names(self):
        return ["length-3"]


@pytest.fixture
def make(client, prefix, monkeypatch):
    """A program with a worker, which sees at once what others change."""
    monkeypatch.setattr(agreed, "REREAD", 0.0)
    monkeypatch.setattr(processes, "KNOWN", 0.0)
    monkeypatch.setattr(processes, "REREAD", 0.0)
    return lambda worker: Redbike(worker, prefix, client)


@pytest.fixture
def register(make):
    """Let a worker register, as it does when it starts; it has ended by now."""

    def register(worker):
        bike = make(worker)
        with beside(bike.store, bike.work):
            wait_until(bike.workers)

    return register


@pytest.fixture
def command(shell, prefix):
    """The command line, with no worker in its config."""
    (shell.folder / ".redbike.conf").write_text(f"[redbike]\nprefix: {prefix}\n")
    return shell.run


def find_queue(bike, jobid):
    return bike.store.questions.inspect([jobid])[0].waiting.queue


@pytest.mark.parametrize(
    ("workers", "jobid", "queue"),
    [
        ([], "mail:anna", "work-anna"),
        ([make_jobs()], "backup", "work-heavy"),
        ([make_jobs(), Quiet("A")], "remind:anna", "work-remind"),
        ([make_jobs(), Quiet("A")], "mail:anna", "work-anna"),
        ([make_jobs(), ByLength("A")], "backup:x", "work-heavy"),
    ],
)
def test_who_knows_no_worker_class_names_the_queue_as_the_workers_do(make, register, command, workers, jobid, queue):
    for worker in workers:
        register(worker)
    assert command("set", jobid, "NOW").returncode == 0
    assert find_queue(make(Quiet("A")), jobid) == queue
    listed = command("jobs", "--format=json").stdout
    assert f'"queue": "{queue}"' in listed
    assert command("unset", jobid).returncode == 0
    # So do programs with another one.
    for worker in (Quiet("A"), make_jobs()):
        bike = make(worker)
        if isinstance(worker, Jobs) and not workers:
            with pytest.raises(BadQueueName, match="no function takes it"):
                bike.set(jobid, "NOW")
        else:
            assert bike.set(jobid, "NOW")
            assert find_queue(bike, jobid) == queue
            bike.unset(jobid)


@pytest.mark.parametrize(
    ("worker", "said"),
    [
        (ByLength("A"), "no queue for 'a:b': only tests.worker.test_one_queue:ByLength can name it"),
        (make_jobs(), "no queue for 'a:b': no function takes it: there are functions for 'backup', 'remind'"),
    ],
)
@pytest.mark.parametrize("verb", [("set", "a:b", "NOW"), ("run", "a:b")])
def test_who_cannot_know_the_queue_refuses(make, register, command, client, worker, said, verb):
    program = make(Quiet("A"))
    program.set("a:b", "AT:4102444800") if verb[0] == "run" else None
    register(worker)
    before = program.tell("a:b")
    done = command(*verb)
    assert (done.returncode, said in done.stderr, done.stderr.count("\n")) == (2, True, 1), done.stderr
    assert program.tell("a:b") == before


@pytest.mark.parametrize(
    ("worker", "schedule", "verb"),
    [
        (ByLength("A"), "NOW", "pause"),
        (make_jobs(), "AT:4102444800", "pause"),
        (make_jobs(), "NOW", "cancel"),
        (ByLength("A"), "AT:4102444800", "unset"),
        (make_jobs(), "NOW", "unset"),
    ],
)
def test_a_job_whose_queue_nobody_knows_any_more_can_be_steered_and_unset(
    make, register, command, worker, schedule, verb
):
    program = make(Quiet("A"))
    program.set("a:b", schedule)
    register(worker)
    done = command(verb, "a:b")
    assert (done.returncode, "no queue" in done.stderr) == (0, False), done.stderr
    assert program.store.questions.inspect(["a:b"])[0].waiting is None
    assert (program.store.questions.inspect(["a:b"])[0].schedule is None) == (verb == "unset")
    assert command("fsck").returncode == 0


def test_the_function_with_the_longest_id_names_the_queue(make, register, monkeypatch):
    """One program has it, another one has only that with the shorter id, whose own counts, and a third one has none."""
    both, old = make_jobs(), make_jobs()
    both.job("remind:boss", queue="boss")(lambda: None)
    register(both)
    queues = {"remind:boss": "work-boss", "remind:boss:a:b": "work-boss", "remind:b": "work-remind"}
    for worker in (both, old, NoWorker()):
        bike = make(worker)
        for jobid, queue in queues.items():
            assert bike.set(jobid, "NOW")
            assert find_queue(bike, jobid) == ("work-remind" if worker is old else queue)
            bike.unset(jobid)
    # Nobody has it any more.
    monkeypatch.setattr(workers, "STALE", 0.0)
    register(old)
    bike = make(NoWorker())
    assert bike.set("remind:boss:a:b", "NOW")
    assert find_queue(bike, "remind:boss:a:b") == "work-remind"


def test_a_rule_counts_until_no_worker_has_given_it_for_long(make, register, monkeypatch):
    register(ByLength("A"))
    register(Quiet("A"))
    with pytest.raises(BadQueueName, match=r"only tests[.]worker[.]test_one_queue:ByLength can"):
        make(make_jobs()).set("mail:anna", "NOW")
    monkeypatch.setattr(workers, "STALE", 0.0)
    register(Quiet("A"))
    bike = make(make_jobs())
    assert bike.set("mail:anna", "NOW")
    assert find_queue(bike, "mail:anna") == "work-anna"


@pytest.mark.parametrize(
    ("is_commands", "hours", "queue"),
    [(False, 719, "work-heavy"), (False, 721, "work-A"), (True, 0.3, "work-heavy"), (True, 0.4, "work-A")],
)
def test_a_function_that_no_worker_has_any_more_keeps_no_job_for_ever(
    make, register, tmp_path, is_commands, hours, queue
):
    """It is gone sooner if a worker has a command of its name."""
    (tmp_path / "commands.ini").write_text("[commands]\nbackup = true\n")
    other = Commands("A", str(tmp_path / "commands.ini")) if is_commands else Quiet("A")
    register(make_jobs())
    bike = make(other)
    client, key = bike.client, bike.store.keys.agreed
    given_at = json.loads(client.hget(key, "functions"))
    assert given_at.keys() == {"backup", "remind"}
    client.hset(key, "functions", json.dumps({name: float(at) - 3600 * hours for name, at in given_at.items()}))
    register(other)
    assert bike.set("backup:A", "NOW")
    assert find_queue(bike, "backup:A") == queue
    assert client.hexists(key, "job:remind") == (hours != 721)
    register(make_jobs())
    assert make(NoWorker()).set("backup:B", "NOW")
    assert find_queue(bike, "backup:B") == "work-heavy"


def test_what_was_given_by_a_clock_that_was_ahead_is_forgotten_in_time(store, client):
    now, entry = store.timeline.read_clock(), '{"kind": "worker", "host": "h", "pid": 1, "queues": [], "version": "1"}'
    functions = agreed.Naming(frozenset(["functions"]), {"f": "q"})
    stock = agreed.Naming(frozenset(["stock"]), {})
    store.at(now + 2 * workers.AWAY).workers.register("OwnerOf1", entry, naming=functions)
    for later in (0.0, workers.AWAY + 1):
        store.at(now + later).workers.register("OwnerOf2", entry, naming=stock)
    assert [*json.loads(client.hget(store.keys.agreed, "rules"))] == ["stock"]
    assert not client.hexists(store.keys.agreed, "job:f")


def test_a_dispatcher_without_a_worker_class_moves_jobs_to_where_they_are_worked(make, register, command, shell):
    register(make_jobs())
    bike = make(make_jobs())
    bike.set("remind:anna", "AT:4102444800")
    bike.client.zadd(bike.store.keys.timeline, {"remind:anna": 1.0})
    shell.start("dispatch")
    wait_until(lambda: bike.store.questions.inspect(["remind:anna"])[0].waiting)
    assert find_queue(bike, "remind:anna") == "work-remind"


def test_it_is_said_that_nobody_takes_a_job(make, caplog):
    jobs = make_jobs()
    jobs.job("mail:welcome")(lambda: None)
    program, worker = make(Quiet("A")), make(jobs)

    def take_said():
        said = [each.getMessage() for each in caplog.records if each.name == "redbike"]
        caplog.clear()
        return said

    caplog.set_level(logging.WARNING)
    program.set("mail:A", "NOW")
    assert not take_said(), "no worker is there at all"
    with beside(worker.store, worker.work):
        wait_until(program.workers)
        # The id of a function may have a colon.
        assert worker.set("mail:welcome:ann", "AT:4102444800")
        worker.enter("mail:welcome", "AT:4102444800")
        assert not take_said()
        said = ["the worker has no function 'mail': the job 'mail:A'"]
        assert [each.text for each in worker.check() if "function" in each.text] == said
        program.set("mail:A", "NOW")
        program.set("mail2:A", "NOW")
        assert take_said() == ["mail:A: no worker works its queue 'work-A'"], "once for each queue"
        program.set("mail:heavy", "NOW")
        assert take_said() == ["mail:heavy: no worker of its queue 'work-heavy' has a command or function for 'mail'"]
        worker.set("remind:B", "NOW")
        list(program.set_many([("a:C", "NOW"), ("a:C", "STOP")]))
        program.sync([("b:D", "NOW")])
        assert [text.split("'")[1] for text in take_said()] == ["work-C", "work-D"]


def test_of_a_worker_with_very_many_queues_it_is_known_which_ones_it_works(make, caplog):
    caplog.set_level(logging.WARNING)
    program = make(Quiet("A"))
    worker = make(Quiet(":".join(f"Q{number}" for number in range(60))))
    served = ["x:Q0", "x:Q59", f"x:Q0@{name_host()}", f"x:Q59@{name_host()}"]
    with beside(worker.store, worker.work):
        wait_until(program.workers)
        assert len(program.workers()[0].queues) == registration.MOST_QUEUES + 1
        for jobid in [*served, "x:ZZZ", "x:Q59@nohost"]:
            program.set(jobid, "EVERY:1h")
        said = [f"{jobid}: no worker works its queue 'work-{jobid[2:]}'" for jobid in ("x:ZZZ", "x:Q59@nohost")]
        assert [each.getMessage() for each in caplog.records if each.name == "redbike"] == said
        found = sorted(text.split("'")[1::2] for each in program.check() if "no worker" in (text := each.text))
        assert found == [["work-Q59@nohost", "x:Q59@nohost"], ["work-ZZZ", "x:ZZZ"]]
        program.run("x:ZZZ")
        assert program.why("x:ZZZ").endswith("and waits in work-ZZZ, but no worker works this queue.")
