"""Commands that run as cron runs them: by a shell, with a small environment and a standard input."""

import json
import os
import pwd
import shutil

import pytest

from redbike.commands.file import read_commands

USER = pwd.getpwuid(os.geteuid())
SHELL = "cwd = .\nshell = /bin/sh\n"


def test_a_shell_reads_the_line(work, tmp_path):
    work("for i in 1 2; do printf '%s\\n' \"$i\"; done > a && date +%% >> a # 'not closed", SHELL)
    assert (tmp_path / "a").read_text() == "1\n2\n%\n"
    bash = shutil.which("bash")
    work("echo $0 ${BASH_VERSION:+yes} > a", f"cwd = .\nshell = {bash}")
    assert (tmp_path / "a").read_text() == f"{bash} yes\n", "the one that is named"


def test_the_environment_of_cron_has_nothing_of_the_workers(work, tmp_path, monkeypatch):
    monkeypatch.setenv("OF_THE_WORKER", "yes")
    work("env -0 > a", f"{SHELL}env = cron\nenv.LANG = C")
    found = dict(line.split("=", 1) for line in (tmp_path / "a").read_text().split("\0")[:-1])
    found = {name: value for name, value in found.items() if name not in ("PWD", "OLDPWD", "_", "SHLVL")}
    assert found == {
        "HOME": USER.pw_dir,
        "LANG": "C",
        "LOGNAME": USER.pw_name,
        "PATH": "/usr/bin:/bin",
        "REDBIKE_ATTEMPT": "1",
        "REDBIKE_DEADLINE": found["REDBIKE_DEADLINE"],
        "REDBIKE_DUE": "1000000000",
        "REDBIKE_JOBID": "x:A",
        "REDBIKE_KEY": "x:A@1000000000",
        "REDBIKE_QUEUE": "work-A",
        "SHELL": "/bin/sh",
    }


def test_all_of_the_environment_of_cron_but_logname_may_be_overridden(work, tmp_path):
    own = f"env.HOME = {tmp_path}\nenv.LOGNAME = another\nenv.PATH = /bin:/usr/bin:/x"
    work('echo "$LOGNAME $PATH $HOME" > a', f"shell = /bin/sh\nenv = cron\n{own}")
    # It also ran there: the home folder is its current folder.
    assert (tmp_path / "a").read_text() == f"{USER.pw_name} /bin:/usr/bin:/x {tmp_path}\n"


@pytest.mark.parametrize(
    "text",
    ["one line without an end", "\n\n two\n  three \n\n", "# no comment\n[no section]\n", "ü€\r\n", "x" * 1_000_000],
    ids=["no end", "blanks", "no comment", "unicode", "much"],
)
def test_standard_input_is_what_the_file_says_to_the_last_byte(work, tmp_path, text):
    given = f"{SHELL}json.input = {json.dumps(text)}"
    work("cat > a", given)
    assert (tmp_path / "a").read_bytes() == text.encode()
    work("true", given)  # it need not be read


def test_a_variable_may_have_any_text(work, tmp_path):
    work('printf %s "$A" > a', f"{SHELL}json.env.A = \" a\\n'b' \"")
    assert (tmp_path / "a").read_text() == " a\n'b' "


def test_one_section_holds_for_all_commands_that_have_no_other_value(tmp_path):
    text = '[commands]\nx: a\ny: b\n[*]\nshell=/bin/sh\nenv.A=all\ntimeout=5\n[y]\njson.env.A="own"\nenv.B=b\n'
    (tmp_path / "commands.ini").write_text(text)
    x, y = read_commands(str(tmp_path / "commands.ini")).values()
    assert (x.argv, y.argv) == ((b"/bin/sh", b"-c", b"a"), (b"/bin/sh", b"-c", b"b"))
    assert (x.env, y.env) == ({b"A": b"all"}, {b"A": b"own", b"B": b"b"})
    assert (x.timeout, y.timeout) == (5, 5)
