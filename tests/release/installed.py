"""What a user gets: the wheel in a fresh environment of a Python, and the example of README.rst there."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.commandline import ROOT
from tests.pages import find_block
from tests.release.commands import Fault, run
from tests.test_readme import look_at_the_page
from tests.waiting import wait_until

JOBID, PRINTED = "backup", "backs up"
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))


def find_python(version: str) -> str | None:
    """Return the path of a Python such as 3.12, on the path or of pyenv; None if this machine has none."""
    others = sorted(PYENV.glob(f"versions/{version}.*/bin/python"))
    ask = "import ensurepip, sys; print('%d.%d' % sys.version_info[:2])"
    for program in filter(None, [shutil.which(f"python{version}"), *map(str, others)]):
        done = subprocess.run([program, "-c", ask], capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:
            return program
    return None


def install(python: str, folder: Path, wheel: Path, extras: list[str], pins: list[str]) -> Path:
    """Install `wheel` in a fresh environment, with `pins` or with the newest of all; return its ``bin``."""
    run(python, "-m", "venv", folder)
    programs = folder / "bin"
    run(programs / "python", "-m", "pip", "install", "--quiet", "--no-compile", f"{wheel}[{','.join(extras)}]", *pins)
    run(programs / "python", "-m", "pip", "check")
    return programs


def uninstall(programs: Path) -> None:
    """Take it out again; nothing of it is left."""
    run(programs / "python", "-m", "pip", "uninstall", "--quiet", "--yes", "redbike")
    if left := [str(path) for path in programs.parent.rglob("*redbike*")]:
        raise Fault(f"pip uninstall leaves {' and '.join(left)}")


def try_out(programs: Path, folder: Path, version: str, server: str | None) -> None:
    """Run the example of README.rst, and a command for each extra; on the program `server`, else on embedded Valkey."""
    folder.mkdir()
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("REDBIKE_", "PYTHON"))}
    environ |= {"HOME": str(folder), "PATH": f"{programs}:{os.environ['PATH']}"}
    if server:
        environ["REDBIKE_SERVER"] = server
    (folder / "tour.py").write_text(find_block("README", "# tour.py"))

    def redbike(*arguments: str) -> str:
        return run(programs / "redbike", *arguments, cwd=folder, env=environ)

    if (found := redbike("--version").strip()) != version:
        raise Fault(f"redbike --version says {found!r}, not {version!r}")
    try:
        work(programs, folder, environ, redbike)
        redbike("server", "start")  # the one of `up` has ended with it, and what only looks starts none
        redbike("fsck")
        redbike("metrics")
        redbike("import", "ics", "--queue=A", str(ROOT / "tests/cases/calendars/google.ics"))
        look_at_the_page(str(programs / "redbike"), folder)
    finally:
        redbike("server", "stop")


def work(programs: Path, folder: Path, environ: dict[str, str], redbike: Callable[..., str]) -> None:
    """Run a job as README.rst does: now, and in a second, for which it takes a dispatcher."""
    log = folder / "log"
    with open(log, "w") as output:
        loops = subprocess.Popen(
            (programs / "redbike", "up", "tour:jobs"), cwd=folder, env=environ, stdout=output, stderr=output
        )
    try:
        for number, command in ((1, ("run", JOBID)), (2, ("set", JOBID, "IN:1s"))):
            wait_until(lambda: " works work-" in log.read_text() or loops.poll() is not None)
            redbike(*command)
            wait_until(lambda number=number: log.read_text().count(PRINTED) >= number or loops.poll() is not None)
        loops.send_signal(signal.SIGTERM)
        if status := loops.wait(60):
            raise Fault(f"'redbike up' ended with {status}: {log.read_text().strip().splitlines()[-1:]}")
    except (AssertionError, subprocess.TimeoutExpired) as error:
        raise Fault(f"{error}: {log.read_text()[-200:]!r}") from None
    finally:
        loops.kill()
