"""Commands, their output, and their exit status."""

import json
import os
import re
import subprocess
import sys
import time

import pytest

from tests.cli.refused import check_refused
from tests.commandline import ROOT, Within, drop_waits, make_module, memory_file, read
from tests.durations import set_lines
from tests.waiting import wait_until

WORKER = make_module(
    'print(f"worked {jobid}", flush=True)', 'if jobid == "bad:A":', '    raise ValueError("as ordered")'
)
A_WORKER = "jobs:Worker('A')"
# Neither the loop nor the dispatcher looks for anything by itself.
ASLEEP = set_lines(wakeup__BLOCK=600, wakeup__SILENCE=700, dispatcher__LONGEST_SLEEP=600.0)


def test_set_tell_unset(shell):
    assert shell.run("set", "--", "--help", "0 3 * * *", "--tz", "Europe/Berlin").returncode == 2
    # An id that looks like an option needs two dashes.
    assert shell.run("set", "--tz", "Europe/Berlin", "--", "--help", "0 3 * * *").returncode == 0
    answer = json.loads(shell.read("tell", "--", "--help"))
    assert list(answer) == ["status", "next_run", "schedule", "working"]
    assert answer["schedule"] == "CRON_TZ=Europe/Berlin 0 3 * * *"
    assert shell.run("unset", "--", "--help").returncode == 0
    gone = shell.run("tell", "--", "--help")
    assert gone.returncode == 1
    assert json.loads(gone.stdout) == {"status": None, "next_run": None, "schedule": None, "working": False}
    done = shell.run("set", "--after=2002-01-01", "job:A", "AT:2001-01-01T00:00:00Z")
    assert (done.returncode, "nothing is left" in done.stderr) == (0, True)


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        (b"\n\njob:A,NOW\n\n", 0, ()),
        ("job:A,NOW\n".encode("utf-16"), 2, ("UTF-16",)),
        (b"j\xffb:A,NOW\nok:A,NOW\n", 2, ("line 1", "not UTF-8")),
        (b"job:A," + b"x" * 200_000 + b"\nok:A,NOW\n", 2, ("line 1",)),
    ],
)
def test_a_csv_file_as_spreadsheets_and_enemies_make_it(shell, content, status, words):
    (shell.folder / "jobs.csv").write_bytes(content)
    done = shell.run("load", "jobs.csv")
    assert done.returncode == status, done.stderr
    for word in words:
        assert word in done.stderr
    assert "Traceback" not in done.stderr
    if b"ok:A" in content:
        assert json.loads(shell.run("tell", "ok:A").stdout)["schedule"] == "NOW"


def test_dispatch_and_work_until_halt(jobs):
    (jobs.folder / "jobs.py").write_text(ASLEEP + WORKER)
    loops = [jobs.start("dispatch", A_WORKER, log="dispatch"), jobs.start("work", A_WORKER, "--concurrency=2")]
    jobs.run("set", "job:A", f"AT:{time.time() + 0.5}")
    wait_until(lambda: "worked job:A" in jobs.log())
    jobs.run("set", "bad:A", "NOW")
    wait_until(lambda: jobs.run("failures").stdout)
    assert jobs.run("run", "bad:A").returncode == 0
    wait_until(lambda: jobs.log().count("ERROR bad:A: ValueError: as ordered") == 2)
    assert jobs.run("control", "HALT").returncode == 0
    wait_until(lambda: [loop.poll() for loop in loops] == [0, 0], timeout=5.0)
    assert "Traceback" not in jobs.log("dispatch")
    later = jobs.start("work", A_WORKER)
    jobs.run("set", "job2:A", "NOW")
    wait_until(lambda: "worked job2:A" in jobs.log())
    assert later.poll() is None


def test_fsck_prints_what_is_wrong_and_exits_1(shell, client):
    shell.run("set", "job:A", "NOW")
    assert shell.run("fsck").returncode == 0
    client.lpush("redbike-work-A", "job:A")
    done = shell.run("fsck")
    assert done.returncode == 1
    assert done.stdout.splitlines() == ["'job:A': it is 2 times in the queue 'work-A'"]


def test_the_embedded_server_is_used_where_no_url_is(tmp_path):
    shell = Within(tmp_path, None)
    assert json.loads(shell.run("server", "status").stdout)["running"] is False
    done = shell.run("set", "job:A", "EVERY:1h")
    said = "redbike: started a server in '.redbike'; redbike server stop ends it\n"
    assert (done.returncode, drop_waits(done.stderr.splitlines(True))) == (0, [said])
    assert shell.run("unset", "job:A").stderr == ""
    assert shell.run("set", "job:A", "EVERY:1h").returncode == 0
    assert json.loads(shell.run("server", "status").stdout)["running"] is True
    assert shell.run("server", "stop").stdout == "stopped\n"
    check_refused(shell.run("tell", "job:A"), 1, f"no server runs in '{tmp_path}/.redbike'")
    assert shell.run("server", "stop").stdout == "it was not running\n"
    assert drop_waits(shell.run("run", "job:A").stderr.splitlines(True)) == [said]
    assert shell.run("tell", "job:A").returncode == 0
    assert shell.run("server", "stop").stdout == "stopped\n"
    assert (tmp_path / ".redbike").stat().st_mode & 0o777 == 0o700


def test_whoever_starts_a_server_that_an_option_names_says_how_it_ends(tmp_path):
    shell = Within(tmp_path, None)
    done = shell.run("--url=embedded:my server", "set", "job:A", "EVERY:1h")
    [said] = drop_waits(done.stderr.splitlines())
    assert said == "redbike: started a server in 'my server'; redbike '--url=embedded:my server' server stop ends it"
    assert shell.run("--url=embedded:my server", "server", "stop").stdout == "stopped\n"


def test_whoever_lets_a_job_run_hears_what_is_paused(shell, bike):
    bike.set("bad:A", "NOW")
    assert bike.work_one() == "bad:A"
    bike.set("daily:A", "0 3 * * *")
    verbs = (
        "set new:A NOW",
        "now -- true",
        "run daily:A",
        "run *:A",
        "backfill daily:A --from=2026-01-05 --to=2026-01-06",
    )

    def tell(words):
        done = shell.run(*words.split())
        assert done.returncode == 0, done
        return [line for line in done.stderr.splitlines() if "paused" in line]

    assert tell("pause --all --until=30m --reason=deploy") == []
    for words in ("run --failed", *verbs):
        [said] = tell(words)
        assert re.fullmatch(r"redbike: everything is paused since .* UTC by .*, until .* UTC \(deploy\)", said)
    # Nor where nothing is to run, or not yet.
    assert [tell(words) for words in ("in 1h -- true", "run daily:A --dry-run", "set new:A STOP")] == [[]] * 3
    assert tell("cancel daily:A") == []
    bike.resume_all()
    assert [tell(words) for words in verbs] == [[]] * len(verbs)
    bike.pause_queue("A", reason="the disk")
    for words in ("set new:A NOW", "run daily:A"):
        [said] = tell(words)
        assert re.fullmatch(r"redbike: (new|daily):A: its queue work-A is paused since .* \(the disk\)", said)
    bike.set("daily:B", "EVERY:1d")
    assert len(tell("run daily:* new:A")) == 1
    bike.pause_queue("B")
    assert [line.split()[1] for line in tell("run daily:B daily:A new:A")] == ["daily:B:", "daily:A:"]


def test_output_to_a_closed_pipe_is_no_error_message(shell, bike):
    # More than a pipe holds.
    list(bike.set_many((f"{n}{'x' * 100}:A", "EVERY:1h@0") for n in range(2000)))
    reader, writer = os.pipe()
    with open(reader) as shown, memory_file() as said, open(os.devnull) as null:
        process = shell.spawn(("schedules",), null.fileno(), writer, said)
        os.close(writer)
        assert shown.readline().endswith(":A,EVERY:1h@0\n")
        shown.close()
        assert process.wait(60) == 1
        assert read(said) == ""


def test_next_shows_the_coming_instants_and_says_them_in_words(tmp_path):
    # There is no server at this address: none is needed.
    shell = Within(tmp_path, "unix:///nowhere/redis.sock")
    shown = shell.read("next", "30 1 * * *", "--count=2", "--tz=Europe/Berlin", "--after=2030-10-26T12:00:00Z")
    sentence, *instants = shown.splitlines()
    assert "01:30" in sentence
    assert [line.split("  ")[:2] for line in instants] == [
        ["2030-10-27T01:30:00+02:00", "2030-10-26T23:30:00Z"],
        ["2030-10-28T01:30:00+01:00", "2030-10-28T00:30:00Z"],
    ]
    assert all(line.split("  ")[2].startswith("in ") for line in instants)
    over = shell.run("next", "DTSTART:20200101T000000Z\nRRULE:FREQ=DAILY;COUNT=1")
    assert (over.returncode, over.stderr) == (0, "redbike: no further runs\n")
    assert shell.run("next", "CONTINUE").stderr == ""
    hashed = shell.run("next", "CRON_TZ=UTC 0 H 3,h * *")
    assert hashed.stderr.startswith("redbike: H is its lowest value here")
    assert "T00:00:00" in hashed.stdout.splitlines()[1]
    # Times are read in the zone that is given.
    after = shell.run("next", "0 * * * *", "--tz=Asia/Tokyo", "--after=2026-01-01T00:00", "--count=1")
    assert after.stdout.splitlines()[1].startswith("2026-01-01T01:00:00+09:00")
    assert "9999-12-31T23:59:59Z" in shell.read("next", "AT:9999-12-31T23:59:59Z", "--tz=Asia/Tokyo", "--count=1")


@pytest.mark.parametrize(("verb", "status"), [("run", 1), ("cancel", 0)])
def test_the_command_line_says_that_a_base_has_no_job_on_any_host(shell, bike, verb, status):
    bike.set("clean:A@all", "EVERY:1h")
    done = shell.run(verb, "clean:A@all")
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    assert "clean:A@all: it has no job on any host" in done.stderr


@pytest.mark.acceptance
def test_no_file_is_opened_in_the_encoding_of_the_locale(tmp_path):
    (tmp_path / "jobs.csv").write_text("ä:A,@hourly\n", encoding="utf-8")
    (tmp_path / ".redbike.conf").write_text("[redbike]\ntimefile: time\n", encoding="utf-8")
    lines = ("server start", "load jobs.csv", "tell ä:A", "fsck", "schedules", "server stop")
    code = f"from redbike.cli import main; print([main(line.split()) for line in {lines!r}])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    # So Python says of each file that it is opened in the locale's encoding, which is UTF-8 in most places.
    command = [sys.executable, "-X", "warn_default_encoding", "-W", "error::EncodingWarning", "-c", code]
    said = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", timeout=100)
    assert said.stdout.endswith(f"{[0] * len(lines)}\n"), said.stderr
    assert "Warning" not in said.stderr
