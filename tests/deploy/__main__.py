"""Tries the files of deploy/ on all that this machine can run: each file of checks beside the others, as they wait."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.deploy.machine import GIVEN

CHECKS = [str(path) for path in sorted(Path(__file__).parent.glob("check_*.py"))]
PYTEST = [sys.executable, "-m", "pytest", "-n", str(len(CHECKS)), "--dist", "loadfile", "--timeout", "600", "-rs"]


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="redbike-debian-") as folder:
        command = [*PYTEST, *sys.argv[1:], *CHECKS]
        return subprocess.run(command, env=os.environ | {GIVEN: folder}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
