"""What is left of a command that cannot do what it is told to: an exit status, and one line that says why."""

import subprocess


def check_refused(done: "subprocess.CompletedProcess[str]", status: int, *words: str) -> None:
    """It has failed with one line that has all `words`, and nothing else."""
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    [line] = done.stderr.splitlines()
    assert line.startswith("redbike: ")
    assert [word for word in words if word not in line] == [], line
