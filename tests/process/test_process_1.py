"""A worker as process 1, of a container without an init program: the system gives it the orphans of all commands."""

import subprocess

import pytest

ALONE = ("unshare", "--map-root-user", "--fork", "--pid", "--mount-proc")  # in a namespace of its own
SAID = "redbike: as process 1, it reaps no orphans, which commands may leave: start it with an init, such as tini\n"


@pytest.mark.parametrize(("command", "said"), [("work", SAID), ("up", SAID), ("dispatch", "")])
def test_it_warns_if_it_may_run_commands(shell, command, said):
    if subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may make no namespace")
    (shell.folder / ".redbike.conf").write_text("[redbike]\nworker: jobs:None('A')\nlog-level: ERROR\n")
    words = [*ALONE, *shell.command((command, "--url=redis://nowhere!"))]
    done = subprocess.run(words, cwd=shell.folder, env=shell.environment, capture_output=True, text=True, check=False)
    assert done.returncode
    assert done.stderr.startswith(said + "redbike: ")
    assert done.stderr.count("\n") == 1 + bool(said)
