"""The plugin, in processes of pytest as users start them: the server, the prefixes, and what ends with them."""

import configparser
import os
import re
import signal
import subprocess
import sys

import pytest

from redbike.testing.fixture import Served
from tests.commandline import ROOT
from tests.waiting import wait_until

SUITE = """
from datetime import timedelta

import pytest

from redbike import Jobs
from redbike.testing import MakeRedbike

jobs = Jobs()
ran: list[str] = []

@jobs.job("backup", every="1h")
def backup() -> None:
    ran.append("backup")

@pytest.mark.parametrize("number", range(6))
def test_each_has_an_empty_prefix(redbike: MakeRedbike, number: int) -> None:
    bike = redbike(jobs)
    assert list(bike.get_schedules()) == []
    assert redbike.prefix.startswith("redbike-test-")
    for jobid, schedule, options in jobs.schedules():
        bike.set(jobid, schedule, **options)
    ran.clear()
    assert len(bike.run_due(timedelta(days=1))) == 24
    assert len(ran) == 24
    print("URL", redbike.url, redbike.prefix)
"""

SLOW = """
import time

def test_it_is_killed(redbike):
    print("URL", redbike.url, flush=True)
    time.sleep(600)
"""

UNITTEST = """
import atexit
import os
import unittest
from datetime import timedelta

from redbike import Jobs, Redbike
from redbike.testing import MakeRedbike, isolate

jobs = Jobs()
own = Redbike(jobs)  # before there is a test

@jobs.job("backup", every="1h")
def backup() -> None:
    pass

def check(make: MakeRedbike) -> None:
    bike = make(jobs)
    assert list(own.get_schedules()) == []
    own.set("backup", "EVERY:1h")
    assert len(bike.run_due(timedelta(days=1))) == 24

class Tests(unittest.TestCase):
    def setUp(self) -> None:
        self.make = self.enterContext(isolate())

    def test_one(self) -> None:
        check(self.make)

    def test_a_fork_has_a_server_of_its_own_and_leaves_this_one_alone(self) -> None:
        if pid := os.fork():
            self.assertEqual(os.waitpid(pid, 0), (pid, 0))
            check(self.make)
        else:
            with isolate() as make:
                assert make.url != self.make.url
                check(make)
            os.close(2)  # Python warns of the files and processes of the parent
            atexit._run_exitfuncs()
            os._exit(0)
"""

PLUGIN = ("-p", "redbike.testing")
OPTIONS = ("-p", "no:cacheprovider", "-rA")


@pytest.fixture
def suite(tmp_path):
    """A folder with tests, and a function that runs them."""
    (tmp_path / "test_jobs.py").write_text(SUITE)
    # So that no such file in a folder above counts. Some projects allow no warnings, which pytest looks for itself.
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    environment |= {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path), "REDBIKE_URL": "redis://nowhere.example.org:1"}
    # The plugins that are installed here take most of the time of a start.
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    (tmp_path / ".redbike.conf").write_text("[redbike]\nprefix: mine\nworker: nowhere:Worker\n")

    def run(*arguments, plugin=PLUGIN, **more):
        return run_python("-m", "pytest", *plugin, *OPTIONS, *arguments, cwd=tmp_path, env=environment | more)

    run.folder, run.environment = tmp_path, environment
    return run


def run_python(*arguments, **more):
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False, **more)


def folders(suite):
    return list(suite.folder.glob("redbike-test-*"))


def urls(done):
    return re.findall(r"^URL (\S+) (\S+)", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("options", "servers"), [((), 1), pytest.param(("-p", "xdist", "-n2"), 2, marks=pytest.mark.acceptance)]
)
def test_each_test_has_the_server_of_its_process_and_a_prefix_of_its_own(suite, options, servers):
    done = suite(*options)
    assert done.returncode == 0, done.stdout + done.stderr
    # Warnings of pytest would stand in that line; a server that starts late is warned of in the log.
    assert "= 6 passed in " in done.stdout, done.stdout
    found = urls(done)
    assert [len(set(each)) for each in zip(*found, strict=True)] == [servers, 6]
    assert folders(suite) == []


def test_tests_without_pytest_have_a_server_of_their_process_too(suite, client, server_url):
    (suite.folder / "test_own.py").write_text(UNITTEST)
    environment = suite.environment | {"REDBIKE_URL": server_url}
    done = run_python("-W", "error", "-m", "unittest", "test_own", cwd=suite.folder, env=environment)
    assert (done.returncode, "Ran 2 tests" in done.stderr, folders(suite)) == (0, True, []), done.stderr
    assert (done.stderr.count("arning"), client.keys("*")) == (0, [])


@pytest.mark.acceptance
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_server_ends_with_its_process_however_that_ends(suite, number):
    (suite.folder / "test_jobs.py").write_text(SLOW)
    command = [sys.executable, "-m", "pytest", *PLUGIN, *OPTIONS, "-s"]
    with open(suite.folder / "log", "w") as log:
        more = {"stdout": log, "stderr": log, "start_new_session": True}
        process = subprocess.Popen(command, cwd=suite.folder, env=suite.environment, **more)
    wait_until(lambda: "URL" in (suite.folder / "log").read_text(), 60)
    [folder] = folders(suite)
    server = int((folder / "server.pid").read_text())
    os.killpg(process.pid, number)
    process.wait(60)
    wait_until(lambda: not os.path.exists(f"/proc/{server}"), 30)
    wait_until(lambda: folders(suite) == [], 30)


@pytest.mark.acceptance
def test_a_server_that_is_there_is_used_and_keeps_all_else(suite, client, server_url):
    client.set("precious", 1)
    client.hset("redbike-schedules", "job:A", "EVERY:1h")
    done = suite(REDBIKE_TEST_URL=server_url)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {url for url, _ in urls(done)} == {server_url}
    assert sorted(client.keys("*")) == [b"precious", b"redbike-schedules"]
    assert folders(suite) == []


@pytest.mark.acceptance
def test_a_server_that_cannot_be_reached_is_one_clear_line(suite):
    for url in ("redis://:hunter2@127.0.0.1:1", "nowhere://:hunter2@host"):
        done = suite("-k", "0", REDBIKE_TEST_URL=url)
        assert done.returncode == 1
        assert len(re.findall(r"^no server for the tests: .+", done.stdout, re.MULTILINE)) == 1, done.stdout
        assert "Traceback" not in done.stdout
        assert "hunter2" not in done.stdout


FAILING = """
from redbike import RoundRobin

def test_it(redbike):
    bike = redbike(RoundRobin("A"))
    bike.set("job:A", "NOW")
    bike.run_due()
"""


def test_no_failure_shows_the_password_of_the_server(suite, client, server_url):
    (suite.folder / "test_jobs.py").write_text(FAILING)
    client.acl_setuser("tester", enabled=True, passwords=["+hunter2"], keys=["*"], channels=["*"], commands=["+@all"])
    try:
        done = suite("-l", REDBIKE_TEST_URL=server_url.replace("unix://", "unix://tester:hunter2@"))
    finally:
        client.acl_deluser("tester")
    assert repr(Served("redis://:hunter2@127.0.0.1", client)) == "Served()"
    assert "NotImplementedError: RoundRobin has no work() of its own" in done.stdout
    assert "in the run of the job 'job:A' that was due at " in done.stdout
    assert "hunter2" not in done.stdout


@pytest.mark.acceptance
def test_unused_the_plugin_starts_nothing_and_imports_next_to_nothing(suite):
    (suite.folder / "test_jobs.py").write_text(
        "import sys\ndef test_it():\n    assert not {'redis', 'redbike.facade.redbike'} & {*sys.modules}\n"
    )
    done = suite()
    assert (done.returncode, folders(suite)) == (0, []), done.stdout + done.stderr
    program = "import sys; sys.modules['pytest'] = None; import redbike; redbike.Redbike; redbike.Jobs"
    done = run_python("-c", program, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.nightly
def test_where_it_is_installed_pytest_finds_it_once(suite):
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    installed = suite.folder / "site" / "redbike-9.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: redbike\nVersion: 9.0\n")
    (installed / "entry_points.txt").write_text(f"[pytest11]{setup['options.entry_points']['pytest11']}\n")
    for named in ((), PLUGIN):
        done = suite(plugin=named, PYTHONPATH=f"{installed.parent}:{ROOT}", PYTEST_DISABLE_PLUGIN_AUTOLOAD="")
        assert "6 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.nightly
def test_tests_pass_a_strict_type_check(suite):
    options = ("--strict", "--cache-dir", str(suite.folder / "cache"))
    environment = {"MYPYPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = run_python("-m", "mypy", *options, "test_jobs.py", cwd=suite.folder, env=environment)
    assert done.returncode == 0, done.stdout
