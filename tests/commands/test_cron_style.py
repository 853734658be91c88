"""Commands that run as cron runs them: by a shell, with a small environment and a standard input."""

import json
import os
import pwd
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

import redbike.commands.worker
from redbike.commands.file import read_commands
from redbike.commands.worker import Commands
from redbike.errors import BadConfig
from tests.commands.test_commands import a_run

USER = pwd.getpwuid(os.geteuid())
Run = Callable[[str], None]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command x of an INI file with this text."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(redbike.commands.worker, "current_run", a_run)

    def running(text: str) -> None:
        (tmp_path / "commands.ini").write_text(text, encoding="utf-8")
        Commands("A", str(tmp_path / "commands.ini")).work("x:A")

    return running


def refuse(folder: Path, text: str) -> str:
    (folder / "commands.ini").write_text(text, encoding="utf-8")
    with pytest.raises(BadConfig) as caught:
        read_commands(str(folder / "commands.ini"))
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def test_a_shell_reads_the_line(run: Run, tmp_path: Path) -> None:
    line = f"for i in 1 2; do printf '%s\\n' \"$i\"; done > {tmp_path}/a && date +%% >> {tmp_path}/a # 'not closed"
    run(f"[commands]\nx: {line}\n[x]\nshell = /bin/sh\n")
    assert (tmp_path / "a").read_text() == "1\n2\n%\n"


def test_the_shell_is_the_one_that_is_named(run: Run, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    run(f"[commands]\nx: echo $0 ${{BASH_VERSION:+yes}} > {tmp_path}/a\n[x]\nshell = {bash}\n")
    assert (tmp_path / "a").read_text() == f"{bash} yes\n"


def test_the_environment_of_cron_has_nothing_of_the_workers(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_WORKER", "yes")
    run(f"[commands]\nx: env -0 > {tmp_path}/a\n[x]\nshell=/bin/sh\nenv=cron\nenv.LANG=C\ncwd={tmp_path}")
    found = dict(line.split("=", 1) for line in (tmp_path / "a").read_text().split("\0")[:-1])
    found = {name: value for name, value in found.items() if name not in ("PWD", "OLDPWD", "_", "SHLVL")}
    assert found == {
        "HOME": USER.pw_dir,
        "LANG": "C",
        "LOGNAME": USER.pw_name,
        "PATH": "/usr/bin:/bin",
        "REDBIKE_DUE": "1000000000",
        "REDBIKE_JOBID": "x:A",
        "REDBIKE_KEY": "x:A@1000000000",
        "SHELL": "/bin/sh",
    }


def test_all_of_the_environment_of_cron_but_logname_may_be_overridden(run: Run, tmp_path: Path) -> None:
    own = f"env.HOME = {tmp_path}\nenv.LOGNAME = another\nenv.PATH = /bin:/usr/bin:/x\n"
    run(f'[commands]\nx: echo "$LOGNAME $PATH $HOME" > a\n[x]\nshell=/bin/sh\nenv=cron\n{own}')
    # It also ran there: the home folder is its current folder.
    assert (tmp_path / "a").read_text() == f"{USER.pw_name} /bin:/usr/bin:/x {tmp_path}\n"


@pytest.mark.parametrize(
    "text",
    ["one line without an end", "\n\n two\n  three \n\n", "# no comment\n[no section]\n", "ü€\r\n", "x" * 1_000_000],
    ids=["no end", "blanks", "no comment", "unicode", "much"],
)
def test_standard_input_is_what_the_file_says_to_the_last_byte(run: Run, tmp_path: Path, text: str) -> None:
    run(f"[commands]\nx: cat > {tmp_path}/a\n[x]\nshell = /bin/sh\njson.input = {json.dumps(text)}\n")
    assert (tmp_path / "a").read_bytes() == text.encode()


def test_a_command_need_not_read_its_input(run: Run) -> None:
    run(f"[commands]\nx: true\n[x]\njson.input = {json.dumps('x' * 1_000_000)}\n")


def test_a_variable_may_have_any_text(run: Run, tmp_path: Path) -> None:
    run(f'[commands]\nx: printf %s "$A" > {tmp_path}/a\n[x]\nshell=/bin/sh\njson.env.A = " a\\n\'b\' "\n')
    assert (tmp_path / "a").read_text() == " a\n'b' "


def test_one_section_holds_for_all_commands_that_have_no_other_value(tmp_path: Path) -> None:
    text = '[commands]\nx: a\ny: b\n[*]\nshell=/bin/sh\nenv.A=all\ntimeout=5\n[y]\njson.env.A="own"\nenv.B=b\n'
    (tmp_path / "commands.ini").write_text(text)
    x, y = read_commands(str(tmp_path / "commands.ini")).values()
    assert (x.argv, y.argv) == ((b"/bin/sh", b"-c", b"a"), (b"/bin/sh", b"-c", b"b"))
    assert (x.env, y.env) == ({b"A": b"all"}, {b"A": b"own", b"B": b"b"})
    assert (x.timeout, y.timeout) == (5, 5)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("[commands]\nx: a\n[x]\nenv = clean\n", "'clean'"),
        ("[commands]\nx: a\n[x]\nshell =\n", "bad shell ''"),
        ("[commands]\nx:\n[x]\nshell = /bin/sh\n", "bad command line"),
        ("[commands]\nx: a\n[x]\njson.input = one\n", "bad json.input"),
        ("[commands]\nx: a\n[x]\njson.input = 1\n", "bad json.input"),
        ("[commands]\nx: a\n[x]\njson.input = [[[[\n", "bad json.input"),
        ('[commands]\nx: a\n[x]\ninput = a\njson.input = "b"\n', "'input' is there twice"),
        ('[commands]\nx: a\n[x]\njson.no = ""\n', "'no'"),
        ("[commands]\nx: a\n*: b\n", "[*]"),
        ("[commands]\nx: a\n[*]\nno = 1\n", "'no'"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, text: str, quoted: str) -> None:
    assert quoted in refuse(tmp_path, text)
