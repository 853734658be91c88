"""What README.rst and docs/installation.rst say first; and what else of the pages costs little to compare."""

import configparser
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen
from xml.etree import ElementTree

import pytest

from redbike import Jobs
from redbike.cli.usage import Usage
from redbike.cli.usage_text import TEXT
from redbike.schedule.parser import parse
from redbike.worker.functions import _OF_CALLS, _OF_WORKERS
from tests.commandline import ROOT, Shell
from tests.pages import PAGES, find_block, find_section, list_blocks
from tests.waiting import wait_until

README = (ROOT / "README.rst").read_text()
JOBS = (ROOT / "docs" / "jobs.rst").read_text()
FIRST = find_block("README", "python3 -m venv .venv && .venv/bin/pip install -q '.[embedded]'")
TESTS = find_block("README", "python3 -m venv .venv && .venv/bin/pip install -q '.[test]'")
INSTALLATION = (
    find_block("README", "$ pip install '/path"),
    find_block("installation", "$ python3 -m venv"),
    find_block("installation", "$ pip install '/path"),
    find_block("installation", "$ pip install --config"),
)


def test_the_targets_of_make_are_there():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    blocks = "\n".join(block.text for page in PAGES for block in list_blocks(page))
    shown = re.findall(r"^make ([a-z-]+)", blocks, re.MULTILINE)
    assert {"install", "bench", "chaos"} <= {*shown} <= {*targets}


def test_each_option_of_a_command_is_on_a_page():
    usage, pages = Usage(TEXT), "\n".join(page.read_text() for page in PAGES.values())
    # Those of a job are in the table of settings.
    shown = {*re.findall(r"--[a-z][a-z-]*", pages), *(f"--{name}" for name in re.findall(r"``([a-z-]+)``", pages))}
    assert usage.options.keys() - shown == set()


def test_lines_of_pages_are_short():
    lines = [(page.name, line) for page in PAGES.values() for line in page.read_text().splitlines()]
    assert [place for place in lines if len(place[1]) >= 100] == []


def test_every_example_of_a_schedule_is_one():
    rows = [line for line in find_section("schedules", "By example").splitlines() if line.startswith("``")]
    texts = [text for row in rows for text in re.findall(r"``([^`]+)``", row[:52])]
    assert len(texts) >= 15
    for text in texts:
        # The row with dots goes on.
        parse(text + "\nRRULE:FREQ=DAILY" if text.startswith("DTSTART") else text, jobid="job:A", anchor=0.0)


def test_the_options_of_functions_are_those_on_the_page():
    for options, said in ((_OF_WORKERS, "hold for all of its jobs"), (_OF_CALLS, "are stored with the job of the")):
        named = re.search(rf"\n- (``\w+``(?:(?!\n- ).)*?)\s+{said}", JOBS, re.DOTALL)
        assert re.findall(r"``(\w+)``", named[1]) == [name.replace("-", "_") for name in options]


def test_each_schedule_of_a_function_is_one():
    arguments = re.findall(r"^``(\w+)=\"(.*?)\"``", JOBS, re.MULTILINE)
    assert len(arguments) == 5
    for number, (name, value) in enumerate(arguments):
        Jobs().job(f"job{number}", **{name: value})


def test_the_extras_and_the_options_that_pages_name_are_those_of_the_project():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    for line in (FIRST, TESTS, *INSTALLATION):
        for extra in re.findall(r"\w+", "".join(re.findall(r"\[(.*?)\]", line))):
            assert extra in setup["options.extras_require"], line
    assert f"EDITABLE = {INSTALLATION[3].split(' ', 3)[3].rpartition(' ')[0]}\n" in (ROOT / "Makefile").read_text()


@pytest.mark.acceptance
@pytest.mark.timeout(600)
def test_what_the_page_on_installation_installs_works(tmp_path):
    """Nothing of the package is left out: a job is run, and the page is shown, with nothing but what is installed."""
    project, folder = copy_of_the_project(tmp_path), tmp_path / "empty"
    folder.mkdir()
    lines = re.sub(r"^\$ ", "", INSTALLATION[1], flags=re.MULTILINE).replace("metrics]", "metrics,web]")
    lines = lines.replace("pip install", "pip install --no-compile")  # most of what is installed is never imported
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(["bash", "-ec", lines], cwd=project, env={**os.environ, "PATH": path}, check=True)
    [installed] = (project / ".venv" / "lib").glob("*/site-packages/redbike")
    assert list_files(installed) == list_files(ROOT / "redbike")
    (folder / "jobs.py").write_text(
        "from redbike import RoundRobin, Redbike\n"
        "class Worker(RoundRobin):\n"
        "    def work(self, jobid):\n"
        "        print('worked', jobid)\n"
        "bike = Redbike(Worker('A'))\n"
        "bike.set('job:A', 'NOW')\n"
        "bike.work_one()\n"
    )
    command = str(project / ".venv" / "bin" / "redbike")
    assert run(str(project / ".venv" / "bin" / "python"), "jobs.py", cwd=folder) == "worked job:A\n"
    assert "STP" in run(command, "tell", "job:A", cwd=folder)
    look_at_the_page(command, folder)


def list_files(folder: Path) -> set[str]:
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)) for path in files}


@pytest.mark.acceptance
def test_the_first_command_shows_jobs_of_different_schedules(tmp_path):
    folder, _, command = FIRST.partition("(")[2].rstrip(")\n").partition(" && ")
    shell = Shell(shutil.copytree(ROOT / folder.removeprefix("cd "), tmp_path / "copy"), None)
    up = shell.start(*shlex.split(command)[1:])
    kinds = ("hello:fast", "poll:fast", "tick:fast", "cron:fast", "rrule:fast")
    wait_until(lambda: all(kind in shell.log() for kind in kinds), 60)
    up.terminate()
    assert up.wait(60) == 0
    assert "Traceback" not in shell.log()
    assert not subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, check=False).stdout


def test_the_second_command_is_the_one_that_is_run_before_a_change_is_accepted():
    """It is the first line after the words "pass the tests", by which .ci/run finds it."""
    after = README.partition("pass the tests")[2]
    assert re.search(r"^   (\S.*\n)", after, re.MULTILINE)[1] == TESTS
    assert TESTS.endswith(".venv/bin/python -m pytest -q\n")
    assert "pass the tests" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.nightly
def test_the_picture_of_a_terminal_shows_what_is_typed_and_printed_there(tmp_path):
    """The program that draws it plays the session again: all but instants and names of processes is the same."""
    program = runpy.run_path(str(ROOT / "docs" / "terminal.py"))
    drawn = list_lines(program["draw"](program["play"](tmp_path)))
    kept = list_lines(program["PICTURE"].read_text())
    assert [line for line in drawn if line.startswith("$ redbike")] == [
        line for line in kept if line.startswith("$ redbike")
    ]
    for words in ("started a server", "was killed by SIGKILL", "was lost, loss 1", "backup: ok after", "lost "):
        assert any(words in line for line in kept)
        assert any(words in line for line in drawn)


def list_lines(picture: str) -> list[str]:
    rows = ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")
    return ["".join(row.itertext()) for row in rows]


def look_at_the_page(command: str, folder: Path) -> None:
    """The page answers, with all files that it loads."""
    with subprocess.Popen(
        [command, "web", "--listen=127.0.0.1:0"], cwd=folder, stderr=subprocess.PIPE, text=True
    ) as page:
        assert page.stderr
        url = page.stderr.readline().split()[-1]
        try:
            with urlopen(url, timeout=60) as answer:
                text = answer.read().decode()
            assert "<h1>Overview</h1>" in text
            for asset in re.findall(r'"(static/[^"]+)"', text):
                with urlopen(f"{url}{asset}", timeout=60) as answer:
                    assert "immutable" in answer.headers["cache-control"]
        finally:
            page.terminate()


def run(*command: str, cwd: Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=cwd).stdout


def copy_of_the_project(folder: Path) -> Path:
    """The files that a build reads, so that it leaves nothing behind in the project."""
    ignored = shutil.ignore_patterns(".*", "__pycache__", "build", "*.egg-info", "tests")
    return shutil.copytree(ROOT, folder / "project", ignore=ignored)
