"""``redbike completion``: what may follow, and the scripts in real shells on a pseudo-terminal."""

import fcntl
import os
import shlex
import shutil
import subprocess
import sys
import termios
import time

import pytest

from redbike.cli import completion, main
from redbike.cli.families import COMMANDS
from redbike.cli.messages import BAD, DONE
from tests.commandline import Shell
from tests.pages import find_programs, write
from tests.waiting import wait_until

EVIL = "evil$(touch pwned);`touch pwned`'\"& x:A"
# How each is started without the files of the user, and what it is told first.
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(redbike completion bash)"'),
    "zsh": (["zsh", "-f", "-i"], 'autoload -Uz compinit; compinit -u -D; eval "$(redbike completion zsh)"'),
    "fish": (["fish", "--no-config", "-i"], "redbike completion fish | source"),
}


FILES = "files"  # in place of words: the shell offers files
BUSY = 60.0  # seconds in which a busy machine answers once within `ANSWER_TIMEOUT`


def needs(shell):
    """A machine without this shell does not try it; that is told. .ci/run installs all of them."""
    return pytest.param(shell, marks=pytest.mark.skipif(not shutil.which(shell), reason=f"{shell} is not installed"))


EACH_SHELL = [needs(shell) for shell in SHELLS]


@pytest.fixture
def ask(client, server_url, tmp_path, monkeypatch, capsys):
    """What may follow: (kind, words)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDBIKE_URL", server_url)
    monkeypatch.setattr(completion, "ANSWER_TIMEOUT", 30.0)  # this machine may be busy

    def ask(*words):
        assert main(["completion", "words", "--", *words]) == DONE
        out, err = capsys.readouterr()
        assert err == ""
        kind, *lines = out.splitlines()
        return kind, [line.partition("\t")[0] for line in lines]

    return ask


@pytest.fixture
def home(tmp_path, client, server_url):
    """A folder with a command ``redbike``, and the environment that finds it."""
    shell = Shell(tmp_path, server_url)
    write(shell, "bin/redbike", f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m redbike "$@"\n').chmod(0o755)
    return tmp_path, find_programs(shell) | {"TERM": "vt100", "LC_ALL": "C.UTF-8"}


# What may follow


def test_commands_are_offered_first(ask):
    kind, words = ask("")
    assert kind == "words"
    assert sorted(words) == sorted([*COMMANDS, "completion", "help"])
    assert ask("se") == ("words", ["set", "server"])
    assert ask("nothing") == ("words", [])
    assert ask("nothing", "") == ("words", [])


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (["server", ""], ["start", "stop", "status"]),
        (["server", "sta"], ["start", "status"]),
        (["server", "start", ""], []),
        (["import", ""], ["crontab", "ics"]),
        (["completion", "z"], ["zsh"]),
        (["control", ""], ["HALT"]),
        (["help", "ag"], ["agenda"]),
        (["set", "--on-e"], ["--on-error="]),
        (["set", "--on-error="], ["--on-error=stop", "--on-error=reschedule", "--on-error=retry"]),
        (["set", "--on-error=re"], ["--on-error=reschedule", "--on-error=retry"]),
        (["set", "--on-error", "re"], ["reschedule", "retry"]),
        (["set", "--catchup=a"], ["--catchup=all"]),
        (["jobs", "--status", "D"], ["DIE"]),
        (["jobs", "--format="], ["--format=csv", "--format=json", "--format=table"]),
        (["jobs", "--pa"], ["--paused"]),
        (["jobs", "--paused", "--pa"], []),
        (["--config", "a b", "server", "sto"], ["stop"]),
        (["-c", "a", "server", "sto"], ["stop"]),
        (["--url=unix:///x", "server", "sto"], ["stop"]),
        (["next", "--tz=Europe/Berl"], ["--tz=Europe/Berlin"]),
        (["pause", "--", "--re"], []),
        (["next", "", "--tz", "Europe/Berl"], ["Europe/Berlin"]),
        (["next", "--count="], []),
        (["--v"], ["--version"]),
        (["--no-such="], []),
        (["load", ""], FILES),
        (["now", "--", "bac"], FILES),
        (["at", "23:00", "--", "tar", ""], FILES),
        (["at", ""], []),
        (["up", "--schedules="], FILES),
        (["--config", "x"], FILES),
        (["jobs", "--config="], FILES),
        (["-cx", "jobs", "--con"], []),
        (["--no-such", "server", "sto"], ["stop"]),
        (["fsck", "--repair=yes", "--"], []),
    ],
)
def test_options_and_choices_come_from_the_usage(ask, before, words):
    assert ask(*before) == (("files", []) if words is FILES else ("words", words))


def test_ids_and_queues_come_from_the_server(ask, bike):
    for jobid in ("backup:A", "backup:B", "bad:A", "other:A", "-dash:A"):
        bike.set(jobid, "0 3 * * *")
    bike.store.jobs.reject("wrong:A")
    assert ask("show", "ba") == ("words", ["backup:A", "backup:B", "bad:A"])
    assert ask("set", "backup:") == ("words", ["backup:A", "backup:B"])
    assert ask("set", "backup:A", "") == ("words", [])
    assert ask("pause", "other:A", "wr") == ("words", ["wrong:A"])
    assert ask("jobs", "*") == ("words", [])
    bike.set("now:Q", "NOW")
    assert ask("jobs", "--queue=") == ("words", ["--queue=work-Q"])
    assert ask("limit", "") == ("words", ["work-Q"])


def test_an_id_that_could_steer_a_terminal_is_not_offered(ask, client):
    client.hset("redbike-statuses", "a\x1b[2Jb:A", "TML:1")
    client.hset("redbike-statuses", "a\nb:A", "TML:1")
    client.hset("redbike-statuses", b"a\xff:A", "TML:1")
    assert ask("show", "a") == ("words", [])


def test_no_more_are_offered_than_anybody_reads(ask, bike):
    list(bike.set_many((f"job{number}:A", "0 3 * * *") for number in range(completion.MOST + 50)))
    assert len(ask("show", "")[1]) == completion.MOST


def test_the_server_that_the_line_names_is_asked(ask, server_url, monkeypatch, tmp_path, bike):
    bike.set("job:A", "0 3 * * *")
    monkeypatch.delenv("REDBIKE_URL")
    assert ask("show", "") == ("words", [])
    assert not (tmp_path / ".redbike").exists(), "it starts no server"
    assert ask("--url", server_url, "show", "") == ("words", ["job:A"])
    (tmp_path / "my.conf").write_text(f"[redbike-redis]\nurl: {server_url}\n")
    assert ask("--config=my.conf", "show", "") == ("words", ["job:A"])


@pytest.mark.parametrize("text", ["nonsense", "[redbike]\nretries: x\n", "[redbike-redis]\nurl: unix:///none\n"])
def test_it_is_silent_if_there_is_no_answer(ask, monkeypatch, tmp_path, text):
    monkeypatch.delenv("REDBIKE_URL")
    (tmp_path / ".redbike.conf").write_text(text)
    assert ask("show", "") == ("words", [])
    assert ask("server", "sto") == ("words", ["stop"])


def test_a_server_that_hangs_holds_nobody_up(ask, monkeypatch):
    monkeypatch.setattr(completion, "ANSWER_TIMEOUT", 0.5)
    monkeypatch.setattr("redbike.cli.bike.list_names", lambda *_: _hang())
    assert ask("show", "") == ("words", ["first:A"])


def _hang():
    yield "first:A"
    time.sleep(3600)


@pytest.mark.parametrize("words", [(), ("tcsh",), ("server",)])
def test_another_shell_is_refused(words, capsys):
    assert main(["completion", *words]) == BAD
    assert "redbike: completion" in capsys.readouterr().err


# In real shells


def run_shell(home, *command):
    folder, environment = home
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    return done.stdout


def bash(home, line):
    """What bash offers for `line`, one behind the other."""
    script = """
        eval "$(redbike completion bash)"
        COMP_LINE=$1 COMP_POINT=${#1}
        # As bash gives it: what is behind the last of $COMP_WORDBREAKS.
        _redbike redbike "${1##*[[:space:]:=]}"
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    return run_shell(home, "bash", "--norc", "-c", script, "bash", line).split()


def fish(home, line):
    """What fish offers, with what it means but for files."""
    script = 'redbike completion fish | source; complete -C "$argv[1]"'
    offered = run_shell(home, "fish", "--no-config", "-c", script, line).splitlines()
    return [word.partition("\t")[0] if ".csv" in word else word for word in offered]


MEANT = "What will run when: a bar for each quarter of an hour, the densest …"
OFFERED = [
    ("bash", "redbike ser", ["server"]),
    ("bash", "X=1 redbike server sta", ["start", "status"]),
    ("bash", "redbike show ba", ["backup:A", "backup:B"]),
    # Bash gets what follows the last colon or equals sign.
    ("bash", "redbike show backup:", ["A", "B"]),
    ("bash", "redbike set --on-error=re", ["reschedule", "retry"]),
    ("bash", "redbike load jo", ["jobs.csv"]),
    ("bash", "redbike up --schedules=jo", ["jobs.csv"]),
    ("fish", "redbike server sta", ["start", "status"]),
    ("fish", "redbike show backup:", ["backup:A", "backup:B"]),
    ("fish", "redbike set --on-error=re", ["--on-error=reschedule", "--on-error=retry"]),
    ("fish", "redbike agen", [f"agenda\t{MEANT}"]),
    ("fish", "redbike load jo", ["jobs.csv"]),
    ("fish", "redbike up --schedules=jo", ["--schedules=jobs.csv"]),
]


@pytest.mark.acceptance
@pytest.mark.parametrize("shell", EACH_SHELL[::2])
def test_a_shell_offers_what_follows(home, bike, shell):
    bike.set("backup:A", "0 3 * * *")
    bike.set("backup:B", "0 3 * * *")
    (home[0] / "jobs.csv").touch()
    offers = {"bash": bash, "fish": fish}[shell]
    for _, line, words in (row for row in OFFERED if row[0] == shell):
        wait_until(lambda line=line, words=words: offers(home, line) == words, BUSY)


@pytest.fixture
def typed(home):
    """Types into a shell on a terminal; returns the words of the line as it was completed."""
    folder, environment = home
    running = []

    def typed(shell, line):
        command, first = SHELLS[shell]
        reader, writer = os.openpty()
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=writer,
            stdout=writer,
            stderr=writer,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        running.append((process, reader, writer))
        os.set_blocking(reader, False)
        for path in ("ready", "words"):
            (folder / path).unlink(missing_ok=True)
        os.write(reader, f"{first}; touch ready\r".encode())
        wait_until(lambda: _drain(reader) or (folder / "ready").exists(), BUSY)
        # The line becomes an argument of printf, as the shell itself reads it.
        os.write(reader, f"{line}\t\x05 > words.new; mv words.new words\x01printf '%s|' \r".encode())
        wait_until(lambda: _drain(reader) or (folder / "words").exists(), BUSY)
        return (folder / "words").read_text().split("|")[1:-1]

    yield typed
    for process, reader, writer in running:
        process.kill()
        process.wait()
        os.close(reader)
        os.close(writer)


def _drain(reader):
    """Read what a shell shows, as it waits for that otherwise."""
    try:
        while os.read(reader, 65536):
            pass
    except BlockingIOError:
        pass


@pytest.mark.acceptance
@pytest.mark.parametrize("shell", EACH_SHELL)
def test_a_line_is_completed_on_a_terminal_and_no_id_is_ever_run(typed, home, bike, shell):
    for jobid in ("backup:db:A", "back up:A", "it is:A"):
        bike.set(jobid, "0 3 * * *")
    bike.client.hset("redbike-statuses", EVIL, "TML:1")
    folder = home[0]
    (folder / "a dir").mkdir()
    for name in ("a dir/x.csv", "my file"):
        (folder / name).touch()
    shutil.copytree(folder / "bin", folder / "a bläh")
    for line, words in (
        ("redbike serv", ["server"]),
        ("redbike server statu", ["server", "status"]),
        ("redbike show backu", ["show", "backup:db:A"]),
        ("redbike show backup:d", ["show", "backup:db:A"]),
        ("redbike set --catchup=n", ["set", "--catchup=none"]),
        ("redbike show back\\ u", ["show", "back up:A"]),
        ('redbike show "back u', ["show", "back up:A"]),
        ("redbike show 'back u", ["show", "back up:A"]),
        ("redbike show back\\ up:", ["show", "back up:A"]),
        ("redbike run back\\ up:A it", ["run", "back up:A", "it is:A"]),
        ('redbike run "back up:A" it', ["run", "back up:A", "it is:A"]),
        ("redbike load my\\ f", ["load", "my file"]),
        ('redbike load "my f', ["load", "my file"]),
        ("redbike load a\\ dir/", ["load", "a dir/x.csv"]),
        ("redbike --config=a\\ d", ["--config=a dir"]),
        ("./a\\ bläh/redbike server statu", ["server", "status"]),
        ("redbike show ev", ["show", EVIL]),
    ):
        # zsh takes the slash of a folder away again when the next word begins.
        wait_until(lambda line=line, words=words: [word.rstrip("/") for word in typed(shell, line)] == words, BUSY)
    assert not (folder / "pwned").exists()
