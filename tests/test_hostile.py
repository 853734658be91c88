"""Hostile and broken input, one table: each gets its clear refusal or its right result, quickly, and harms nothing."""

import json
import logging
import time

import pytest

from redbike.cli import main
from redbike.keys import Keys
from tests.test_keys import GOOD

REFUSED, DONE, FAILED = 2, 0, 1
IDS = {
    REFUSED: ["", "x" * 513, "a\nb", "a\0b", "\udcff", "\r\nFLUSHALL\r\n", "\x1b[31m"],
    DONE: [jobid for jobid in GOOD if not jobid.endswith(":")],
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
        "x" * 9000,
        "RRULE:FREQ=DAILY;INTERVAL=0",
        "RRULE:FREQ=DAILY;INTERVAL=-1",
        "RRULE:FREQ=DAILY;COUNT=0",
        "RRULE:FREQ=SOMETIMES",
        "RRULE:FREQ=DAILY;BYDAY=99MO",
        "RRULE:FREQ=DAILY;BYMONTHDAY=30;BYMONTH=2",
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
        "H H * * *",
        "RRULE:FREQ=DAILY;COUNT=1000000000",
        "freq=daily",
    ],
}
TIMESTAMPS = ["", "abc", "-1", "nan", "inf", "1e400", "9" * 20, "2020-13-01", "soon"]
CONFIGS = [
    "[redbike]\nprefix: *\n",
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
def run(client, server_url, tmp_path, monkeypatch, capsys):
    """Runs a command; (exit status, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDBIKE_URL", server_url)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level

    def run(*arguments):
        capsys.readouterr()
        began = time.monotonic()
        status = main(list(arguments))
        assert time.monotonic() - began < 2
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        assert "hunter2" not in said.err
        return status, said.out, said.err

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


@pytest.mark.parametrize("name", ["schedules", "statuses", "timeline", "queued", "running", "leases", "streaks"])
def test_a_key_of_a_wrong_type_is_named_and_left_alone(run, client, name):
    client.xadd(f"redbike-{name}", {"wrong": "type"})
    before = dump(client)
    status, out, err = run("set", "job:A", "NOW")
    assert (status, out) == (FAILED, "")
    assert len(err.splitlines()) == 1
    assert f"redbike-{name}" in err
    assert dump(client) == before


def test_what_stands_in_redis_and_is_none_of_ours_is_reported(run, client):
    run("set", "job:A", "NOW")
    client.hset("redbike-statuses", "orphan:A", "no colon")
    client.zadd("redbike-timeline", {"ghost:A": 1.0})
    client.hset("redbike-schedules", "nowhere:A", "CONTINUE")
    status, out, _ = run("fsck")
    assert status == FAILED
    assert sorted(line.partition(":A'")[0].strip("'") for line in out.splitlines()) == ["ghost", "nowhere", "orphan"]
