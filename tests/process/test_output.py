"""Output never decides what becomes of a job: readers that are gone, stalled or full, and streams that are closed."""

import os
import pty
import shlex
import signal
import subprocess
import sys

import pytest

from tests.commandline import make_module, memory_file, read
from tests.proc import children_of, is_gone, waits_in, worker_of
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

WORKER = """
import os, subprocess, sys, time
from redbike import RoundRobin

class Worker(RoundRobin):
    def work(self, jobid):
        with open("begun", "a") as file:
            print(jobid, file=file)
        name = jobid.partition(":")[0]
        while name == "long" and not os.path.exists("go"):
            time.sleep(0.01)
        if name == "flood":
            for number in range(40):
                os.write(1, (b"x" * 999 + b"\\n") * 1000)
        for number in range(100):
            print("line", number, "of", jobid, flush=True)
        print("warning", file=sys.stderr, flush=True)
        if name == "child":
            subprocess.run(["sh", "-c", "echo from a child"], check=True)

    def timeout(self, queue_name):
        return 1000.0
"""


def begun(jobs):
    path = jobs.folder / "begun"
    return path.read_text().split() if path.exists() else []


def start(jobs, *arguments, output):
    """Start it with a descriptor for what it prints, which is its own from then on."""
    with open(os.devnull) as null:
        process = jobs.spawn(arguments, null.fileno(), output, output)
    os.close(output)
    jobs.started.append(process)
    return process


@pytest.mark.parametrize("command", ["work", "up"])
def test_a_reader_that_goes_away_costs_no_job(jobs, command):
    reader, writer = os.pipe()
    process = start(jobs, command, "jobs:Worker('A')", output=writer)
    jobs.run_to_its_end("first:A")
    os.close(reader)
    jobs.run_to_its_end("child:A")
    process.terminate()
    assert process.wait(timeout=60) == 0


def test_a_reader_that_stalls_costs_no_job_and_no_memory(jobs):
    reader, writer = os.pipe()
    up = start(jobs, "up", "jobs:Worker('A')", output=writer)
    jobs.run_to_its_end("plain:A")
    before = memory_of(up.pid)
    jobs.run_to_its_end("flood:A")
    assert memory_of(up.pid) < before + 16e6
    os.kill(worker_of(up.pid), signal.SIGKILL)
    jobs.run_to_its_end("after:A")
    up.terminate()
    assert up.wait(timeout=60) == 0
    os.close(reader)


def test_a_worker_whose_output_nobody_reads_ends_what_overruns_and_stops(jobs):
    reader, writer = os.pipe()
    worker = start(jobs, "work", "jobs:Worker('A')", output=writer)
    assert jobs.bike.set("flood:A", "NOW", timeout=1)
    wait_until(lambda: jobs.status_of("flood:A") == "DIE")
    worker.terminate()
    assert worker.wait(timeout=60) == 0
    os.close(reader)


def memory_of(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_a_job_that_prints_a_flood_outlives_its_supervisor(jobs, number):
    (jobs.folder / "jobs.py").write_text(WORKER.replace('if name == "flood":', 'if name == "long":'))
    reader, writer = os.pipe()
    up = start(jobs, "up", "jobs:Worker('A')", output=writer)
    assert jobs.bike.set("long:A", "NOW")
    wait_until(lambda: "long:A" in begun(jobs))
    children = children_of(up.pid)
    up.send_signal(number)
    if number == signal.SIGKILL:
        up.wait()
        os.close(reader)
    (jobs.folder / "go").touch()
    wait_until(lambda: all(map(is_gone, children)))
    assert jobs.status_of("long:A") == "STP"
    assert list(jobs.bike.failures()) == []


def test_a_job_whose_output_nobody_reads_outlives_its_supervisor(jobs):
    (jobs.folder / "jobs.py").write_text(WORKER.replace('if name == "flood":', 'if name == "long":'))
    up = jobs.start("up", "jobs:Worker('A')")
    assert jobs.bike.set("long:A", "NOW")
    wait_until(lambda: "long:A" in begun(jobs))
    children, worker = children_of(up.pid), worker_of(up.pid)
    up.send_signal(signal.SIGSTOP)
    (jobs.folder / "go").touch()
    wait_until(lambda: waits_in(worker, "pipe_write"))
    up.send_signal(signal.SIGKILL)
    up.wait()
    wait_until(lambda: all(map(is_gone, children)))
    assert jobs.status_of("long:A") == "STP"


def test_a_terminal_that_is_closed_costs_no_job(jobs):
    leader, follower = pty.openpty()
    worker = start(jobs, "work", "jobs:Worker('A')", output=follower)
    jobs.bike.set("long:A", "NOW")
    wait_until(lambda: "long:A" in begun(jobs))
    os.close(leader)
    (jobs.folder / "go").touch()
    jobs.run_to_its_end("child:A")
    assert jobs.status_of("long:A") == "STP"
    assert worker.poll() is None


CLOSED = ">&- 2>&- <&-"


@pytest.mark.parametrize(
    ("command", "streams"),
    [("work", CLOSED), ("up", ">/dev/full 2>/dev/full"), ("up", "2>&-")],
)
def test_a_full_disk_or_a_closed_stream_costs_no_job(jobs, command, streams):
    line = f"exec {shlex.quote(sys.executable)} -m redbike {command} \"jobs:Worker('A')\" {streams}"
    process = subprocess.Popen(
        line, shell=True, cwd=jobs.folder, env=jobs.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    jobs.started.append(process)
    jobs.run_to_its_end("plain:A")
    process.terminate()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"Traceback" not in out + err
    assert b"Exception" not in out + err


@pytest.mark.parametrize("command", ["schedules", "tell job:A", "--help"])
def test_one_shot_commands_say_that_the_disk_is_full(jobs, command):
    assert jobs.run("set", "job:A", "EVERY:1h").returncode == 0
    with open("/dev/full", "w") as full, memory_file() as errors:
        process = jobs.spawn(tuple(command.split()), full.fileno(), full.fileno(), errors)
        assert process.wait(60) == 1
        assert read(errors) == "redbike: cannot write the output: No space left on device\n"


@pytest.mark.parametrize(
    ("command", "streams", "status"),
    [
        ("set job:A NOW", CLOSED, 0),
        ("tell nobody:A", ">&- 2>&-", 1),
        ("--help", ">&-", 0),
        ("set job:A NONSENSE", "2>/dev/full", 2),
    ],
)
def test_one_shot_commands_with_a_closed_stream(jobs, command, streams, status):
    assert jobs.run("set", "job:A", "EVERY:1h").returncode == 0
    line = f"{shlex.quote(sys.executable)} -m redbike {command} {streams}"
    done = subprocess.run(line, shell=True, cwd=jobs.folder, env=jobs.environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (status, "")


@pytest.mark.parametrize("encoding", ["ascii", "gbk"])
def test_text_that_the_locale_cannot_write_is_spelled_out(jobs, encoding):
    jobs.environment["PYTHONIOENCODING"] = encoding
    (jobs.folder / "jobs.py").write_text(make_module("print('half', chr(0xd800), chr(0xe9), chr(0x1f6b2), flush=True)"))
    worker = jobs.start("work", "jobs:Worker('A')")
    jobs.run_to_its_end("job:A")
    assert "half \\ud800" in (jobs.folder / "log").read_bytes().decode(encoding)
    assert worker.poll() is None
