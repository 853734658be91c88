"""Where worker classes come from, who makes one, and what is said of those that misbehave."""

import socket
import sys

import pytest

from redbike import BadConfig, RoundRobin
from redbike.worker.loader import load_placer
from tests.commandline import ROOT, make_module
from tests.proc import children_of
from tests.waiting import wait_until

WORKER = """
import os, socket
from redbike import RoundRobin

class Worker(RoundRobin):
    def __init__(self, queues, port=0):
        super().__init__(queues)
        with open("made", "a") as file:
            print(os.getpid(), file=file)
        if port:
            self.socket = socket.create_server(("127.0.0.1", port))

    def work(self, jobid):
        import queue, redis, calendar
        print("worked", jobid, queue.Queue.__name__, redis.Redis.__name__, calendar.MONDAY, flush=True)

class Own(Worker):
    def queue_for(self, jobid):
        return "work-A"

class Static(Worker):
    @staticmethod
    def queue_for(jobid):
        return "work-A"

class Renamed(Worker):
    def name_queue(self, code):
        return "work-A"
"""


@pytest.fixture
def installed(jobs):
    """Starts ``redbike`` as it is when it is installed: the current folder is no place for modules."""
    (jobs.folder / "bin.py").write_text(
        f"import sys\nsys.path.append({str(ROOT)!r})\nfrom redbike.cli.entry import main\nsys.exit(main())\n"
    )
    del jobs.environment["PYTHONPATH"]
    jobs.command = lambda arguments: [sys.executable, "-P", "bin.py", *arguments]
    return jobs


def works(jobs, jobid):
    jobs.bike.set(jobid, "NOW")
    wait_until(lambda: f"worked {jobid} Queue Redis 0" in jobs.log())


def made(jobs):
    return (jobs.folder / "made").read_text().split()


# Also: the children of `up` have the package of their parent.
@pytest.mark.parametrize("command", ["work", pytest.param("up", marks=pytest.mark.acceptance)])
def test_modules_of_the_current_folder_hide_none_of_ours(installed, command):
    for name in ("queue", "redis", "redbike", "calendar", "docopt", "logging"):
        (installed.folder / f"{name}.py").write_text("raise SystemExit('this is the one in the current folder')\n")
    process = installed.start(command, "jobs:Worker('A')")
    works(installed, "job:A")
    process.terminate()
    assert process.wait(timeout=30) == 0
    assert "current folder" not in installed.log()


@pytest.mark.parametrize(
    ("command", "name"),
    [("work", "queue"), ("dispatch", "redbike"), pytest.param("up", "redis", marks=pytest.mark.acceptance)],
)
def test_a_worker_whose_module_has_such_a_name_is_told_so(jobs, command, name):
    (jobs.folder / f"{name}.py").write_text(WORKER)
    done = jobs.run(command, f"{name}:Worker('A')")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert f"'{name}.py' in the current folder is hidden by the module '{name}'" in line
    assert "give it another name" in line


@pytest.mark.acceptance
def test_a_job_may_spawn_processes(jobs):
    spawn = "child = multiprocessing.get_context('spawn').Process(target=time.sleep, args=(0,))"
    work = spawn, "child.start()", "child.join()", "print('child', child.exitcode, flush=True)"
    (jobs.folder / "jobs.py").write_text(make_module(*work, head="import multiprocessing, time"))
    up = jobs.start("up", "jobs:Worker('A')")
    jobs.bike.set("job:A", "NOW")
    wait_until(lambda: "child 0" in jobs.log())
    assert len(children_of(up.pid)) == 2


@pytest.mark.parametrize(("name", "number"), [("Worker", 2), pytest.param("Static", 1, marks=pytest.mark.acceptance)])
def test_up_makes_the_worker_class_in_its_workers_alone(jobs, name, number):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1] if number == 1 else 0
    (jobs.folder / "jobs.csv").write_text("first:A,NOW\n")
    up = jobs.start("up", f"jobs:{name}('A', port={port})", f"--processes={number}", "--schedules=jobs.csv")
    works(jobs, "job:A")
    wait_until(lambda: len(made(jobs)) == number)
    assert set(map(int, made(jobs))) < set(children_of(up.pid))
    up.terminate()
    assert up.wait(timeout=30) == 0


def test_a_class_that_cannot_be_made_twice_says_why_it_is(jobs):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = jobs.run("dispatch", f"jobs:Own('A', port={taken.getsockname()[1]})")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "Address already in use" in line
    assert "queue_for() of its own that is no staticmethod" in line


@pytest.mark.parametrize("name", ["Own", "Static", "Renamed"])
def test_whoever_names_queues_does_it_as_the_class_does(jobs, name):
    assert jobs.run("dispatch", f"jobs:{name}('A')", "--schedules=none.csv").returncode == 2
    (jobs.folder / ".redbike.conf").write_text(f"[redbike]\nworker: jobs:{name}('A')\n")
    assert jobs.run("set", "job:elsewhere", "NOW").returncode == 0
    assert jobs.bike.client.lrange("redbike-work-A", 0, -1) == [b"job:elsewhere"]


def test_a_placer_is_no_instance_where_none_is_needed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "placing_jobs.py").write_text(WORKER)
    assert type(load_placer("placing_jobs:Worker('A')", None, RoundRobin)) is RoundRobin
    assert load_placer("placing_jobs:Static('A')", None, RoundRobin).queue_for("any") == "work-A"
    assert not (tmp_path / "made").exists()
    assert type(load_placer("placing_jobs:Renamed('A')", None, RoundRobin)).__name__ == "Renamed"
    with pytest.raises(BadConfig, match="has no class"):
        load_placer("placing_jobs:Nobody('A')", None, RoundRobin)


@pytest.mark.parametrize(
    ("command", "method", "body", "said"),
    [
        ("set job:A NOW", "queue_for", "raise ValueError('no luck')", "queue_for() raised ValueError: no luck"),
        ("set job:A NOW", "queue_for", "return ''", "queue_for() gave a bad queue name ''"),
        ("load jobs.csv", "queue_for", "pass", "queue_for() gave a bad queue name None: not a text"),
        ("work", "queue_names", "raise ValueError('no luck')", "queue_names() or timeout() fails: ValueError: no luck"),
        pytest.param(
            *("up", "queue_names", "return 'work-A'", "queue_names() gives the text 'work-A'"),
            marks=pytest.mark.acceptance,
        ),
    ],
)
def test_a_method_that_fails_is_told_in_one_line(jobs, command, method, body, said):
    (jobs.folder / "jobs.py").write_text(
        "from redbike import RoundRobin\nclass Worker(RoundRobin):\n"
        f"    def {method}(self, *jobid):\n        {body}\n    def work(self, jobid):\n        pass\n"
    )
    (jobs.folder / "jobs.csv").write_text("job:A,NOW\nother:A,NOW\n")
    (jobs.folder / ".redbike.conf").write_text("[redbike]\nworker: jobs:Worker('A')\n")
    done = jobs.run(*command.split())
    lines = done.stderr.splitlines()
    assert (done.returncode, said in lines[0], "Traceback" in done.stderr) == (2, True, False)
    assert len(lines) == 1 or command == "load jobs.csv"
    assert list(jobs.bike.get_statuses()) == []
