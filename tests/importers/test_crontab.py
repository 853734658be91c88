"""What becomes of a crontab: the files, and that they say what the crontab says."""

import csv
import json
import os
import pwd
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redbike.commands.file import read_commands
from redbike.config.file import load
from redbike.importers.crontab import COMMANDS, CONFIG, SCHEDULES, Host, convert
from redbike.importers.crontab_lines import Entry, read_lines
from redbike.importers.crontab_system import LocalTime
from redbike.schedule.parser import parse
from tests.commandline import ROOT

CRONTABS = ROOT / "tests" / "cases" / "crontabs"
HOST = Host(LocalTime("Europe/Berlin"), {"LANG": "C.UTF-8"}, "/srv/jobs", "/usr/bin/redbike")
USER = pwd.getpwuid(os.geteuid())


def write(folder, imported):
    for name, text in imported.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return read_commands(str(folder / COMMANDS)), list(csv.reader((folder / SCHEDULES).open(newline="")))


def text_of(name):
    return (CRONTABS / name).read_text()


def ids(text, **how):
    return [job.jobid for job in convert(text, HOST, **how).jobs]


def test_sixty_lines_become_sixty_jobs(tmp_path):
    imported = convert(text_of("sixty"), HOST)
    commands, rows = write(tmp_path, imported)
    entries = [line for line in read_lines(text_of("sixty")) if isinstance(line, Entry)]
    assert len(entries) == len(rows) == len(commands) == 60
    assert imported.refused == ()
    assert len({jobid for jobid, _ in rows}) == 60
    for entry, (jobid, schedule), command in zip(entries, rows, commands.values(), strict=True):
        assert jobid == f"{command.name}:cron"
        assert schedule == entry.schedule
        assert parse(schedule, "Europe/Berlin", jobid).next(0) is not None
        shell = entry.variables.get("SHELL", "/bin/sh").encode()
        assert command.argv == (shell, b"-c", entry.command.encode())
        assert command.input == entry.input.encode()
        cron = {"HOME": USER.pw_dir, "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh", "LANG": "C.UTF-8"}
        env = {**cron, **entry.variables, "LOGNAME": USER.pw_name}
        assert {name.decode(): value.decode() for name, value in command.env.items()} == env
        assert command.cwd == env["HOME"].encode()
        assert not command.inherits
        assert (command.timeout, command.on_error, command.retries) == (None, None, None)


def test_the_config_is_that_of_cron(tmp_path, monkeypatch):
    write(tmp_path, convert(text_of("sixty"), HOST, queue="night"))
    settings = load(str(tmp_path / CONFIG), {}).settings
    assert settings.worker == "redbike.commands:Commands('night', 'commands.ini')"
    assert (settings.timezone, settings.catchup, settings.on_error) == ("Europe/Berlin", "none", "reschedule")
    assert (settings.on_timeout, settings.on_lost, settings.overlap) == ("reschedule", "reschedule", "skip")


@pytest.mark.parametrize(
    ("name", "schedules", "words"),
    [
        ("crontab", ["17 * * * *", "25 6 * * *", "47 6 * * 7", "52 6 1 * *"], "run-parts-cron-hourly"),
        ("certbot", ["0 */12 * * *"], "perl-"),
        ("e2scrub_all", ["30 3 * * 0", "10 3 * * *"], "e2scrub-all"),
        ("mdadm", ["57 0 * * 0"], "checkarray"),
        ("sysstat", ["5-55/10 * * * *", "59 23 * * *"], "debian-sa1"),
    ],
)
def test_the_crontabs_of_debian_become_jobs_of_root(tmp_path, name, schedules, words):
    imported = convert(text_of(name), HOST, has_users=True)
    _, rows = write(tmp_path, imported)
    assert [schedule for _, schedule in rows] == schedules
    assert (imported.refused, imported.decisions, list(imported.users)) == ((), 0, ["root"])
    assert any(jobid.startswith(words) and jobid.endswith(":cron-root") for jobid, _ in rows)
    unit = imported.files["redbike-cron-2ec3-root.service"]
    assert "User=root\nWorkingDirectory=/srv/jobs\nExecStart=/usr/bin/redbike up\n" in unit
    # Whoever can write to the server could have anything run as root.
    worker = "redbike.commands:Commands('cron-root', 'commands.ini', shell_jobs=False)"
    assert load(str(tmp_path / CONFIG), {}).settings.worker == worker


def test_each_user_of_several_has_a_unit_and_a_queue(tmp_path):
    text = "0 1 * * * root a\n0 2 * * * www-data b\n0 3 * * * root c\n"
    imported = convert(text, HOST, has_users=True)
    assert {user: [job.entry.command for job in jobs] for user, jobs in imported.users.items()} == {
        "root": ["a", "c"],
        "www-data": ["b"],
    }
    assert [job.jobid.split(":")[-1] for job in imported.jobs] == ["cron-root", "cron-www-data", "cron-root"]
    units = [name for name in imported.files if name.endswith(".service")]
    assert units == [f"redbike-cron-2ec3{suffix}.service" for suffix in ("-root", "-www-data", "")]
    worker = "work \"redbike.commands:Commands('cron-www-data', 'commands.ini', shell_jobs=False)\"\n"
    assert "User=www-data\nWorkingDirectory=/srv/jobs\n# shell_jobs=False: " in imported.files[units[1]]
    assert f"\nExecStart=/usr/bin/redbike {worker}" in imported.files[units[1]]
    assert "shell_jobs" not in imported.files[units[2]]
    write(tmp_path, imported)
    assert load(str(tmp_path / CONFIG), {}).settings.worker is None
    # No user can reach the embedded server of another.
    assert imported.decisions == 1


def test_no_unit_has_the_name_of_another():
    hosts = [replace(HOST, folder=folder) for folder in ("/srv/jobs", "/srv/more")]
    files = [convert("0 1 * * * root a\n0 2 * * * dispatch b\n", host, has_users=True).files for host in hosts]
    assert len({name for each in files for name in each if name.endswith(".service")}) == 6


# Ids


def test_an_id_is_the_same_whatever_else_is_in_the_crontab():
    text = text_of("sixty")
    first = ids(text)
    more = f"# a comment\n0 0 * * * another thing\n{text}"
    assert [jobid for jobid in ids(more) if jobid in first] == first
    lines = text.split("\n")
    less = "\n".join(line for number, line in enumerate(lines) if number % 3)
    assert set(ids(less)) < set(first)


def test_an_id_depends_on_the_command_alone_unless_that_stands_twice():
    assert ids("0 3 * * * backup --all\n") == ids("X=1\n\n30 4 * * 1-5 backup --all\n")
    one, two, three = ids("0 3 * * * a b\n0 4 * * * a b\n0 4 * * * a b\n")
    assert len({one, two, three}) == 3
    assert ids("0 3 * * * a b\n5 5 * * * c\n0 4 * * * a b\n")[::2] == [one, two]
    assert ids("0 4 * * * a b\n0 3 * * * a b\n") == [two, one]
    assert ids("0 2 * * * a b\n0 4 * * * a b\n0 3 * * * a b\n")[1:] == [two, one]
    # With the plain id it would be another line after a further one was put above it, with the history of the first.
    [plain] = ids("0 5 * * * a b\n")
    assert plain not in ids("0 4 * * * a b\n0 5 * * * a b\n")
    # Two users do not change the ids of each other.
    [own] = ids("0 3 * * * root a\n", has_users=True)
    assert ids("0 2 * * * me a\n0 3 * * * root a\n", has_users=True)[1] == own


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("cd /srv && php artisan schedule:run >> /dev/null 2>&1", "php-artisan"),
        ("test -x /usr/sbin/x || { run-parts /etc/cron.daily; }", "run-parts-cron-daily"),
        ("FOO=1 nice -n 19 /opt/x/Update-Search", "update-search"),
        ("[ -e /tmp/x ]", "job"),
        # What may be a password is in no id.
        ("sshpass -p hunter2 ssh host", "sshpass-ssh"),
        ("curl -u admin:hunter https://host/hook/hunter", "curl"),
        ("mysql -uroot -p'hunter' sales", "mysql-sales"),
        ("echo admin hunter | sudo -S x", "echo"),
        ('mysql -u root -p"open hunter" sales', "mysql-sales"),
        ('curl -H "X-Token: hunter" /srv/x', "curl-x"),
        ("sh -c 'cd /srv; run hunter'", "sh"),
        ("%", None),
    ],
)
def test_an_id_begins_with_words_of_the_command(command, words):
    for jobid in ids(f"0 0 * * * {command}\n"):
        assert words is not None
        assert jobid.rpartition("-")[0] == words


# What a person must know


def test_what_must_be_decided_is_marked_where_it_was(tmp_path):
    text = (
        "# Mail.\nMAILTO=a@example.org\n0 0 * * * a\n@reboot b\n# Zones.\nCRON_TZ=Asia/Tokyo\n0 1 * * mon#1 c\n"
        "LOGNAME=root\nSHELL=zsh\nA-B=1\n61 * * * * d\n0 2 * * * e"
    )
    imported = convert(text, HOST)
    lines = imported.files[COMMANDS].splitlines()
    marks = [number for number, line in enumerate(lines) if line.startswith("# DECIDE: ")]
    assert len(marks) == imported.decisions == 8
    # Each is above what it is about, in the order of the crontab.
    said = [lines[number] for number in marks]
    words = ["last line had no end", "MAILTO", "line 4 ", "CRON_TZ", "'0 1 * * mon#1'", "'zsh'", "'A-B'", "line 11 "]
    for line, word in zip(said, words, strict=True):
        assert word in line if word != "MAILTO" else "'a@example.org'" in line
    assert lines[marks[2] + 1] == "# @reboot b"
    assert lines[marks[2] + 2] == "# Zones."
    assert lines[marks[7] + 1] == "# 61 * * * * d"
    assert [(line.number, line.is_wrong) for line in imported.refused] == [(4, False), (11, True)]
    commands, rows = write(tmp_path, imported)
    assert [schedule for _, schedule in rows] == ["0 0 * * *", "0 1 * * mon", "0 2 * * *"]
    assert [command.argv[0] for command in commands.values()] == [b"/bin/sh"] * 3


def test_a_day_that_does_not_exist_is_named_and_a_zone_that_is_not_known_is_to_be_decided(tmp_path):
    imported = convert("0 0 30 2 * x\n", Host(LocalTime(None)))
    write(tmp_path, imported)
    assert (imported.jobs, imported.decisions) == ((), 2)
    assert "0 0 30 2 *" in imported.refused[0].reason
    assert load(str(tmp_path / CONFIG), {}).settings.timezone == "UTC"


TIMES = st.sampled_from(["* * * * *", "0 3 * * mon", "@daily", "@reboot", "5#2 * * * *", "61 * * * *", "1-"])
WORDS = st.text(st.sampled_from("ab %\\'\"#;[]=:$\t\r\x00\x0b\x85\udcff\u2028ü€\n"), max_size=20)


@given(st.lists(st.tuples(TIMES, WORDS) | st.tuples(st.sampled_from(["A", "SHELL", "HOME", "#", "[x]", ""]), WORDS)))
def test_any_crontab_is_read_back_as_it_was_understood(tmp_path_factory, lines):
    text = "".join(f"{first}{' ' if first[:1] in '0*@561' else '='}{rest}\n" for first, rest in lines)
    imported = convert(text, HOST)
    commands, rows = write(tmp_path_factory.mktemp("crontab"), imported)
    assert [jobid.partition(":")[0] for jobid, _ in rows] == list(commands)
    for job, command in zip(imported.jobs, commands.values(), strict=True):
        assert command.argv[2] == job.entry.command.encode()
        assert command.input == job.entry.input.encode()
        for name, value in job.entry.variables.items():
            is_usable = name.isidentifier() and name.isascii() and name not in ("SHELL", "LOGNAME")
            if is_usable and not {"\udcff", "\0"} & set(value):
                assert command.env[name.encode()] == value.encode()
    json.dumps(imported.files).encode()
