"""Files are read in the encoding that they have, whatever the user's locale."""

import os
import subprocess
import sys

import pytest

from tests.commandline import ROOT

pytestmark = pytest.mark.acceptance

# So Python says of each file that it is opened in the locale's encoding, which is UTF-8 in most places.
STRICT = ["-X", "warn_default_encoding", "-W", "error::EncodingWarning"]


def run(folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(folder)}
    return subprocess.run(
        [sys.executable, *STRICT, "-m", "redbike", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )


def test_no_file_is_opened_in_the_encoding_of_the_locale(tmp_path):
    (tmp_path / "jobs.csv").write_text("ä:A,@hourly\n", encoding="utf-8")
    (tmp_path / ".redbike.conf").write_text("[redbike]\ntimefile: time\n", encoding="utf-8")
    try:
        for command in (["server", "start"], ["load", "jobs.csv"], ["tell", "ä:A"], ["fsck"], ["schedules"]):
            said = run(tmp_path, *command)
            assert said.returncode == 0, said.stderr
            assert "Warning" not in said.stderr
    finally:
        said = run(tmp_path, "server", "stop")
    assert said.returncode == 0, said.stderr
