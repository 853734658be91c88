"""What the pages of docs/ that say how to do something show is what happens: their programs run, and are typed."""

import re
import shlex
import subprocess
import sys
import textwrap

import pytest

from tests.commandline import ROOT, Shell
from tests.waiting import wait_until

PROGRAMS = [
    "from-celery",
    "from-rq-scheduler",
    "from-apscheduler",
    "fastapi",
    "long-jobs",
    "time-zones",
    "schedules-in-git",
    "page",
]


def read(name):
    return (ROOT / "docs" / f"{name}.rst").read_text()


def find_blocks(page):
    """The blocks of Python on a page."""
    found = re.findall(r"^\.\. code-block:: python\n\n((?: {3}.*\n|\n)+)", page, re.MULTILINE)
    return [f"{textwrap.dedent(block).strip()}\n" for block in found]


def find_code(page):
    """The same, as one program."""
    return "\n\n".join(find_blocks(page))


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path, None)
    yield shell
    shell.close()
    shell.run("server", "stop")


def run(shell, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=shell.folder,
        env={**shell.environment, "MYPYPATH": f"{ROOT}:{shell.folder}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_program_of_a_page_prints_what_it_says_and_is_typed(shell, name):
    code = find_code(read(name))
    (shell.folder / "app.py").write_text(code)
    assert run(shell, "app").splitlines() == re.findall(r"# prints: (.*)", code)
    run(shell, "mypy", "--strict", "--cache-dir", str(shell.folder / "cache"), "app.py")


def test_the_program_of_the_page_on_monitoring_registers_its_figures(shell):
    (shell.folder / "app.py").write_text(find_code(read("monitoring")))
    run(shell, "mypy", "--strict", "--cache-dir", str(shell.folder / "cache"), "app.py")
    shown = "import app; from prometheus_client import generate_latest as show; print(show().decode())"
    (shell.folder / "shown.py").write_text(f"{shown}\n")
    assert "\nredbike_up 1.0\n" in run(shell, "shown")


def test_the_tests_of_the_page_on_retries_pass(shell):
    (shell.folder / "test_app.py").write_text(find_code(read("retries")))
    said = run(shell, "pytest", "-q", "-p", "no:cacheprovider", "-p", "redbike.testing", "-n0", "test_app.py")
    assert "2 passed" in said
    run(shell, "mypy", "--strict", "--cache-dir", str(shell.folder / "cache"), "test_app.py")


def test_the_commands_of_the_page_on_zones_print_what_it_says(shell):
    shown = re.findall(r"^ {3}\$ redbike (.*)\n((?: {3}[^$\n].*\n)*)", read("time-zones"), re.MULTILINE)
    assert len(shown) == 3
    for command, printed in shown:
        assert no_distances(shell.run(*shlex.split(command)).stdout) == no_distances(textwrap.dedent(printed))


def no_distances(text):
    """Without how far away instants are now."""
    return re.sub(r"Z  (in \d.*|\d.* ago)$", "Z", text, flags=re.MULTILINE)


def test_the_project_of_the_page_on_django_runs_its_jobs(shell):
    jobs, worker, command = find_blocks(read("django"))
    run(shell, "django", "startproject", "mysite", ".")
    run(shell, "django", "startapp", "shop")
    settings = shell.folder / "mysite" / "settings.py"
    settings.write_text(settings.read_text().replace("INSTALLED_APPS = [", "INSTALLED_APPS = [\n    'shop',"))
    commands = shell.folder / "shop" / "management" / "commands"
    commands.mkdir(parents=True)
    (commands / "set_jobs.py").write_text(command)
    (shell.folder / "shop" / "jobs.py").write_text(jobs)
    (shell.folder / "worker.py").write_text(worker)
    run(shell, "django", "migrate", "--settings=mysite.settings", "--pythonpath=.")
    assert run(shell, "django", "set_jobs", "--settings=mysite.settings", "--pythonpath=.") == "jobs: 1 added\n"
    up = shell.start("up", "worker:jobs")
    wait_until(lambda: "works work-invoices" in shell.log(), 60)
    assert shell.run("run", "invoices").returncode == 0
    wait_until(lambda: "invoices for 0 users" in shell.log(), 60)
    up.terminate()
    assert up.wait(timeout=60) == 0
