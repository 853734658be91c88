"""Hostile and broken input, one table: each gets its clear refusal or its right result, quickly, and harms nothing."""

import gc
import json
import logging
import os
import time

import pytest

from redbike import Redbike, RoundRobin
from redbike.cli import main
from redbike.keys import Keys
from tests.test_keys import GOOD

REFUSED, DONE, FAILED = 2, 0, 1
IDS = {
    REFUSED: ["", "x" * 513, "a\nb", "a\0b", "\udcff", "\r\nFLUSHALL\r\n", "\x1b[31m"],
    DONE: [jobid for jobid in GOOD if not jobid.endswith(":")],  # also members, *, {x}:A, ../../x, %s and their like
}
NO_QUEUE = ["a:", ":"]  # with the stock workers
SCHEDULES = {
    REFUSED: [
        "",
        "AT:",
        "AT:abc",
        "AT:-1",
        "AT:nan",
        "AT:inf",
        "AT:1e400",
        "AT:" + "9" * 20,
        "EVERY:0",
        "EVERY:-5m",
        "EVERY:nan",
        "EVERY:",
        "EVERY:15m@soon",
        "every day",
        "NOW!",
        "0 0 30 2 *",
        "* * * *",
        "* * * * * * * *",
        "61 * * * *",
        "@reboot",
        "R R * * *",
        "*/" + "9" * 5000 + " * * * *",
        "\u0661 * * * *",
        "0 0 * * *\0",
        "* * 30 2 * *",
        ",".join("0" * 141_500) + " * * * *",
        "x" * 9000,
        "RRULE:FREQ=DAILY;INTERVAL=0",
        "RRULE:FREQ=DAILY;INTERVAL=-1",
        "RRULE:FREQ=DAILY;COUNT=0",
        "RRULE:FREQ=SOMETIMES",
        "RRULE:FREQ=DAILY;BYDAY=99MO",
        *(f"RRULE:FREQ={freq};BYMONTHDAY=30;BYMONTH=2" for freq in ("SECONDLY", "MINUTELY", "DAILY", "YEARLY")),
        "RRULE:FREQ=DAILY;BYHOUR=9;BYSETPOS=2",
        "DTSTART:20200101T000000\nRRULE:FREQ=DAILY\nEXRULE:FREQ=DAILY",
        "RRULE:FREQ=DAILY;FREQ=HOURLY",
        "RRULE:FREQ=MONTHLY;BYMONTHDAY=0",
        "\n".join(["RRULE:FREQ=DAILY"] * 400),
        "\n".join(["RRULE:FREQ=DAILY"] * 3000),
        "DTSTART;TZID=../../../../etc/passwd:20300101T000000\nRRULE:FREQ=DAILY",
        "DTSTART;TZID=/etc/passwd:20300101T000000\nRRULE:FREQ=DAILY",
        "DTSTART;TZID=Mars/Olympus:20300101T000000\nRRULE:FREQ=DAILY",
        "CRON_TZ=../../etc/passwd 0 0 * * *",
        "STOP IT",
    ],
    DONE: [
        "now",
        "AT:1.5",
        "AT:4102444800000"[:13],
        "AT:2069-07-20T20:17:40.5Z",
        "every:1H30M",
        "continue",
        "0 0 29 2 mon#5",
        "*/100 * * * *",
        "59-0 * * * *",
        "0 0 * * mon-sun/99",
        "H H * * *",
        "RRULE:FREQ=DAILY;COUNT=1000000000",
        "RRULE:FREQ=MINUTELY;BYSECOND=60",
        "DTSTART:19700101T000000\nRRULE:FREQ=SECONDLY",
        "DTSTART:20150101T000000\nRRULE:FREQ=MINUTELY",
        "DTSTART:20200101T000000\nRRULE:FREQ=DAILY;UNTIL=20990101T000000Z",
        "freq=daily",
    ],
}
TIMESTAMPS = ["", "abc", "-1", "nan", "inf", "1e400", "9" * 20, "2020-13-01", "soon"]
CONFIGS = [
    "[redbike]\nprefix: *\n",
    "[redbike]\ndefault-timeout: yes\n",
    "[redbike]\nprefix: a b\n",
    "[redbike]\ndefault-timeout: 0\n",
    "[redbike]\ndefault-timeout: -1\n",
    "[redbike]\ndefault-timeout: nan\n",
    "[redbike]\ndefault-timeout: soon\n",
    "[redbike]\ndefault-timeout: 1000000000000\n",
    "[redbike]\nretries: 2.5\n",
    "[redbike]\ncatchup: sometimes\n",
    "[redbike]\ntimezone: Mars/Olympus\n",
    "[redbike]\ntimezone: ../../etc/passwd\n",
    "[redbike]\nprefx: app\n",
    "[redbike]\nworker: :__import__('os').system('touch pwned')\n",
    "[redbike]\nworker: os:system('touch pwned')\n",
    "[redbike]\nworker: nowhere:Worker()\n",
    "[redbike-redis]\nport: many\n",
    "[redbike-redis]\nhots: localhost\n",
    "[redbike-redis]\nurl: redis://x\nport: 1\n",
    "[redbike-redis]\nurl: gopher://user:hunter2@x\n",
    "no section\n",
    "[redbike]\nprefix: a\nprefix: b\n",
]


@pytest.fixture
def run(client, server_url, tmp_path, monkeypatch, capsysbinary):
    """Runs a command; (exit status, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDBIKE_URL", server_url)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level

    def run(*arguments):
        capsysbinary.readouterr()
        # Time of the processor, as others may be busy on this machine; and not for the garbage of other tests.
        gc.disable()
        began = time.process_time()
        status = main(list(arguments))
        spent = time.process_time() - began
        gc.enable()
        assert spent < 0.05
        out, err = (said.decode(errors="surrogateescape") for said in capsysbinary.readouterr())
        assert "Traceback" not in err
        assert "hunter2" not in err
        return status, out, err

    yield run
    root.handlers[:] = handlers
    root.setLevel(level)


def dump(client):
    return {key: client.dump(key) for key in client.scan_iter() if key != Keys("redbike").requests.encode()}


def refused_in_one_line(said):
    status, out, err = said
    assert status == REFUSED, err
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("redbike: ")


@pytest.mark.parametrize("jobid", IDS[REFUSED] + NO_QUEUE)
def test_a_job_id_that_cannot_be_set(run, client, jobid):
    refused_in_one_line(run("set", "--", jobid, "NOW"))
    assert dump(client) == {}


@pytest.mark.parametrize("jobid", IDS[REFUSED])
@pytest.mark.parametrize("verb", ["requeue", "tell", "unset"])
def test_a_job_id_that_is_none(run, client, jobid, verb):
    refused_in_one_line(run(verb, "--", jobid))
    assert dump(client) == {}


@pytest.mark.parametrize("jobid", IDS[DONE])
def test_a_job_id_that_is_none_of_our_business(run, jobid):
    assert run("set", "--", jobid, "NOW")[0] == DONE
    assert json.loads(run("tell", "--", jobid)[1])["status"].startswith("ENQ:")
    assert run("fsck")[:2] == (DONE, "")
    assert run("unset", "--", jobid)[0] == DONE
    assert run("statuses")[1] == ""


@pytest.mark.parametrize("text", SCHEDULES[REFUSED])
def test_a_schedule_that_is_refused_changes_nothing_of_a_job_that_exists(run, client, text):
    run("set", "job:A", "EVERY:1h")
    before = dump(client)
    refused_in_one_line(run("set", "--", "job:A", text))
    assert dump(client) == before
    refused_in_one_line(run("set", "--", "new:A", text))
    assert json.loads(run("tell", "new:A")[1])["status"].startswith("BAD:")
    assert run("fsck")[:2] == (DONE, "")


@pytest.mark.parametrize("text", SCHEDULES[DONE])
def test_a_schedule_that_is_one_after_all(run, text):
    assert run("set", "job:A", text)[0] == DONE
    assert run("fsck")[:2] == (DONE, "")


@pytest.mark.parametrize("text", TIMESTAMPS)
def test_a_timestamp_that_is_refused(run, client, text):
    refused_in_one_line(run("set", "job:A", "0 3 * * *", f"--after={text}"))
    refused_in_one_line(run("statuses", f"--before={text}"))
    assert dump(client) == {}


@pytest.mark.parametrize("content", CONFIGS)
def test_a_config_that_is_refused(run, client, tmp_path, content, monkeypatch):
    if "redbike-redis" in content:
        monkeypatch.delenv("REDBIKE_URL")
    (tmp_path / "hostile.conf").write_text(content)
    refused_in_one_line(run("--config=hostile.conf", "set", "job:A", "NOW"))
    assert dump(client) == {}
    assert not (tmp_path / "pwned").exists()


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
        (lambda path: path.write_text(""), "ignored"),
        (lambda path: path.write_text("soon"), "ignored"),
        (lambda path: path.write_text("-1\n"), "ignored"),
        (lambda path: path.write_text("4000000000.0\n"), "future"),
        (lambda path: path.mkdir(), "ignored"),
        (lambda path: path.symlink_to(path), "ignored"),
        (lambda path: path.symlink_to("/dev/zero"), "ignored"),
        (os.mkfifo, "ignored"),
        (lambda path: (path.touch(), os.truncate(path, 1 << 30)), "ignored"),
    ],
    ids=["none", "empty", "text", "negative", "future", "folder", "loop", "device", "fifo", "gigabyte"],
)
def test_a_timefile_that_is_none_is_reported_and_the_job_is_set(run, tmp_path, make, complaint):
    make(tmp_path / "time")
    (tmp_path / ".redbike.conf").write_text("[redbike]\ntimefile: time\n")
    status, _, err = run("set", "job:A", "EVERY:1h")
    assert status == DONE
    assert len(err.splitlines()) == (1 if complaint else 0)
    assert (complaint or "") in err


KINDS = {
    "schedules": "hash",
    "statuses": "hash",
    "timeline": "zset",
    "queued": "hash",
    "running": "hash",
    "leases": "zset",
    "streaks": "hash",
    "skipped": "hash",
    "queues": "set",
    "wakeup": "list",
    "failures": "hash",
    "failure-times": "zset",
    "dispatched": "zset",
    "requests": "zset",
    "control": "string",
    "halt": "list",
    "work-A": "list",
    "wake-work-A": "list",
    "inflight-job:A": "string",
}
COMMANDS = [
    ("set", "job:A", "NOW"),
    ("set", "job:A", "EVERY:1h"),
    ("set", "job:A", "every day"),
    ("unset", "job:A"),
    ("requeue", "job:A"),
    ("tell", "job:A"),
    ("statuses",),
    ("schedules",),
    ("failures",),
    ("fsck",),
    ("control", "HALT"),
]


@pytest.mark.parametrize("name", KINDS)
def test_a_key_of_a_wrong_type_is_left_alone_and_nothing_is_done_by_half(run, client, name):
    key = f"redbike-{name}"
    client.xadd(key, {"wrong": "type"})
    for command in COMMANDS:
        before = dump(client)
        status, _, err = run(*command)
        assert len(err.splitlines()) <= 1
        # To say what became of a job, all that is kept of it is read once it is set.
        late = command[0] == "set" and name in ("failures", "inflight-job:A")
        if status == FAILED and err and not late:
            assert dump(client) == before
        assert client.type(key) == b"stream"
    client.delete(key)
    assert run("fsck")[:2] == (DONE, "")


@pytest.mark.parametrize("name", ["schedules", "statuses", "timeline", "queued", "running", "leases", "streaks"])
def test_a_key_of_a_wrong_type_is_named_and_left_alone(run, client, name):
    client.xadd(f"redbike-{name}", {"wrong": "type"})
    before = dump(client)
    status, out, err = run("set", "job:A", "NOW")
    assert (status, out) == (FAILED, "")
    assert len(err.splitlines()) == 1
    assert f"redbike-{name}" in err
    assert dump(client) == before


DAMAGES = {
    "a status without a colon": ("hset", "statuses", "job:A", "nothing"),
    "an empty status": ("hset", "statuses", "job:A", ""),
    "a status of bytes": ("hset", "statuses", "job:A", b"\xff\xfe:1"),
    "a schedule that is none": ("hset", "schedules", "job:A", "garbage"),
    "an empty schedule": ("hset", "schedules", "job:A", ""),
    "a schedule of bytes": ("hset", "schedules", "job:A", b"\xff"),
    "a schedule of a megabyte": ("hset", "schedules", "job:A", "x" * 1_000_000),
    "due at the end of time": ("zadd", "timeline", "inf", "job:A"),
    "due before its beginning": ("zadd", "timeline", "-inf", "job:A"),
    "due in an age": ("zadd", "timeline", "1e300", "job:A"),
    "a lease without a run": ("zadd", "leases", "5", "job:A"),
    "a lease for ever": ("zadd", "leases", "inf", "job:A"),
    "all is dispatched for ever": ("zadd", "dispatched", "inf", "until"),
    "nothing was ever dispatched": ("zadd", "dispatched", "-inf", "until"),
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


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("schedule", ["NOW", "EVERY:1h"])
def test_damage_in_redis_stops_no_command_and_no_other_job(run, client, server_url, schedule, name):
    command, key, *values = DAMAGES[name]
    bike = Redbike(RoundRobin("A"), redis_config=server_url)
    for verb in (*COMMANDS, ("next", "job:A")):
        client.flushall()
        bike.set("job:A", schedule)
        client.execute_command(command, f"redbike-{key}", *values)
        client.zadd("redbike-failure-times", {"job:A": 1.0})
        assert len(run(*verb)[2].splitlines()) <= 1
    client.flushall()
    bike.set("job:A", schedule)
    bike.set("other:A", "NOW")
    client.execute_command(command, f"redbike-{key}", *values)
    client.zadd("redbike-leases", {"job:A": 1.0}, nx=True)
    other = Redbike(RoundRobin("A"), redis_config=server_url)
    other.dispatch_due()
    assert "other:A" in [other.work_one() for _ in range(4)]


def test_what_stands_in_redis_and_is_none_of_ours_is_reported(run, client):
    run("set", "job:A", "NOW")
    client.hset("redbike-statuses", "orphan:A", "no colon")
    client.zadd("redbike-timeline", {"ghost:A": 1.0})
    client.hset("redbike-schedules", "nowhere:A", "CONTINUE")
    status, out, _ = run("fsck")
    assert status == FAILED
    assert sorted(line.partition(":A'")[0].strip("'") for line in out.splitlines()) == ["ghost", "nowhere", "orphan"]
