"""What README.rst and docs/first-steps.rst show is what happens; so are the examples of other pages."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.request import urlopen

import pytest

from redbike.schedule.parser import parse
from tests.commandline import ROOT, Shell
from tests.waiting import wait_until

README = (ROOT / "README.rst").read_text()
FIRST_STEPS = (ROOT / "docs" / "first-steps.rst").read_text()
SCHEDULES = (ROOT / "docs" / "schedules.rst").read_text()
PYTHON = (ROOT / "docs" / "python.rst").read_text()


def section(title: str, page: str) -> str:
    found = re.search(rf"^{re.escape(title)}\n-+\n(.*?)(?=^[^\n]+\n-+\n|\Z)", page, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1]


def blocks(text: str) -> list[list[str]]:
    """The indented blocks, without their indentation; a line that ends in a backslash goes on in the next one."""
    found: list[list[str]] = [[]]
    for line in re.sub(r"\\\n +", "", text).splitlines():
        if line.startswith("   "):
            found[-1].append(line[3:])
        elif line.strip() and found[-1]:
            found.append([])
    return [block for block in found if block]


@pytest.mark.parametrize("page", [*ROOT.glob("*.rst"), *ROOT.glob("docs/*.rst")], ids=lambda page: page.name)
def test_lines_of_pages_are_short(page):
    assert [line for line in page.read_text().splitlines() if len(line) >= 100] == []


def commands(text: str) -> list[tuple[str, list[str]]]:
    """Each command of the blocks, with the lines that it is said to print."""
    shown: list[tuple[str, list[str]]] = []
    for line in (line for block in blocks(text) for line in block):
        if line.startswith("$ "):
            shown.append((line[2:], []))
        elif shown and line.strip():
            shown[-1][1].append(line)
    return shown


def same(line: str) -> str:
    """The line, whatever the time and the process."""
    line = re.sub(r"\d{10}(\.\d+)?", "TIME", line.rstrip())
    return re.sub(r",TIME,[\d.]+,ok,1,,[^,]+:\d+:[\w-]{8}$", ",TIME,SECONDS,ok,1,,WORKER", line)


@pytest.fixture
def tour(tmp_path):
    code = section("Write a worker", FIRST_STEPS).partition(".. code-block:: python\n\n")[2]
    (tmp_path / "tour.py").write_text("\n".join(line[3:] for line in code.splitlines()) + "\n")
    shell = Shell(tmp_path, None)
    yield shell
    shell.close()
    shell.run("server", "stop")


def test_the_tour_shows_what_happens(tour):
    titles = ("Set some jobs", "Run them", "Look at them")
    shown = [each for title in titles for each in commands(section(title, FIRST_STEPS))]
    assert len(shown) == 14
    loops = []
    for command, expected in shown:
        words = shlex.split(command)
        assert words[0] == "redbike"
        if words[1] in ("dispatch", "work"):
            log = words[1]
            loops.append((tour.start(*words[1:], log=log), log, expected))
            wait_until(lambda log=log, expected=expected: set(expected) <= set(tour.log(log).splitlines()))
            continue
        if words[1] == "runs":
            # The last lines of the loops were printed before their jobs had ended.
            wait_until(lambda: "ENQ" not in tour.run("statuses").stdout and "WRK" not in tour.run("statuses").stdout)
        done = tour.run(*words[1:])
        printed = (done.stdout + done.stderr).splitlines()
        assert [same(line) for line in printed] == [same(line) for line in expected], command
        if words[1] == "control":
            assert [process.wait(timeout=5) for process, _, _ in loops] == [0, 0]
    for _, log, expected in loops:
        assert [line for line in tour.log(log).splitlines() if " INFO " not in line] == expected


def test_the_tour_shows_a_job_that_runs_again_and_again(tour):
    setting, (up, printed), unsetting = commands(section("Run a job again and again", FIRST_STEPS))
    assert tour.run(*shlex.split(setting[0])[1:]).stderr.splitlines() == setting[1]
    process = tour.start(*shlex.split(up)[1:])
    wanted = {re.sub(r"\S+Z INFO|\d+ ms", "", line) for line in printed}
    wait_until(lambda: tour.log().count("working tick:A") >= 2)
    wait_until(lambda: wanted <= {re.sub(r"\S+Z INFO|\d+ ms", "", line) for line in tour.log().splitlines()})
    process.terminate()
    assert process.wait(timeout=30) == 0
    assert tour.run(*shlex.split(unsetting[0])[1:]).returncode == 0
    *_, (stop, _), (remove, _) = commands(section("Clean up", FIRST_STEPS))
    assert tour.run(*shlex.split(stop)[1:]).returncode == 0
    assert (tour.folder / remove.removeprefix("rm -r ") / "appendonlydir").is_dir()


def test_the_small_example_works(tmp_path):
    text = section("A small example", README)
    code = text.partition(".. code-block:: python\n\n")[2].partition("\nSet two jobs")[0]
    (tmp_path / "tour.py").write_text("\n".join(line[3:] for line in code.splitlines()) + "\n")
    *jobs, (up, _) = commands(text)
    shell = Shell(tmp_path, None)
    for command, expected in jobs:
        assert shell.run(*shlex.split(command)[1:]).stderr.splitlines() == expected
    supervisor = shell.start(*shlex.split(up)[1:])
    try:
        wait_until(lambda: "working hello:A" in shell.log())
    finally:
        supervisor.terminate()
        assert supervisor.wait(timeout=10) == 0
        shell.close()
        shell.run("server", "stop")


def test_the_first_command_shows_jobs_of_different_schedules_within_ten_seconds(tmp_path):
    [first, *_] = [line for block in blocks(section("Start", README)) for line in block]
    assert first.startswith("python3 -m venv .venv && .venv/bin/pip install -q '.[embedded]' && ")
    folder, _, command = first.partition("(")[2].rstrip(")").partition(" && ")
    source = ROOT / folder.removeprefix("cd ")
    for file in source.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    shell = Shell(tmp_path, None)
    up = shell.start(*shlex.split(command)[1:])
    try:
        kinds = ("hello:fast", "poll:fast", "tick:fast", "cron:fast", "rrule:fast")
        wait_until(lambda: all(kind in shell.log() for kind in kinds), timeout=10)
    finally:
        up.terminate()
        assert up.wait(timeout=10) == 0
        shell.close()
    assert "Traceback" not in shell.log()
    assert not subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, check=False).stdout


def test_the_second_command_is_the_one_that_is_run_before_a_change_is_accepted():
    [_, second] = [line for block in blocks(section("Start", README)) for line in block]
    assert second.endswith(".venv/bin/python -m pytest -q")
    found = subprocess.run(
        ["awk", "/pass the tests/ {found = 1} found && /^   [^ ]/ {print; exit}", "README.rst"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == second
    assert "pass the tests" in (ROOT / ".ci" / "run").read_text()


def test_every_example_of_a_schedule_is_one():
    rows = [line for line in section("By example", SCHEDULES).splitlines() if line.startswith("``")]
    texts = [text for row in rows for text in re.findall(r"``([^`]+)``", row[:52])]
    assert len(texts) >= 15
    for text in texts:
        # The row with dots goes on.
        parse(text + "\nRRULE:FREQ=DAILY" if text.startswith("DTSTART") else text, jobid="job:A", anchor=0.0)


def test_the_library_is_used_as_shown(tmp_path):
    code = section("Do the same in Python", FIRST_STEPS)
    assert "bike.set(" in code
    names = re.findall(r"bike\.(\w+)\(", code)
    check = "import redbike; print(all(hasattr(redbike.Redbike, n) for n in " + repr(names) + "))"
    done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_the_page_for_programmers_shows_what_happens(tmp_path):
    found = re.findall(r"^\.\. code-block:: python\n\n((?:   .*\n|\n)+)", PYTHON, re.MULTILINE)
    code = "\n".join(line[3:] for block in found for line in block.splitlines())
    assert len(found) == 7
    (tmp_path / "program.py").write_text(code)
    shell = Shell(tmp_path, None)
    try:
        done = subprocess.run(
            [sys.executable, "-W", "error::RuntimeWarning", "program.py"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        shell.run("server", "stop")
        shell.close()
    # Whether the thread that works gets to it before it is stopped is not said.
    shown = re.findall(r"# prints: (.*)", code)
    assert [line for line in done.stdout.splitlines() if line != "working hello:A"] == shown[1:]
    assert done.stdout.startswith(f"{shown[0]}\n")
    assert "RuntimeWarning" not in done.stderr


def test_the_wheel_works_in_a_clean_environment(tmp_path):
    """Nothing of the package is left out of it: a job is run with nothing but what it installs."""
    run(
        sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path / "dist"), str(copy_of_the_project(tmp_path))
    )
    [wheel] = (tmp_path / "dist").glob("*.whl")
    files = {path.relative_to(ROOT) for path in (ROOT / "redbike").rglob("*") if path.is_file()}
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("redbike/")}
    assert packed == {str(path) for path in files if "__pycache__" not in path.parts}
    run(sys.executable, "-m", "venv", str(tmp_path / "venv"))
    python = str(tmp_path / "venv" / "bin" / "python")
    run(python, "-m", "pip", "install", "-q", f"{wheel}[embedded,web]")
    folder = tmp_path / "empty"
    folder.mkdir()
    (folder / "jobs.py").write_text(
        "from redbike import RoundRobin, Redbike\n"
        "class Worker(RoundRobin):\n"
        "    def work(self, jobid):\n"
        "        print('worked', jobid)\n"
        "bike = Redbike(Worker('A'))\n"
        "bike.set('job:A', 'NOW')\n"
        "bike.work_one()\n"
    )
    command = str(tmp_path / "venv" / "bin" / "redbike")
    try:
        assert run(python, "jobs.py", cwd=folder).stdout == "worked job:A\n"
        assert "STP" in run(command, "tell", "job:A", cwd=folder).stdout
        look_at_the_page(command, folder)
    finally:
        run(command, "server", "stop", cwd=folder)


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


def run(*command: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=cwd)


def copy_of_the_project(folder: Path) -> Path:
    """The files that a build reads, so that it leaves nothing behind in the project."""
    copy = folder / "project"
    ignored = shutil.ignore_patterns(".*", "__pycache__", "build", "*.egg-info", "tests")
    shutil.copytree(ROOT, copy, ignore=ignored)
    return copy
