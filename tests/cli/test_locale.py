"""Files are read in the encoding that they have, whatever the user's locale."""

import os
import subprocess
import sys

import pytest

from tests.commandline import ROOT

pytestmark = pytest.mark.acceptance

# So Python says of each file that it is opened in the locale's encoding, which is UTF-8 in most places.
STRICT = ["-X", "warn_default_encoding", "-W", "error::EncodingWarning"]
COMMANDS = [["server", "start"], ["load", "jobs.csv"], ["tell", "ä:A"], ["fsck"], ["schedules"], ["server", "stop"]]


def test_no_file_is_opened_in_the_encoding_of_the_locale(tmp_path):
    (tmp_path / "jobs.csv").write_text("ä:A,@hourly\n", encoding="utf-8")
    (tmp_path / ".redbike.conf").write_text("[redbike]\ntimefile: time\n", encoding="utf-8")
    code = f"from redbike.cli import main; print([main(words) for words in {COMMANDS!r}])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    command = [sys.executable, *STRICT, "-c", code]
    said = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", timeout=100)
    assert said.stdout.endswith(f"{[0] * len(COMMANDS)}\n"), said.stderr
    assert "Warning" not in said.stderr
