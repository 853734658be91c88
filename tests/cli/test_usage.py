"""Bad usage: what is wrong in one line, the nearest right name, and the usage of what was meant."""

import contextlib
import json
import re
import shlex
import signal
import socket
import sys
from datetime import UTC, datetime

import pytest

from redbike.cli import main
from redbike.cli.diagnosis import diagnose
from redbike.cli.entry import COMMANDS
from redbike.cli.help import EXAMPLES, OVERVIEW, list_examples
from redbike.cli.messages import DONE
from redbike.cli.usage import Usage
from redbike.cli.usage_text import TEXT as text
from redbike.schedule.parser import KEYWORDS
from tests.cases.calendars import answers
from tests.cli.test_tail import listeners
from tests.commandline import ROOT, Shell
from tests.pages import find_programs, find_words, run_line, start_line, write
from tests.servers import free_ports
from tests.terminal import run_on_terminal
from tests.verbs import set_job
from tests.waiting import wait_until

USAGE = Usage(text)


def test_no_command_or_none_that_is_known_prints_what_helps_and_exits_2(shell):
    assert shell.run("--version").stdout.strip()
    assert shell.read("help") == shell.read("--help") == OVERVIEW
    assert shell.run("help", "--all").stdout == f"{text.strip()}\n"
    said = "redbike: no command 'stauses'; is 'statuses' meant?"
    usage = f"{said}\nUsage:\n  {USAGE.lines['statuses']}\nredbike help statuses explains it.\n"
    for words, shown in (([], f"redbike: a command is needed\n\n{OVERVIEW}"), (["stauses"], usage)):
        done = shell.run(*words)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", shown)


def test_python_may_run_without_docstrings(shell):
    shell.environment["PYTHONOPTIMIZE"] = "2"
    done = shell.run("set", "job:A", "NOW")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_the_overview_fits_a_screen_and_names_only_what_is_there():
    lines = OVERVIEW.splitlines()
    assert len(lines) < 24
    assert max(map(len, lines)) <= 80
    named = re.findall(r"^(?:[A-Z][a-z ]{6}|       ) ([a-z]+) ", OVERVIEW.partition("\n\n")[2], re.MULTILINE)
    assert len(named) == 17
    assert {*named} <= USAGE.lines.keys()


def test_the_usage_names_every_command_and_says_what_it_does():
    assert [*USAGE.lines] == [*USAGE.summaries] == [*COMMANDS, "completion", "help"]
    for command, line in USAGE.lines.items():
        options = set(re.findall(r"--\w[\w-]*", line))
        assert options <= USAGE.options.keys(), command
        assert len(USAGE.summaries[command]) > 10


def test_what_messages_and_pages_name_is_a_command():
    """But where the word after ``redbike`` is part of a sentence."""
    prose = {"for", "has", "is", "page", "works"}
    texts = [path for path in (ROOT / "redbike").rglob("*") if path.suffix in (".py", ".html", ".js", ".lua")]
    named = {word for path in texts for word in re.findall(r"\bredbike ([a-z][a-z-]*)", path.read_text())}
    assert named - prose - USAGE.lines.keys() == set()


def test_help_explains_each_command_with_its_options_and_examples(capsys):
    def read(*arguments):
        assert main(arguments) == DONE
        shown, said = capsys.readouterr()
        assert said == ""
        return shown

    for command, line in USAGE.lines.items():
        shown = read("help", command)
        assert read(command, "--help") == read("-h", command) == shown
        assert " ".join(shown.split()).startswith(f"{USAGE.summaries[command]} Usage: {line} ")
        listed = re.findall(r"^  (-\S+(?: --\S+)?)  ", shown, re.MULTILINE)
        assert listed == [USAGE.get_option(name, command).spelling for name in USAGE.get_options(command)]
        examples = list_examples(command)
        assert examples
        for example, meaning in examples:
            assert f"\n  {example}\n      {meaning}\n" in shown
        assert max(map(len, shown.splitlines())) <= 100
        assert not re.search(r"\bWith [a-z ,]+: ", " ".join(shown.split()))  # what the option means for others


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("help", "--all All commands and options."),
        ("pause", "--all Everything: while it is paused, no job is enqueued and none is taken. --until="),
        ("set", "--ping-url=<URL> A URL to call after each run. --traceparent="),
        ("up", "--ping-url=<URL> A URL that the dispatcher calls each minute. "),
        ("backfill", "--to=<TIMESTAMP> The due time of the last occurrence to run; a future time means now. --again"),
        ("shards", "--to=<N> The number of shards, 1 to 64. The old number "),
        ("tail", "--output=<JOBID> The id of a job, whose output it prints too. "),
        ("resume", "--every End the blackout for good; without a value. "),
        ("runs", "--failed Only runs that went wrong. --since="),
    ],
)
def test_the_help_of_a_command_says_of_an_option_what_it_does_there(capsys, command, text):
    main(["help", command])
    assert text in " ".join(capsys.readouterr().out.split())


def test_help_is_as_wide_as_a_narrow_terminal(shell):
    said = run_on_terminal(shell, "help", "pause", columns=60)
    assert max(map(len, said.partition("Examples:")[0].splitlines())) <= 60
    assert re.search(r"\n      .*--all\)\n", said)


def is_served(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


@pytest.fixture
def prepared(tmp_path, client, server_url):
    """A folder with all files and programs of the examples, which are run in processes of their own."""
    shell = Shell(tmp_path, server_url)
    write(shell, "app.py", "import redbike\nclass Worker(redbike.RoundRobin):\n    def work(self, jobid): pass\n")
    write(shell, "jobs.csv", "load:A,EVERY:1h@0\n")
    calendar = (answers.FOLDER / "apple.ics").read_text().replace(":2026", f":{datetime.now(UTC).year}")
    write(shell, "holidays.ics", calendar)
    write(shell, "team.ics", calendar)
    write(shell, "report.sh", "echo one\n")
    write(shell, ".redbike.conf", "[redbike]\nworker: app:Worker('A:B')\nalert: true\n")
    write(shell, "etc/crontab", "0 3 * * * root backup\n")
    write(shell, "bin/crontab", "#!/bin/sh\necho '0 3 * * * backup'\n").chmod(0o755)
    write(shell, "bin/redbike", f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m redbike "$@"\n').chmod(0o755)
    shell.environment |= {"PATH": find_programs(shell)["PATH"], "REDBIKE_WEB_TOKEN": "a-token-of-the-tests"}
    shell.environment["EDITOR"] = "true"
    yield shell
    shell.close()


@pytest.mark.acceptance
def test_each_example_runs(prepared, client):
    """They stand in an order in which each finds what it needs."""
    shell, [port] = prepared, free_ports(1)
    tried = 0
    for command in USAGE.lines:
        tried += len(list_examples(command))
        if command in ("server", "top"):
            continue  # see tests/connection/embedded, as another server is configured here, and test_top.py
        for line, _ in list_examples(command):
            line = line.replace("=9199", f"={port}").replace(" /etc/", " etc/").replace(":8080", f":{port}")
            line += f" --listen={port}" if line.startswith("redbike web") and "--listen" not in line else ""
            waits = command == "tail" or "--wait" in line  # no worker is there
            if command in ("dispatch", "work", "up") or waits or "--listen" in line:
                words = find_words(line)
                process = shell.start(*words[1:]) if words else start_line(shell, f"exec {line}")
                if "--listen" in line:
                    wait_until(lambda: is_served(port))
                    process.terminate()
                elif waits:
                    wait_until(lambda: listeners(client))
                    process.send_signal(signal.SIGINT)
                else:
                    wait_until(lambda: client.exists("redbike-workers"))
                    assert shell.run("control", "HALT").returncode == 0
                assert process.wait(60) == (130 if waits else 0), (line, shell.log())
                continue
            if line == "redbike unset mail:B":
                assert shell.run("set", "mail:B", "NOW").returncode == 0
            if command == "check":
                # The configured worker class takes no one-offs of a shell, and check says so.
                assert all(shell.run("unset", row[0]).returncode == 0 for row in shell.list_rows("jobs", "once/*"))
            line += " --yes" if command == "edit" else ""  # no terminal is there
            done = run_line(shell, line)
            if line.startswith("redbike shards move"):
                # The config of the others has one shard.
                assert shell.run("shards", "move", "--to=1").returncode == 0
            # No dispatcher is there, and no run was kept.
            lack = {"health": "PROBLEM: no dispatcher", "output": "redbike: no output of"}.get(command, "")
            assert done.returncode == (1 if lack else 0), (line, done.stderr)
            assert (done.stdout or done.stderr).startswith(lack)
    assert tried == len(EXAMPLES.splitlines())


@pytest.mark.parametrize(
    ("arguments", "said", "command"),
    [
        (["requeue", "a:A"], "no command 'requeue'; is 'run' meant?", "run"),
        (["run"], "run needs <JOBID>..., --tag=<TAG> [<JOBID>...] or --failed [--tag=<TAG>] [<PATTERN>]", "run"),
        (["pause", "--all", "--queue=A"], "pause takes only one of --queue=<QUEUE> and --all", "pause"),
        (["run", "--failed", "a:*", "b:*"], "bad usage of run", "run"),
        (["alert"], "alert needs --test; redbike health says what is wrong now, and", "alert"),
        (["shards", "move"], "shards needs --to=<N>", "shards"),
        (["token", "add", "ci"], "token needs --role=<ROLE>", "token"),
        (["backfill", "a:A", "--to=1"], "backfill needs --from=<TIMESTAMP>", "backfill"),
        (["stauses"], "no command 'stauses'; is 'statuses' meant?", "statuses"),
        (["SET", "a:A", "NOW"], "no command 'SET'; is 'set' meant?", "set"),
        (["set", "a:A"], "set needs <SCHEDULE>", "set"),
        (["set"], "set needs <JOBID> and <SCHEDULE>", "set"),
        (["set", "a:A", *"03***"], "set: unexpected '3'; a schedule with spaces needs quotes", "set"),
        (["unset", "a:A", "b:A"], "unset: unexpected 'b:A'", "unset"),
        (["statuses", "--count=3"], "statuses takes no --count", "statuses"),
        (["set", "--after=1", "a", "b", "-a2"], "--after is given more than once", "set"),
        (["jobs", "--tag=a", "--tag=b"], "--tag is given more than once; --tag=a,b names jobs that have", "jobs"),
        (["server"], "server needs start, stop or status", "server"),
        (["server", "stopp"], "server: unexpected 'stopp'; is 'stop' meant?", "server"),
        (["statuses", "--befor", "5", "--bfore=5"], "no option '--bfore'; is '--before' meant?", "statuses"),
        (["fly"], f"no command 'fly'; the commands are {', '.join(COMMANDS)}, completion and help", None),
        (["unset", "-a"], "--after needs a value", "unset"),
        (["pause", "--reason", "--"], "--reason needs a value", "pause"),
        (["now", "-l"], "no option '-l'; put -- before the command", "now"),
        (["up", "--workers=2"], "no option '--workers'", "up"),
        (["jobs", "--bogus"], "no option '--bogus'; put -- before an id that begins with a dash", "jobs"),
        (["set", "-x:A", "NOW"], "no option '-x'; put -- before an id that begins with a dash", "set"),
        (["help", "stauses"], "no command 'stauses'; is 'statuses' meant?", "statuses"),
        (["help", "set", "unset"], "help: unexpected 'unset'", "help"),
        (["fsck", "--repair=yes"], "--repair takes no value", "fsck"),
        (["cancel"], "cancel needs <JOBID>", "cancel"),
        (["--url=redis://u:hunter2@h"], "a command is needed", None),
        (["--url=redis://u:hunter2@h", "redis://u:hunter2@h/0"], "no command 'redis://u:***@h/0'", None),
        (["work", "a:B", "m:W('A', key='hunter2')"], "work: unexpected 'm:W(…)'", "work"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_the_usage_of_what_was_meant(arguments, said, command):
    message, commands = diagnose(USAGE, arguments)
    assert message.startswith(said)
    assert commands == ([command] if command else [])
    assert "hunter2" not in message


def test_a_stored_job_whose_id_begins_with_a_blank_is_worked_told_and_unset(bike):
    set_job(bike.store.at(1000.0), " b:A", "EVERY:1h@0", 1050.0)
    assert bike.dispatch_due() == 1
    assert bike.work_one() == " b:A"
    assert bike.tell(" b:A")["status"].startswith("TML:")
    assert list(bike.fsck()) == []
    assert [bike.unset(" b:A"), bike.unset(" b:A")] == [True, False]
    set_job(bike.store, " b:A", "EVERY:1h@0", 0.0)
    assert bike.set(" b:A", None) is True
    assert list(bike.get_schedules()) == []


def test_a_section_whose_name_looks_like_ours_is_a_warning(shell):
    for section, near in (("redbik", "redbike"), ("Redbike", "redbike"), ("redbike_redis", "redbike-redis")):
        write(shell, ".redbike.conf", f"[{section}]\nprefix: x\n[redis]\nhost: h\n[bike]\n[mail]\n")
        done = shell.run("statuses")
        said = f"redbike: the section {section!r} of the config file is ignored; is {near!r} meant?\n"
        assert (done.returncode, done.stderr) == (0, said)


def test_short_options_are_those_of_0_13_1(shell):
    (shell.folder / "short.conf").write_text("[redbike]\nprefix: short\ntimefile: time\n")
    assert shell.run("-c", "short.conf", "set", "job:A", "EVERY:1h@0", "-a2000000000").returncode == 0
    assert json.loads(shell.run("-cshort.conf", "tell", "job:A").stdout)["next_run"] == 2000001600
    assert shell.run("-c", "short.conf", "statuses", "-b", "1").stdout == ""
    done = shell.run("-c", "short.conf", "dispatch", "-s", "nowhere.csv")
    assert "nowhere.csv" in done.stderr


def test_the_help_names_every_kind_of_schedule_and_the_page_every_command():
    kinds = USAGE.words["SCHEDULE"]
    assert [keyword for keyword in KEYWORDS if keyword not in kinds] == []
    page = (ROOT / "docs" / "command-line.rst").read_text()
    assert [command for command in COMMANDS if not re.search(rf"^``{command}\b", page, re.MULTILINE)] == []
