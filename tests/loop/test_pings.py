"""Pings: which URLs are called when, what becomes of them when a service fails, and what is shown of them."""

import contextlib
import logging
import re
import socket
import subprocess
import sys
import threading
import time

import pytest

from redbike import BadConfig, Redbike, RoundRobin
from redbike.config.ping_urls import MAX_LENGTH, add_signal, check_dispatcher_url, check_ping_url, fill, mask
from redbike.config.settings import Settings
from redbike.connection.client import connect
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.dispatcher.sharded import Dispatchers
from redbike.errors import Unreachable
from redbike.loop.pings import LANES, MOST, Pings
from redbike.store.enums import Outcome
from redbike.store.lease import LEASE
from redbike.store.namespace import make_tag
from redbike.store.next_state import NextState
from redbike.store.store import Store
from tests.proc import arguments_below
from tests.verbs import Telling, take_one
from tests.waiting import wait_until

SECRET = "c8b7-secret"


@pytest.fixture
def bike(client, prefix, pinged):
    bike = Redbike(Telling("A"), prefix, client, on_error="reschedule")
    yield bike
    # While the server is still there: what fails would be told in the middle of another test.
    pinged.hanging.set()
    for each in (bike._loops.one and bike._loops.one.pings, bike._loops.passes and bike._loops.passes._all[0]._pings):
        if each:
            each.stop(60)


@pytest.fixture
def pings():
    made = []

    def make(pauses=(0.0, 0.0, 0.0), timeout=10.0):
        made.append(Pings(pauses, timeout))
        return made[-1]

    yield make
    for each in made:
        each.stop(0)


def run(bike, jobid, number=1, **options):
    bike.set(jobid, "NOW", **options)
    for _ in range(number):
        bike.dispatch_due()
        assert bike.work_one() == jobid


# What is called when


@pytest.mark.parametrize(
    ("jobid", "number", "options", "path", "called"),
    [
        # As Healthchecks has it.
        ("good:A", 1, {}, "x", ["/x/start", "/x"]),
        ("bad:A", 1, {}, "x", ["/x/start", "/x/fail"]),
        ("stop:A", 1, {}, "x", ["/x/start", "/x"]),
        # A failure that is tried again is none yet; who asks for the same again has neither failed nor succeeded.
        ("bad:A", 3, {"on_error": "retry", "retries": 2, "backoff": 0}, "x", [*["/x/start"] * 3, "/x/fail"]),
        ("again:A", 2, {}, "x", ["/x/start", "/x/start"]),
        # A URL with the outcome is called once after each run.
        ("good:A", 1, {}, "{jobid}?is={outcome}", ["/good:A?is=ok"]),
        ("bad:A", 1, {}, "{jobid}?is={outcome}", ["/bad:A?is=failed"]),
        ("again:A", 1, {}, "{jobid}?is={outcome}", ["/again:A?is=retry"]),
        ("é /?%#:A", 1, {}, "{jobid}/{outcome}", ["/%C3%A9%20%2F%3F%25%23:A/ok"]),
    ],
)
def test_what_is_called_when(bike, pinged, jobid, number, options, path, called):
    run(bike, jobid, number, ping_url=f"{pinged.url}/{path}", **options)
    wait_until(lambda: pinged.called == called)


def test_the_setting_is_for_all_and_the_option_of_a_job_is_before_it(client, prefix, pinged):
    bike = Redbike(Telling("A"), prefix, client, ping_url=f"{pinged.url}/all/{{jobid}}/{{outcome}}")
    run(bike, "good:A")
    wait_until(lambda: pinged.called == ["/all/good:A/ok"])
    run(bike, "other:A", ping_url=f"{pinged.url}/own/{{outcome}}")
    wait_until(lambda: pinged.called[1:] == ["/own/ok"])
    run(bike, "other:A", ping_url=None)
    wait_until(lambda: pinged.called[2:] == ["/all/other:A/ok"])


def take(bike, jobid, url, **options):
    """A run of a job, as its worker has it, and that worker."""
    bike.work_one()
    assert bike._loops.one
    bike.set(jobid, "NOW", ping_url=url, **options)
    run = take_one(bike.store, [("work-A", 10.0)], make_tag())
    assert run.jobid == jobid
    return run, bike._loops.one


def test_a_run_that_was_cancelled_before_it_began(bike, pinged):
    for jobid, url in (("good:A", f"{pinged.url}/x/{{outcome}}"), ("other:A", f"{pinged.url}/y")):
        run, worker = take(bike, jobid, url)
        run.cancelled = True
        worker.ends.end([(run, worker.runner.run(run))])
        worker.pings.stop(60)
    assert pinged.called == ["/x/cancelled"]


def set_for_what_is_past(bike, jobid):
    assert bike.set(jobid, "* * * * *", after=bike.store.timeline.read_clock() - 5400)


# What happens during a run, and whether it fails then: it does not if the same occurrence goes on.
DURING_ENDS = [
    ("stop", None, True),
    ("reschedule", None, True),
    ("requeue", None, False),
    ("stop", Redbike.run, True),
    ("reschedule", Redbike.run, True),
    ("requeue", Redbike.run, False),
    ("stop", set_for_what_is_past, True),
    ("requeue", set_for_what_is_past, True),
]


@pytest.mark.parametrize(("policy", "during", "fails"), DURING_ENDS)
def test_a_lost_run_is_told_by_the_dispatcher(bike, pinged, policy, during, fails):
    called = ["/x/fail"] * fails
    bike.set("good:A", "EVERY:1h", ping_url=f"{pinged.url}/x", on_lost=policy)
    bike.set("told:A", "EVERY:1h", ping_url=f"{pinged.url}/told/{{outcome}}", on_lost=policy)
    # A second later than the second of them is due: clocks are set back a little at times.
    now = bike.store.timeline.read_dispatched()[0] + 3601
    bike.dispatch_due(now)
    for _ in range(2):
        run = take_one(bike.store.at(now), [("work-A", 10.0)], make_tag())
        if during:
            during(bike, run.jobid)
    bike.dispatch_due(now + LEASE + 20)
    wait_until(lambda: len(pinged.called) == len(called) + 1)
    assert sorted(pinged.called) == sorted([*called, "/told/lost"])


def test_a_lost_run_of_a_backfill_is_not_told(client, prefix, pinged):
    bike = Redbike(Telling("A"), prefix, client, ping_url=f"{pinged.url}/x", on_lost="stop")
    now = bike.store.timeline.read_clock()
    bike.set("good:A", f"EVERY:1h@{now - 5400:.0f}")
    bike.backfill("good:A", now - 3600, now)
    bike.dispatch_due(now + 10)
    run = take_one(bike.store.at(now + 10), [("work-A", 10.0)], make_tag())
    assert run.backfill_of == "good:A"
    bike.dispatch_due(now + LEASE + 30)
    assert bike.tell(run.jobid)["status"].startswith("DIE")
    bike._loops.passes._all[0]._pings.stop(60)
    assert pinged.called == []


@pytest.mark.parametrize(("policy", "during", "fails"), DURING_ENDS)
def test_an_overrun_is_told(bike, pinged, policy, during, fails):
    called = ["/x/fail"] * fails
    for jobid, url in (("good:A", f"{pinged.url}/x"), ("told:A", f"{pinged.url}/told/{{outcome}}")):
        late, worker = take(bike, jobid, url, on_timeout=policy, timeout=0.001)
        # As it is when it has begun.
        late.ping_url = worker.runner.settings_for(late).ping_url
        wait_until(lambda late=late: late.now() > late.deadline)
        if during:
            during(bike, jobid)
        worker.ends.end_overrun(late)
        bike.unset(jobid)
    wait_until(lambda: len(pinged.called) == len(called) + 1)
    assert sorted(pinged.called) == ["/told/overrun", *called]


def test_a_run_that_is_no_longer_this_workers_is_not_told(bike, pinged):
    run, worker = take(bike, "good:A", f"{pinged.url}/x/{{outcome}}")
    bike.store.runs.end(run, NextState("stop"))
    worker.ends.end([(run, worker.runner.run(run))])
    worker.pings.stop(60)
    assert pinged.called == []


# A service that does not answer as it should


ELSEWHERE = ["file:///etc/passwd", "ftp://127.0.0.1/x", "data:,x", "http://["]


@pytest.mark.parametrize(
    ("answers", "called", "said"),
    [
        # One that fails is called three times more, one that refuses is not, and a redirection is followed.
        ([500, 503, 429], [f"/{SECRET}"] * 4, None),
        ([500] * 4, [f"/{SECRET}"] * 4, "the answer is 500"),
        ([404], [f"/{SECRET}"], "the answer is 404"),
        (["/there"], [f"/{SECRET}", "/there"], None),
        # Redirections in a circle come to an end, and those to anything else are not followed.
        ([f"/{SECRET}"] * 100, None, "the answer is 302"),
        *(([place] * 4, None, "") for place in ELSEWHERE),
    ],
)
def test_a_service_that_does_not_answer_as_it_should(pinged, pings, caplog, answers, called, said):
    pinged.answers += answers
    pings().call("job:A", f"{pinged.url}/{SECRET}")
    assert pinged.called == called or (called is None and len(pinged.called) < 50)
    lines = [record.getMessage() for record in caplog.records]
    if said:
        assert lines == [f"job:A: a ping to {pinged.url}/… has failed: {said}"]
    else:
        assert len(lines) == (said == "")
    assert all(f"job:A: a ping to {pinged.url}/… has failed: " in line and "passwd" not in line for line in lines)
    assert SECRET not in caplog.text


def test_what_comes_with_a_redirection_is_not_read(pinged, pings):
    sent = []

    def send_without_end(listener):
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(f"HTTP/1.1 302 Found\r\nLocation: {pinged.url}/there\r\n\r\n".encode())
            while sum(sent) < 100_000_000:
                sent.append(connection.send(b"x" * 65536))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=send_without_end, args=(listener,))
        thread.start()
        pings().call("job:A", f"http://127.0.0.1:{listener.getsockname()[1]}/x")
        thread.join()
    assert pinged.called == ["/there"]
    assert sum(sent) < 50_000_000


def test_a_service_that_never_comes_to_an_end_holds_up_no_other_for_long(pinged, pings, monkeypatch):
    monkeypatch.setattr("redbike.loop.pings.STUCK", 60.0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        each = pings(timeout=60)
        each.send("job:A", f"http://127.0.0.1:{listener.getsockname()[1]}/x")
        connection, _ = listener.accept()
        for number in range(3):
            each.send("job:A", f"{pinged.url}/{number}")
        assert pinged.called == []
        monkeypatch.setattr("redbike.loop.pings.STUCK", 0.0)
        each.send("job:A", f"{pinged.url}/last")
        monkeypatch.setattr("redbike.loop.pings.STUCK", 60.0)
        wait_until(lambda: pinged.called == ["/0", "/1", "/2", "/last"])
        connection.close()
        each.send("job:A", f"{pinged.url}/again")
        wait_until(lambda: pinged.called[4:] == ["/again"])


def test_a_service_that_hangs_is_given_up(pinged, pings, caplog):
    pinged.hanging.clear()
    pings(timeout=0.05).call("job:A", f"{pinged.url}/{SECRET}")
    wait_until(lambda: len(pinged.called) == 4)
    assert re.search("a ping to .* has failed: .*timed out", caplog.text)
    assert SECRET not in caplog.text


def test_nobody_listens_and_what_answers_is_not_http(pings, caplog):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/{SECRET}"
        each = pings(pauses=(), timeout=5)
        each.send("job:A", url)
        connection, _ = listener.accept()
        connection.sendall(b"-ERR unknown command\r\n\r\n")
        connection.close()
        wait_until(lambda: "the answer is not HTTP" in caplog.text)
    each.call("job:A", url)
    assert "refused" in caplog.text
    assert SECRET not in caplog.text


def test_the_same_complaint_is_made_once_a_minute(pinged, pings, caplog, monkeypatch):
    pinged.answers += [404] * 6
    each = pings()
    for _ in range(5):
        each.call("job:A", f"{pinged.url}/x")
    assert len(caplog.records) == 1
    now = time.monotonic()
    monkeypatch.setattr("redbike.loop.pings.time.monotonic", lambda: now + 61)
    each.call("job:A", f"{pinged.url}/x")
    assert caplog.records[1].getMessage().endswith("the answer is 404; and 4 more times since the last such line")


def test_a_job_waits_for_no_service_and_what_is_too_much_is_dropped(bike, pinged, caplog):
    pinged.hanging.clear()
    number = MOST + 20
    for _ in range(number):
        run(bike, "good:A", ping_url=f"{pinged.url}/{SECRET}/{{outcome}}")
    assert len(bike.worker.worked) == number
    assert [record.getMessage() for record in caplog.records] == [
        f"pings to {pinged.url}/… are dropped: {MOST} wait already"
    ]
    worker = bike._loops.one or pytest.fail("it has worked nothing")
    worker.pings.stop(0)
    assert f"{MOST + 1} pings were not sent" in caplog.text
    pinged.hanging.set()


def test_the_pings_of_a_job_stay_in_order_and_other_jobs_do_not_wait_for_them(pings, pinged, monkeypatch):
    jobs, sleep = [f"{n}:A" for n in range(20 * LANES)], time.sleep

    def pause(seconds):
        # The one before a further try lasts until others were called.
        sleep(seconds) if seconds < 60 else wait_until(lambda: len(pinged.called) > len(jobs) / 2)

    monkeypatch.setattr(time, "sleep", pause)
    each = pings(pauses=(60.0, 0.0, 0.0))
    pinged.answers += [500]
    each.start(jobs[0], f"{pinged.url}/first")
    wait_until(lambda: pinged.called == ["/first/start"])
    each.end(jobs[0], f"{pinged.url}/first", NextState("stop", outcome=Outcome.OK))
    for jobid in jobs[1:]:
        each.send(jobid, f"{pinged.url}/{{jobid}}")
    each.stop(60)
    assert len(pinged.called) == len(jobs) + 2
    own = [path for path in pinged.called if path.startswith("/first")]
    assert own == ["/first/start", "/first/start", "/first"]


def test_a_program_that_ends_sends_what_is_left_and_its_child_nothing(pinged, server_url, tmp_path):
    program = f"""
import os, sys
from redbike import Redbike, RoundRobin
class Own(RoundRobin):
    def work(self, jobid):
        pass
bike = Redbike(Own("A"), redis_config={server_url!r})
bike.set("job:A", "NOW", ping_url="{pinged.url}/x")
bike.work_one()
child = os.fork()
sys.exit(os.waitpid(child, 0)[1] if child else 0)
"""
    pinged.hanging.clear()
    process = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path)
    wait_until(lambda: pinged.called)
    # Time to end without waiting for the answer, which it must not do.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1)
    pinged.hanging.set()
    assert process.wait(60) == 0
    assert pinged.called == ["/x/start", "/x"]


# The dispatcher's own


def go_round(dispatcher):
    dispatcher.store.client.lpush(dispatcher.store.keys.wakeup, "1")
    dispatcher._turn()


def close(dispatcher):
    dispatcher.close()
    dispatcher.loop.close()
    dispatcher._pings.stop()


def test_a_dispatcher_calls_its_own_once_a_minute_while_it_goes_round(bike, pinged, monkeypatch):
    dispatcher = Dispatcher(bike.store, bike.settings, f"{pinged.url}/me")
    for _ in range(3):
        go_round(dispatcher)
    wait_until(lambda: pinged.called == ["/me"])
    dispatcher.switch._called -= 60
    go_round(dispatcher)
    close(dispatcher)
    assert pinged.called == ["/me", "/me"]


def test_with_shards_it_is_called_once_a_minute_while_all_of_them_go_round(client, prefix, pinged):
    with Redbike(RoundRobin("A"), prefix, client, shards=3) as bike:
        dispatchers = Dispatchers(bike.store, bike.settings, f"{pinged.url}/me")
        switch = dispatchers._all[0].switch
        for late in (0, 2):
            switch._called -= 60
            switch._pressed = [each - 60 for each in switch._pressed]
            called = switch._called
            others = [each for number, each in enumerate(dispatchers._all) if number != late]
            for each in (*others, *others):
                go_round(each)
            assert switch._called == called, "one of them does not go round"
            for each in (dispatchers._all[late], *others):
                go_round(each)
        for each in dispatchers._all:
            close(each)
        dispatchers.close()
    assert pinged.called == ["/me", "/me"]


@pytest.mark.acceptance
def test_dispatch_and_up_have_it_as_an_option_that_no_arguments_of_a_process_show(shell, pinged):
    shell.start("dispatch", "--ping-url", f"{pinged.url}/one")
    wait_until(lambda: pinged.called == ["/one"])
    up = shell.start("up", "redbike:RoundRobin('A')", "--ping-url", f"{pinged.url}/{SECRET}", log="up")
    wait_until(lambda: pinged.called == ["/one", f"/{SECRET}"])
    _, *children = arguments_below(up.pid)
    assert len(children) >= 2
    assert not [arguments for arguments in children if SECRET in arguments]
    # The children of one that is killed would go on for a moment.
    up.terminate()
    assert up.wait(20) == 0
    assert SECRET not in shell.log("up")


def test_a_dispatcher_that_cannot_reach_redis_does_not_call(own_server, pinged):
    store = Store(connect(own_server.url), "test", RoundRobin("A").queue_for)
    dispatcher = Dispatcher(store, Settings(), pinged.url)
    go_round(dispatcher)
    own_server.stop()
    dispatcher.switch._called -= 60
    with pytest.raises(Unreachable):
        dispatcher._turn()
    close(dispatcher)
    assert pinged.called == ["/"]


@pytest.mark.parametrize("command", [["dispatch"], ["up", "redbike:RoundRobin('A')"]])
def test_a_bad_one_is_refused_before_anything_starts(shell, command):
    for given, more in ((["--ping-url", "ftp://h/s3cret"], {}), ([], {"REDBIKE_DISPATCHER_PING_URL": "h/s3cret"})):
        shell.environment |= more
        done = shell.run(*command, *given)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
        assert "bad ping-url" in done.stderr
        assert "s3cret" not in done.stderr
    # What is given on the command line is before that.
    done = shell.run(*command, "--ping-url", "http://h/{jobid}")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


# What is allowed, and shown


def test_nothing_but_the_backup_shows_more_than_the_host(shell):
    url = f"https://ping.example/{SECRET}"
    assert shell.run("set", "job:A", "EVERY:1h", "--ping-url", url).returncode == 0
    assert shell.run("set", "job:A", "EVERY:2h").returncode == 0
    for command in (["tell", "job:A"], ["show", "job:A"], ["jobs"], ["log"], ["why", "job:A"], ["statuses"]):
        done = shell.run(*command)
        assert done.returncode == 0
        assert SECRET not in done.stdout + done.stderr
    assert '"ping-url": "https://ping.example/…"' in shell.run("tell", "job:A").stdout
    backup = shell.run("schedules", "--full").stdout
    assert url in backup
    (shell.folder / "backup.csv").write_text(backup)
    shell.run("unset", "job:A")
    assert shell.run("load", "backup.csv").returncode == 0
    assert shell.run("schedules", "--full").stdout == backup


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://h:8443/x?a=1#b", "https://h:8443/…"),
        ("http://[::1]:80/{jobid}", "http://[::1]:80/…"),
        ("http://h/{outcome}/{jobid}", "http://h/…"),
    ],
)
def test_a_url_is_allowed(url, shown):
    assert check_ping_url(url) == url
    assert mask(url) == shown


@pytest.mark.parametrize(
    ("url", "quoted"),
    [
        ("", "''"),
        ("h/s3cret", "'h/…'"),
        ("ftp://h/s3cret", "'ftp://h/…'"),
        ("http:///s3cret", "'http:///…'"),
        ("http://user:s3cret@h/x", "'http://h/…'"),
        ("http://h/s3cret/{job}", "'{job}' is neither"),
        ("http://h/{", "'{' is neither"),
        ("http://{jobid}/x", "'http://{jobid}/…'"),
        ("http://h:0/x", "'http://h:0/…'"),
        ("http://[::1/x", "'http://[::1/…'"),
        ("http://h/s3\ncret", "'http://h/…'"),
        ("http://h/é", "'http://h/…'"),
        ("http://h/" + "x" * MAX_LENGTH, f"{MAX_LENGTH} are allowed"),
        (5, "5"),
    ],
)
def test_a_bad_url_is_quoted_without_what_may_be_secret(url, quoted):
    with pytest.raises(BadConfig) as refused:
        check_ping_url(url)
    said = str(refused.value)
    assert said.startswith("bad ping-url ")
    assert quoted in said
    assert "s3cret" not in said
    assert len(said.splitlines()) == 1


def test_a_url_of_a_dispatcher_has_no_job_and_a_signal_is_the_last_part_of_the_path():
    assert check_dispatcher_url("http://h/x") == "http://h/x"
    for url in ("http://h/{jobid}", "http://h/{outcome}", "h"):
        with pytest.raises(BadConfig):
            check_dispatcher_url(url)
    assert add_signal("http://h/x?a=1", "fail") == "http://h/x/fail?a=1"
    assert add_signal("http://h", "start") == "http://h/start"
    assert add_signal("http://h/x/", "start") == "http://h/x/start"
    assert add_signal("http://h/x", "") == "http://h/x"
    assert fill("http://h/{jobid}/{outcome}", "A:{outcome}", "ok") == "http://h/A:%7Boutcome%7D/ok"


@pytest.fixture(autouse=True)
def _level(caplog):
    caplog.set_level(logging.WARNING)
