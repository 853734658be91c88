"""Hostile and broken input: each gets its clear refusal or its right result, quickly, and harms nothing."""

import gc
import importlib
import json
import os
import pkgutil
import re
import shlex
import time

import pytest

from redbike import BadConfig, Limit, Redbike, RoundRobin, cli
from redbike.loop.policies import decide_asked_again, read_pause
from redbike.store.keys import FIXED, Keys
from redbike.store.next_state import NextState
from tests.commandline import Within
from tests.states import unchanged
from tests.store.test_keys import GOOD
from tests.verbs import take_one
from tests.waiting import SLOWNESS, wait_until

REFUSED, DONE, FAILED = 2, 0, 1
IDS = {
    REFUSED: ["", "x" * 513, "a\nb", "a\0b", "\udcff", "\r\nFLUSHALL\r\n", "\x1b[31m"],
    DONE: [jobid for jobid in GOOD if not jobid.endswith(":")],  # also members, *, {x}:A, ../../x, %s and their like
}
NO_QUEUE = ["a:", ":"]  # with the stock workers
SCHEDULES = {
    REFUSED: [
        "",
        "AT:1e400",
        "0 0 30 2 *",
        "*/" + "9" * 5000 + " * * * *",
        "\u0661 * * * *",
        "0 0 * * *\0",
        ",".join("0" * 141_500) + " * * * *",
        "x" * 9000,
        *(f"RRULE:FREQ={freq};BYMONTHDAY=30;BYMONTH=2" for freq in ("SECONDLY", "MINUTELY", "DAILY", "YEARLY")),
        "\n".join(["RRULE:FREQ=DAILY"] * 400),
        "\n".join(["RRULE:FREQ=DAILY"] * 3000),
        "DTSTART;TZID=../../../../etc/passwd:20300101T000000\nRRULE:FREQ=DAILY",
    ],
    DONE: [
        "AT:2069-07-20T20:17:40.5Z",
        "every:1H30M",
        "0 0 29 2 mon#5",
        "59-0 * * * *",
        "RRULE:FREQ=DAILY;COUNT=1000000000",
        "RRULE:FREQ=MINUTELY;BYSECOND=60",
        "DTSTART:19700101T000000\nRRULE:FREQ=SECONDLY",
        "DTSTART:20150101T000000\nRRULE:FREQ=MINUTELY",
    ],
}
CONFIGS = [
    "[redbike]\nprefix: *\n",
    "[redbike]\ndefault-timeout: 1000000000000\n",
    "[redbike]\ntimezone: ../../etc/passwd\n",
    "[redbike]\nworker: :__import__('os').system('touch pwned')\n",
    "[redbike-redis]\nurl: gopher://user:hunter2@x\n",
    "[redbike]\nprefix: a\nprefix: b\n",
]


@pytest.fixture(scope="module", autouse=True)
def _imports():
    """What a command imports when a process runs it first takes longer than any input may."""
    for module in pkgutil.iter_modules(cli.__path__, f"{cli.__name__}."):
        importlib.import_module(module.name)


@pytest.fixture
def shell(client, server_url, tmp_path):
    shell = Within(tmp_path, server_url)
    yield shell
    shell.close()


@pytest.fixture
def run(shell):
    """Runs a command; (exit status, standard output, standard error)."""

    def run(*arguments):
        # Time of the processor, which is also more when others are busy here; and not for the garbage of other tests.
        gc.disable()
        began = time.process_time()
        done = shell.run(*arguments)
        spent = time.process_time() - began
        gc.enable()
        assert spent < 0.1 * max(SLOWNESS, 2)
        assert "Traceback" not in done.stderr
        assert "hunter2" not in done.stderr
        return done.returncode, done.stdout, done.stderr

    return run


def dump(client):
    return {key: client.dump(key) for key in client.scan_iter() if key != Keys("redbike").requests.encode()}


def refused_in_one_line(said):
    status, out, err = said
    assert status == REFUSED, err
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("redbike: ")


@pytest.mark.parametrize("jobid", IDS[REFUSED] + NO_QUEUE)
def test_a_job_id_that_is_none(run, client, jobid):
    refused_in_one_line(run("set", "--", jobid, "NOW"))
    for verb in ("run", "tell", "unset") if jobid not in NO_QUEUE else ():
        refused_in_one_line(run(verb, "--", jobid))
    assert dump(client) == {}


@pytest.mark.parametrize("jobid", IDS[DONE])
def test_a_job_id_that_is_none_of_our_business(run, jobid):
    assert run("set", "--", jobid, "NOW")[0] == DONE
    assert json.loads(run("tell", "--", jobid)[1])["status"].startswith("ENQ:")
    assert run("fsck")[:2] == (DONE, "")
    assert run("unset", "--", jobid)[0] == DONE
    assert run("statuses")[1] == ""


@pytest.mark.parametrize("text", SCHEDULES[REFUSED], ids=lambda text: text[:30])
def test_a_schedule_that_is_refused_changes_nothing_of_a_job_that_exists(run, client, text):
    run("set", "job:A", "EVERY:1h")
    before = dump(client)
    refused_in_one_line(run("set", "--", "job:A", text))
    assert dump(client) == before
    refused_in_one_line(run("set", "--", "new:A", text))
    assert json.loads(run("tell", "new:A")[1])["status"] is None
    assert run("fsck")[:2] == (DONE, "")


@pytest.mark.parametrize("text", SCHEDULES[DONE])
def test_a_schedule_that_is_one_after_all(run, text):
    assert run("set", "job:A", text)[0] == DONE
    assert run("fsck")[:2] == (DONE, "")


@pytest.mark.parametrize("content", CONFIGS)
def test_a_config_that_is_refused(run, shell, client, content):
    if "redbike-redis" in content:
        del shell.environment["REDBIKE_URL"]
    (shell.folder / "hostile.conf").write_text(content)
    refused_in_one_line(run("--config=hostile.conf", "set", "job:A", "NOW"))
    assert dump(client) == {}
    assert not (shell.folder / "pwned").exists()


def test_ids_that_only_look_alike_are_two_jobs(run):
    for jobid in ("cafe\u0301:A", "caf\xe9:A"):
        assert run("set", jobid, f"AT:{4e9 + len(jobid):.0f}")[0] == DONE
    assert json.loads(run("tell", "cafe\u0301:A")[1])["schedule"] == "AT:4000000007"
    assert json.loads(run("tell", "caf\xe9:A")[1])["schedule"] == "AT:4000000006"


def test_no_zone_is_read_from_a_file_that_a_schedule_names(run, client, tmp_path):
    # Who opens it waits for ever.
    os.mkfifo(tmp_path / "fifo")
    for zone in (f"{tmp_path}/fifo", f"../../../..{tmp_path}/fifo"):
        refused_in_one_line(run("set", "job:A", f"DTSTART;TZID={zone}:20300101T000000\nRRULE:FREQ=DAILY"))
        refused_in_one_line(run("set", "job:A", f"CRON_TZ={zone} 0 0 * * *"))
        refused_in_one_line(run("set", "job:A", "0 0 * * *", f"--tz={zone}"))
    assert client.hlen("redbike-schedules") == 0


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda path: None, None),
        (lambda path: path.write_text("soon"), "ignored"),
        (lambda path: path.symlink_to("/dev/zero"), "ignored"),
        (os.mkfifo, "ignored"),
        (lambda path: (path.touch(), os.truncate(path, 1 << 30)), "ignored"),
    ],
    ids=["none", "text", "device", "fifo", "gigabyte"],
)
def test_a_timefile_that_is_none_is_reported_and_the_job_is_set(run, tmp_path, make, complaint):
    make(tmp_path / "time")
    (tmp_path / ".redbike.conf").write_text("[redbike]\ntimefile: time\n")
    status, _, err = run("set", "job:A", "EVERY:1h")
    assert status == DONE
    assert len(err.splitlines()) == (1 if complaint else 0)
    assert (complaint or "") in err


KINDS = FIXED | {
    "work-A": "list",
    "wake-work-A": "list",
    "tombstones-work-A": "set",
    "inflight-tag": "string",
}
LINES = """
set job:A NOW | set job:A EVERY:1h | set job:A 'every day' | unset job:A | run job:A | tell job:A | statuses | schedules
failures | log | workers | runs | queues | agenda | agenda job:A | jobs | jobs --overdue | show job:A | why job:A
why job:A --at=10000 | jobs --paused | health job:A | next job:A | metrics | check | fsck | control HALT
"""
COMMANDS = [tuple(shlex.split(line)) for line in re.split(r" \| |\n", LINES.strip())]
SHARE = 7  # has no divisor in common with the number of commands


def with_some_and_all(names):
    """Each name with some of the commands, others each time, and before a change is accepted with all of them."""
    some = [(name, COMMANDS[number % SHARE :: SHARE]) for number, name in enumerate(names)]
    every = [pytest.param(name, COMMANDS, marks=pytest.mark.acceptance) for name in names]
    ids = [f"{name}-{kind}" for kind in ("some", "all") for name in names]
    return pytest.mark.parametrize(("name", "commands"), some + every, ids=ids)


@with_some_and_all(KINDS)
def test_a_key_of_a_wrong_type_is_left_alone_and_nothing_is_done_by_half(run, client, name, commands):
    key = f"redbike-{name}"
    client.xadd(key, {"wrong": "type"})
    for command in commands:
        before = dump(client)
        status, _, err = run(*command)
        assert len(err.splitlines()) <= 1
        if status == FAILED and err:
            assert dump(client) == before
        if "WRONGTYPE" in err:
            assert f"WRONGTYPE {key} is a stream, not a {KINDS[name]}" in err
        assert client.type(key) == b"stream"
    if name not in ("inflight-tag", "control"):
        if name != "queues":
            client.sadd("redbike-queues", "work-A")
        assert run("fsck")[1] == f"the key '{key}' is a stream, not a {KINDS[name]}, so the jobs cannot be checked\n"
    client.delete(key)
    assert run("fsck")[:2] == (DONE, "")


def test_of_an_in_flight_key_no_type_is_expected(client, server_url):
    """The tag of a run is new, so nothing can be there; what is put there later is replaced with the run."""
    bike = Redbike(RoundRobin("A"), redis_config=server_url)
    assert bike.set("job:A", "EVERY:1h")
    bike.run("job:A")
    client.xadd("redbike-inflight-tag", {"wrong": "type"})
    run = take_one(bike.store, [("work-A", 10.0)], "other")
    client.delete("redbike-inflight-other")
    client.xadd("redbike-inflight-other", {"wrong": "type"})
    assert bike.store.runs.heartbeat([run]) == ["ok"]
    assert bike.store.runs.end(run, NextState("next", 4e9))[:2] == ("ok", "timeline")
    assert client.exists("redbike-inflight-other") == 0
    assert client.type("redbike-inflight-tag") == b"stream"


def test_a_key_that_is_of_a_wrong_type_while_a_worker_waits_is_named(client, shell):
    worker = shell.start("work", "redbike:RoundRobin('A')")
    wait_until(lambda: any(each["cmd"] == "blpop" for each in client.client_list()))
    client.xadd("redbike-statuses", {"wrong": "type"})
    client.hset("redbike-schedules", "job:A", "NOW")
    client.lpush("redbike-work-A", "job:A")
    client.lpush("redbike-wake-work-A", "1")
    assert worker.wait(timeout=60) == FAILED
    assert "WRONGTYPE redbike-statuses is a stream, not a hash" in shell.log().splitlines()[-1]
    assert client.llen("redbike-work-A") == 1, "nothing was taken"


DAMAGES = {
    "a status without a colon": ("hset", "statuses", "job:A", "nothing"),
    "a status of bytes": ("hset", "statuses", "job:A", b"\xff\xfe:1"),
    "a schedule that is none": ("hset", "schedules", "job:A", "garbage"),
    "a schedule of bytes": ("hset", "schedules", "job:A", b"\xff"),
    "a schedule of a megabyte": ("hset", "schedules", "job:A", "x" * 1_000_000),
    "due at the end of time": ("zadd", "timeline", "inf", "job:A"),
    "due in an age": ("zadd", "timeline", "1e300", "job:A"),
    "a lease without a run": ("zadd", "leases", "5", "job:A"),
    "a lease for ever": ("zadd", "leases", "inf", "job:A"),
    "a lease of a tag without a list": ("zadd", "leases", "5", "tag"),
    "a lease of nobody": ("zadd", "leases", "5", ""),
    "a lease of bytes": ("zadd", "leases", "5", b"\xff\n"),
    "a list of a tag of garbage": ("hset", "batches", "tag", "garbage"),
    "a list of a tag of bytes": ("hset", "batches", "tag", b"\n\xff\n\xfe\n"),
    "an empty list of a tag": ("hset", "batches", "tag", ""),
    "an endless list of a tag": ("hset", "batches", "tag", "y\n" * 100_000),
    "a list of a tag with an idle job": ("hset", "batches", "tag", "\njob:A\n"),
    "a list of a tag with a job twice": ("hset", "batches", "tag", "\nother:A\nother:A\n"),
    "a list of a tag with the tag of another": ("hset", "batches", "tag", "\ntag\n"),
    "a list of no tag": ("hset", "batches", "", "\nother:A\n"),
    "an in-flight key of garbage": ("set", "inflight-tag", b"\xff garbage"),
    "an in-flight key of a job that waits": ("set", "inflight-tag", "\nother:A\n"),
    "an in-flight key without a tag": ("set", "inflight-", "\nother:A\n"),
    "a tombstone for a job that is set": ("sadd", "tombstones-work-A", "job:A"),
    "a tombstone for nobody": ("sadd", "tombstones-work-A", ""),
    "a tombstone of bytes": ("sadd", "tombstones-work-A", b"\xff\n"),
    "tombstones without a list": ("sadd", "tombstones-work-B", "job:A", "other:A"),
    "tombstones of no queue": ("sadd", "tombstones-", "job:A"),
    "all is dispatched for ever": ("zadd", "dispatched", "inf", "until"),
    "a run that is none": ("hset", "running", "job:A", "garbage"),
    "a run without numbers": ("hset", "running", "job:A", "tag a b c d e - work-A"),
    "a count that is none": ("hset", "skipped", "missed:job:A", "many"),
    "a failure that is no JSON": ("hset", "failures", "job:A", "nothing"),
    "a failure of another shape": ("hset", "failures", "job:A", "[1]"),
    "a signal of bytes": ("set", "control", b"\xff garbage"),
    "bytes in a queue": ("lpush", "work-A", b"\xff\n"),
    "an empty id in a queue": ("lpush", "work-A", ""),
    "an endless id in a queue": ("lpush", "work-A", "y" * 100_000),
    "a queue of bytes": ("sadd", "queues", b"\xff\n"),
    "a queue with the name of a key": ("sadd", "queues", "statuses"),
}


@pytest.mark.acceptance
@pytest.mark.parametrize("number", range(len(DAMAGES)), ids=[*DAMAGES])
def test_damage_in_redis_stops_no_command_and_no_other_job(run, client, server_url, number):
    (command, key, *values), schedule = [*DAMAGES.values()][number], ["NOW", "EVERY:1h"][number % 2]
    bike = Redbike(RoundRobin("A"), redis_config=server_url)
    for verb in COMMANDS:
        client.flushall()
        bike.set("job:A", schedule)
        client.execute_command(command, f"redbike-{key}", *values)
        client.zadd("redbike-failure-times", {"job:A": 1.0})
        assert len(run(*verb)[2].splitlines()) <= 1
    client.flushall()
    bike.set("job:A", schedule)
    bike.set("other:A", "NOW")
    client.execute_command(command, f"redbike-{key}", *values)
    client.zadd("redbike-leases", {"job:A": 1.0, "tag": 1.0}, nx=True)
    other = Redbike(RoundRobin("A"), redis_config=server_url)
    other.dispatch_due()
    assert [other.work_one() for _ in range(4)].count("other:A") == 1
    # Its line in the log is not to appear among those of a command.
    assert other._loops.one
    other._loops.one.ends.run_log.stop()


HUGE = 10**5000  # Python prints no integer of more than 4,300 digits, except in hexadecimal


@pytest.mark.parametrize("number", [HUGE, -HUGE], ids=["huge", "-huge"])
@pytest.mark.parametrize(
    "call",
    [
        lambda bike, number: bike.set("job:A", "EVERY:2h", retries=number),
        lambda bike, number: bike.set("job:A", "EVERY:2h", timeout=number),
        lambda bike, number: bike.set("job:A", "EVERY:2h", on_error=number),
        lambda bike, number: bike.set("job:A", "EVERY:2h", after=number),
        lambda bike, number: bike.pause("job:A", until=number),
        lambda bike, number: bike.runs(limit=-abs(number)),
        lambda bike, number: bike.agenda(hours=number),
        lambda bike, number: bike.health(max_lag=number),
        lambda bike, number: bike.limit("A", at_once=number),
        lambda bike, number: Limit(at_once=number),
    ],
)
def test_a_huge_number_is_quoted_and_changes_nothing(bike, call, number):
    assert bike.set("job:A", "EVERY:1h")
    with unchanged(bike.store), pytest.raises(BadConfig, match=r"-?0x"):
        call(bike, number)


def test_a_pause_that_work_asks_for_is_quoted():
    with pytest.raises(ValueError, match=r"work\(\) returned 0x.* 0 to 1e9 seconds"):
        read_pause(HUGE)
    with pytest.raises(ValueError, match=r"Again\(after=0x"):
        decide_asked_again(None, HUGE)
