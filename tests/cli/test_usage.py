"""Bad usage: what is wrong in one line, the nearest right name, and the usage of what was meant."""

import json
import re

import pytest

from redbike import BadJobId, Redbike, RoundRobin
from redbike.cli.diagnosis import diagnose
from redbike.cli.entry import COMMANDS
from redbike.cli.entry import __doc__ as usage
from redbike.schedule.kinds import KEYWORDS
from tests.commandline import ROOT
from tests.verbs import set_job

USAGE = {line.split()[2]: line.strip() for line in re.sub(r"\n {6,}", " ", usage).splitlines() if "[options]" in line}


def test_the_command_alone_prints_the_usage_and_exits_2(shell):
    done = shell.run()
    assert (done.returncode, done.stdout) == (2, "")
    assert set(USAGE.values()) <= {line.strip() for line in done.stderr.splitlines()}
    help_text = shell.run("--help")
    assert (help_text.returncode, help_text.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "said", "command"),
    [
        (["requeue", "a:A"], "no command 'requeue'; is 'run' meant?", "run"),
        (["run"], "run needs <JOBID>... or --failed [<PATTERN>]", "run"),
        (["pause"], "pause needs <JOBID>..., --queue=<QUEUE> or --all", "pause"),
        (["pause", "--all", "--queue=A"], "pause takes only one of --queue=<QUEUE> and --all", "pause"),
        (["resume", "--all", "a:A"], "resume takes only one of <JOBID>... and --all", "resume"),
        (["run", "--failed", "a:*", "b:*"], "bad usage of run", "run"),
        (["run", "a:A", "b:A", "c:A", "--after=1"], "run takes no --after", "run"),
        (["stauses"], "no command 'stauses'; is 'statuses' meant?", "statuses"),
        (["SET", "a:A", "NOW"], "no command 'SET'; is 'set' meant?", "set"),
        (["set", "a:A"], "set needs <SCHEDULE>", "set"),
        (["set"], "set needs <JOBID> and <SCHEDULE>", "set"),
        (
            ["set", "a:A", "0", "3", "*", "*", "*"],
            "set: unexpected '3'; a schedule with blanks in it needs quotes",
            "set",
        ),
        (["unset", "a:A", "b:A"], "unset: unexpected 'b:A'", "unset"),
        (["statuses", "--count=3"], "statuses takes no --count", "statuses"),
        (["set", "--after=1", "a", "b", "-a2"], "--after is given more than once", "set"),
        (["server"], "server needs start, stop or status", "server"),
        (["server", "stopp"], "server: unexpected 'stopp'; is 'stop' meant?", "server"),
        (["statuses", "--befor", "5", "--bfore=5"], "no option '--bfore'; is '--before' meant?", None),
        (["--conig=x", "statuses"], "no option '--conig'; is '--config' meant?", None),
        (["fly"], f"no command 'fly'; the commands are {', '.join([*COMMANDS][:-1])} and server", None),
        (["set", "-x:A", "NOW"], "no option '-x'; an id that begins with a dash stands after --", None),
        (["statuses", "--before"], "--before needs a value", None),
        (["fsck", "--repair=yes"], "--repair takes no value", None),
        (["--url=redis://u:hunter2@h"], "a command is needed; redbike --help explains them", None),
        (["--url=redis://u:hunter2@h", "redis://u:hunter2@h/0"], "no command 'redis://u:***@h/0'", None),
        (["work", "a:B", "m:W('A', key='hunter2')"], "work: unexpected 'm:W(…)'", "work"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_the_usage_of_what_was_meant(arguments, said, command):
    message, lines = diagnose(usage, arguments)
    assert message.startswith(said)
    assert lines == ([USAGE[command]] if command else [])
    assert "hunter2" not in message


def test_a_mistyped_command_exits_2_with_its_usage(shell):
    done = shell.run("stauses")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "redbike: no command 'stauses'; is 'statuses' meant?",
        "Usage:",
        f"  {USAGE['statuses']}",
    ]


def test_unset_of_an_unknown_job_says_so_and_exits_1(shell):
    done = shell.run("unset", "nobody:A")
    assert (done.returncode, done.stderr) == (1, "redbike: no such job: 'nobody:A'\n")
    shell.run("set", "job:A", "never")
    assert shell.run("unset", "job:A").returncode == 0


@pytest.mark.parametrize("jobid", [" b:A", "b:A ", "\u00a0b:A", "b:A\u3000"])
def test_an_id_with_blanks_at_an_end_is_refused_when_it_is_set(shell, client, prefix, jobid):
    done = shell.run("set", jobid, "NOW")
    assert (done.returncode, shell.run("statuses").stdout) == (2, "")
    assert "blanks at its ends" in done.stderr
    bike = Redbike(RoundRobin("A"), prefix, client)
    with pytest.raises(BadJobId):
        bike.set(jobid, "NOW")
    [(_, result)] = bike.set_many([(jobid, "NOW")])
    assert isinstance(result, BadJobId)


def test_a_stored_job_with_such_an_id_is_worked_told_and_unset(client, prefix):
    class Worker(RoundRobin):
        def work(self, jobid):
            worked.append(jobid)

    worked: list[str] = []
    bike = Redbike(Worker("A"), prefix, client)
    set_job(bike.store.at(1000.0), " b:A", "EVERY:1h@0", 1050.0)
    assert bike.dispatch_due() == 1
    assert (bike.work_one(), worked) == (" b:A", [" b:A"])
    assert bike.tell(" b:A")["status"].startswith("TML:")
    assert list(bike.fsck()) == []
    assert bike.unset(" b:A") is True
    assert bike.unset(" b:A") is False
    set_job(bike.store, " b:A", "EVERY:1h@0", 0.0)
    assert bike.set(" b:A", None) is True
    assert list(bike.get_schedules()) == []


@pytest.mark.parametrize(
    ("section", "near"),
    [
        ("redbik", "redbike"),
        ("Redbike", "redbike"),
        ("redbike-redi", "redbike-redis"),
        ("redbike_redis", "redbike-redis"),
    ],
)
def test_a_section_whose_name_looks_like_ours_is_a_warning(shell, section, near):
    (shell.folder / ".redbike.conf").write_text(f"[{section}]\nprefix: x\n[redis]\nhost: h\n[bike]\n[mail]\n")
    done = shell.run("statuses")
    assert done.returncode == 0
    assert done.stderr == f"redbike: the section {section!r} of the config file is ignored; is {near!r} meant?\n"


def test_short_options_are_those_of_0_13_1(shell):
    (shell.folder / "short.conf").write_text("[redbike]\nprefix: short\ntimefile: time\n")
    assert shell.run("-c", "short.conf", "set", "job:A", "EVERY:1h@0", "-a2000000000").returncode == 0
    assert json.loads(shell.run("-cshort.conf", "tell", "job:A").stdout)["next_run"] == 2000001600
    assert shell.run("-c", "short.conf", "statuses", "-b", "1").stdout == ""
    done = shell.run("-c", "short.conf", "dispatch", "-s", "nowhere.csv")
    assert "nowhere.csv" in done.stderr


def test_the_help_names_every_kind_of_schedule_that_begins_with_a_keyword():
    kinds = usage.rpartition("A SCHEDULE is ")[2]
    assert [keyword for keyword in KEYWORDS if keyword not in kinds] == []


def test_the_page_describes_every_command():
    page = (ROOT / "docs" / "command-line.rst").read_text()
    assert [command for command in COMMANDS if not re.search(rf"^``{command}\b", page, re.MULTILINE)] == []
