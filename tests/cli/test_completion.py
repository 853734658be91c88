"""``redbike completion``: what may follow, and the scripts in real shells on a pseudo-terminal."""

import contextlib
import shlex
import shutil
import subprocess
import sys
import threading
import time

import pytest

from redbike.cli import completion, main
from redbike.cli.entry import COMMANDS
from redbike.cli.messages import BAD, DONE
from tests.commandline import Shell
from tests.pages import find_programs, write
from tests.terminal import Terminal
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
        (["server", "sta"], ["start", "status"]),
        (["server", "start", ""], []),
        (["import", ""], ["crontab", "ics"]),
        (["control", ""], ["HALT"]),
        (["help", "ag"], ["agenda"]),
        (["set", "--on-e"], ["--on-error="]),
        (["set", "--on-error=re"], ["--on-error=reschedule", "--on-error=retry"]),
        (["set", "--on-error", "re"], ["reschedule", "retry"]),
        (["jobs", "--status", "D"], ["DIE"]),
        (["jobs", "--format="], ["--format=csv", "--format=json", "--format=table"]),
        (["jobs", "--paused", "--pa"], []),
        (["-c", "a", "server", "sto"], ["stop"]),
        (["--url=unix:///x", "server", "sto"], ["stop"]),
        (["pause", "--", "--re"], []),
        (["next", "", "--tz", "Europe/Berl"], ["Europe/Berlin"]),
        (["next", "--count="], []),
        (["--v"], ["--version"]),
        (["--no-such="], []),
        (["load", ""], FILES),
        (["at", "23:00", "--", "tar", ""], FILES),
        (["at", ""], []),
        (["--config", "x"], FILES),
        (["jobs", "--config="], FILES),
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


def test_no_id_that_could_steer_a_terminal_is_offered_and_no_more_than_anybody_reads(ask, bike, client):
    for jobid in ("a\x1b[2Jb:A", "a\nb:A", b"a\xff:A"):
        client.hset("redbike-statuses", jobid, "TML:1")
    assert ask("show", "a") == ("words", [])
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
    hangs = threading.Event()

    def hang(*_):
        yield "first:A"
        hangs.set()
        time.sleep(3600)

    class Asking(threading.Thread):
        def join(self, timeout=None):
            assert hangs.wait(60)  # however late it has begun
            super().join(timeout)

    monkeypatch.setattr(threading, "Thread", Asking)
    monkeypatch.setattr(completion, "ANSWER_TIMEOUT", 0.5)
    monkeypatch.setattr("redbike.cli.bike.list_names", hang)
    assert ask("show", "") == ("words", ["first:A"])


@pytest.mark.parametrize("words", [(), ("tcsh",)])
def test_another_shell_is_refused(words, capsys):
    assert main(["completion", *words]) == BAD
    assert "redbike: completion" in capsys.readouterr().err


# In real shells


@pytest.mark.acceptance
@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_fish_offers_what_follows_with_what_it_means(home, bike):
    bike.set("backup:A", "0 3 * * *")
    (home[0] / "jobs.csv").touch()
    script = 'redbike completion fish | source; for line in $argv; complete -C "$line"; end'
    meant = "Show what will run when: a bar for each quarter of an hour, the …"
    lines = {
        "redbike agen": f"agenda\t{meant}",
        "redbike set --on-error=re": "--on-error=reschedule\n--on-error=retry",
        "redbike show backup:": "backup:A",
        "redbike up --schedules=jo": "--schedules=jobs.csv",
    }

    def offer():
        done = subprocess.run(
            ["fish", "--no-config", "-c", script, *lines], cwd=home[0], env=home[1], capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.strip()

    wait_until(lambda: offer() == "\n".join(lines.values()), BUSY)


class Typist(Terminal):
    """A shell on a terminal, in which lines are completed by the tab key."""

    def __init__(self, home, shell):
        self.folder, environment = home
        command, first = SHELLS[shell]
        super().__init__()
        self.start(command, self.folder, environment)
        self.send(f"{first}; touch words\r")

    def send(self, keys):
        """Type these keys, and wait until the file `words` is there."""
        (self.folder / "words").unlink(missing_ok=True)
        self.type(keys)
        wait_until(lambda: (self.read(), (self.folder / "words").exists())[1], BUSY)

    def complete(self, line):
        """The words of a line as it was completed."""
        # The line becomes an argument of printf, as the shell itself reads it.
        self.send(f"{line}\t\x05 > words.new; mv words.new words\x01printf '%s|' \r")
        # zsh takes the slash of a folder away again when the next word begins.
        return [word.rstrip("/") for word in (self.folder / "words").read_text().split("|")[1:-1]]


@pytest.mark.acceptance
@pytest.mark.parametrize("shell", [needs(shell) for shell in SHELLS])
def test_a_line_is_completed_on_a_terminal_and_no_id_is_ever_run(home, bike, shell):
    for jobid in ("backup:db:A", "back up:A", "it is:A"):
        bike.set(jobid, "0 3 * * *")
    bike.client.hset("redbike-statuses", EVIL, "TML:1")
    folder = home[0]
    (folder / "a dir").mkdir()
    for name in ("a dir/x.csv", "my file", "jobs.csv"):
        (folder / name).touch()
    shutil.copytree(folder / "bin", folder / "a bläh")
    with contextlib.closing(Typist(home, shell)) as typist:
        for line, words in (
            ("redbike serv", ["server"]),
            ("X=1 redbike server statu", ["redbike", "server", "status"]),
            ("redbike show backu", ["show", "backup:db:A"]),
            ("redbike show backup:d", ["show", "backup:db:A"]),
            ("redbike set --catchup=n", ["set", "--catchup=none"]),
            ("redbike show back\\ u", ["show", "back up:A"]),
            ('redbike show "back u', ["show", "back up:A"]),
            ("redbike show 'back u", ["show", "back up:A"]),
            ('redbike run "back up:A" it', ["run", "back up:A", "it is:A"]),
            ("redbike load my\\ f", ["load", "my file"]),
            ("redbike load a\\ dir/", ["load", "a dir/x.csv"]),
            ("redbike up --schedules=jo", ["up", "--schedules=jobs.csv"]),
            ("redbike --config=a\\ d", ["--config=a dir"]),
            ("./a\\ bläh/redbike server statu", ["server", "status"]),
            ("redbike show ev", ["show", EVIL]),
        ):
            wait_until(lambda line=line, words=words: typist.complete(line) == words, BUSY)
    assert not (folder / "pwned").exists()
