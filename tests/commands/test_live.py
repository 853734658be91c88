"""What a command prints, while it runs, for whoever listens."""

import os
import threading

import pytest
import redis

from redbike import Redbike, RoundRobin
from redbike.store.store import Store
from redbike.worker.live import LIMIT, LivePublisher, Tap
from tests.cli.refused import check_refused
from tests.commands.conftest import LONG, a_run
from tests.durations import set_lines
from tests.waiting import wait_until

STEPS = "echo one; read x <limits; echo secret word; read x <limits; printf 'three\\33[2J'; exit $CODE"
# A worker that does not end a run before all that its command has printed is sent.
MODULE = f"from redbike.commands import Commands\n{set_lines(live__LAST=LONG)}"


@pytest.fixture
def bike(jobs):
    return jobs.bike


@pytest.fixture
def begin(jobs, gate, bike):
    """Starts a worker, and x:A, which prints a line, and a further one each time that the gate is opened.

    `listen` is called when the job waits for the worker.
    """

    def beginning(code=0, listen=lambda: None):
        (jobs.folder / "env").write_text("PASSWORD='secret word'")
        (jobs.folder / "commands.ini").write_text(
            f"[commands]\nx = {STEPS}\n[x]\nshell = /bin/sh\ncwd = .\nenv-file = env\nenv.CODE = {code}\n"
        )
        bike.set("x:A", "NOW")
        listen()
        (jobs.folder / "more.py").write_text(MODULE)
        jobs.start("work", "more:Commands('A', 'commands.ini')")
        wait_until(lambda: bike.is_working("x:A"))

    return beginning


def count_listeners(client, bike):
    return client.execute_command("PUBSUB", "SHARDNUMSUB", bike.store.keys.outputs)[1]


@pytest.mark.acceptance
def test_it_goes_through_a_cluster(cluster, listen):
    live = Redbike(RoundRobin("A"), "{mine}", cluster.url).store.live
    heard, publisher, run = listen(live), LivePublisher(live), a_run()
    run.tap = Tap("x:A")
    run.tap.feed(b"one", b"one")
    publisher.look([run])
    wait_until(lambda: heard == [b"one"])


def test_follow_and_tail_show_lines_as_they_come_and_follow_ends_with_the_run(begin, jobs, gate, bike, client):
    listeners = []

    def listen():
        listeners.append(jobs.start("output", "x:A", "--follow", log="follow"))
        listeners.append(jobs.start("tail", "--output=x:A", "--format=csv", log="tail"))
        wait_until(lambda: count_listeners(client, bike) == len(listeners))

    begin(code=3, listen=listen)
    follow, tail = listeners
    for heard in ("one\n", "one\n***\n"):
        wait_until(lambda heard=heard: jobs.log("follow") == heard)
        wait_until(lambda heard=heard: f",output,x:A,,,,,{heard.split()[-1]}," in jobs.log("tail"))
        gate()
    assert follow.wait(LONG) == 1
    assert jobs.log("follow") == "one\n***\nthree\\x1b[2J\n"
    wait_until(lambda: ",run,x:A,failed," in jobs.log("tail"))
    tail.kill()
    wait_until(lambda: count_listeners(client, bike) == 0)


@pytest.mark.parametrize(("program", "code"), [("true", 0), ("false", 1)])
def test_a_script_runs_a_job_and_ends_as_the_run_does(jobs, bike, program, code):
    (jobs.folder / "commands.ini").write_text(f"[commands]\nx = {program}\n")
    bike.set("x:A", "@yearly")
    jobs.start("work")
    assert jobs.run("run", "x:A").returncode == 0
    assert jobs.run("output", "x:A", "--follow").returncode == code


def test_without_a_run_that_goes_on_it_is_what_is_kept(jobs, bike):
    done = jobs.run("output", "x:A", "--follow")
    check_refused(done, 1, "no output of 'x:A': it does not run, and none of its runs is kept")
    (jobs.folder / "commands.ini").write_text("[commands]\nx = sh -c 'echo one; exit 2'\n[x]\noutput = 1k\n")
    bike.set("x:A", "NOW")
    jobs.start("work")
    wait_until(lambda: bike.runs("x:A"))
    done = jobs.run("output", "x:A", "--follow")
    assert (done.returncode, done.stdout, done.stderr) == (1, "one\n", "")
    for words in (["--run=2"], ["--failed"]):
        check_refused(jobs.run("output", "x:A", "--follow", *words), 2, "give neither --run nor --failed")


def test_nothing_is_sent_while_nobody_listens(client, store):
    publisher, run = LivePublisher(store.live), a_run()
    before = client.info("commandstats").get("cmdstat_spublish", {}).get("calls", 0)
    publisher.look([run])
    run.tap = Tap("x:A")
    run.tap.feed(b"one", b"one")
    publisher.look([run])
    assert client.info("commandstats")["cmdstat_spublish"]["calls"] == before + 1, "it has asked whether anybody does"
    assert publisher._thread is None


@pytest.fixture
def listen():
    """What is heard of the output of a job from now on."""
    over, threads = threading.Event(), []

    def listening(live, jobid="x:A"):
        heard = []
        parts = live.listen([jobid], over.is_set)
        threads.append(threading.Thread(target=lambda: heard.extend(part.text for part in parts if part)))
        threads[-1].start()
        return heard

    yield listening
    over.set()
    for thread in threads:
        thread.join(LONG)


def test_whoever_comes_gets_what_was_printed_before_and_another_prefix_nothing(client, listen):
    mine, other = (Store(client, each, lambda jobid: "work-A").live for each in ("mine", "other"))
    publisher, run = LivePublisher(mine), a_run()
    run.tap = Tap("x:A")
    run.tap.feed(b"one ", b"one ")
    elsewhere, another = listen(other), listen(mine, "y:A")
    heard = listen(mine)
    publisher.look([run])
    run.tap.feed(b"two", b"one two")
    run.tap.close()
    wait_until(lambda: heard == [b"one ", b"two"])
    assert (elsewhere, another) == ([], [])


def test_what_comes_too_fast_is_left_out_and_counted(store):
    publisher, tap = LivePublisher(store.live), Tap("x:A")
    with publisher._changed:  # nothing is sent meanwhile
        publisher.put(tap, b"a" * LIMIT)
        publisher.put(tap, b"b" * 10)
        assert publisher._size == LIMIT
    wait_until(lambda: not publisher._size)
    publisher.put(tap, b"c")
    assert tap.left_out == 0


def test_a_server_that_is_away_holds_no_command_up(jobs):
    client = redis.Redis(unix_socket_path=os.fspath(jobs.folder / "none"))
    publisher, tap = LivePublisher(Store(client, "p", lambda jobid: "work-A").live), Tap("x:A")
    tap.open(publisher)
    tap.feed(b"one", b"one")
    tap.close()
    wait_until(lambda: not publisher._waiting)
