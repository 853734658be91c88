"""The command ``import crontab``, in real processes."""

import csv
import os
import pwd
import re
import stat

import pytest

from redbike.text.printable import name_host
from tests.cli.refused import check_refused
from tests.pages import find_programs, write
from tests.waiting import wait_until

FILES = [".redbike.conf", "commands.ini", "schedules.csv"]
TEXT = "# A job.\n0 3 * * * backup --all\n"


def files(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def crontab(shell):
    """Have `text` as a file, and import it into the folder ``jobs``."""

    def run(text, *arguments, name="mine"):
        (shell.folder / name).write_text(text, newline="")
        return shell.run("import", "crontab", name, "--out=jobs", *arguments)

    return run


def test_it_writes_the_files_and_says_so(shell, crontab):
    done = crontab(TEXT)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "redbike: mine: 1 job in jobs/schedules.csv\n"
    assert files(shell.folder / "jobs") == FILES
    # There may be passwords in a crontab.
    assert {stat.S_IMODE((shell.folder / "jobs" / name).stat().st_mode) for name in FILES} == {0o600}
    done = shell.run("import", "crontab", "-", input=TEXT)
    assert (done.returncode, done.stderr) == (0, "redbike: standard input: 1 job in ./schedules.csv\n")
    assert set(FILES) <= set(files(shell.folder))


def test_it_replaces_no_file_unless_it_is_told_to(shell, crontab):
    assert crontab(TEXT).returncode == 0
    (shell.folder / "jobs/schedules.csv").unlink()
    before = (shell.folder / "jobs/commands.ini").read_text()
    done = crontab(TEXT.replace("backup", "other"))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "'jobs/.redbike.conf'" in done.stderr or "'jobs/commands.ini'" in done.stderr
    assert files(shell.folder / "jobs") == FILES[:2]
    assert (shell.folder / "jobs/commands.ini").read_text() == before
    assert crontab(TEXT.replace("backup", "other"), "--force").returncode == 0
    assert "other --all" in (shell.folder / "jobs/commands.ini").read_text()
    assert files(shell.folder / "jobs") == FILES


def test_lines_that_cron_refuses_are_named_and_the_others_imported(shell, crontab):
    done = crontab("61 * * * * a\n0 3 * * * b\n@reboot c\n")
    assert done.returncode == 2
    first, second, *rest = done.stderr.splitlines()
    assert first == "redbike: mine line 1: not imported: cron refuses '61': bad minute: '61 * * * * a'"
    assert second.startswith("redbike: mine line 3: not imported: cron runs it when the machine starts")
    assert rest[0] == "redbike: mine: 1 job in jobs/schedules.csv"
    assert rest[1].startswith("redbike: 2 things are yours to decide: look for DECIDE: in jobs/commands.ini")
    # For these there is another place, or nothing to do.
    assert crontab("0 3 * * * b\n@reboot c\n0 4 * * *\n", "--force").returncode == 0
    # A line that is not UTF-8 is shown with its bytes. Cron runs it, so it must not be lost.
    done = shell.run("import", "crontab", "-", input="* * * * * echo \udcffé\n1 * * * * true\n")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0].endswith(r"it is not UTF-8, or has a NUL in it: '* * * * * echo \xffé'")


def test_without_a_file_it_asks_crontab_for_that_of_the_user(shell, tmp_path):
    write(shell, "bin/crontab", '#!/bin/sh\n[ "$*" = -l ] && cat "$HOME/mine"\n').chmod(0o755)
    write(shell, "mine", TEXT)
    shell.environment["PATH"] = find_programs(shell)["PATH"]
    done = shell.run("import", "crontab", "--out=jobs", "--queue=night")
    assert (done.returncode, done.stderr) == (0, "redbike: your crontab: 1 job in jobs/schedules.csv\n")
    assert (tmp_path / "jobs/schedules.csv").read_text().endswith(":night,0 3 * * *\n")
    (tmp_path / "bin/crontab").write_text("#!/bin/sh\necho 'no crontab for me' >&2\nexit 1\n")
    done = shell.run("import", "crontab", "--out=other")
    assert (done.returncode, done.stderr) == (1, "redbike: 'crontab -l' failed: no crontab for me\n")
    shell.environment["PATH"] = str(tmp_path / "none")
    check_refused(shell.run("import", "crontab", "--out=other"), 1, "cannot run 'crontab -l'")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("arguments", "quoted"),
    [
        (("--system",), "--system needs a FILE"),
        ((".",), "'.'"),
        (("--queue=a:b", "mine"), "'a:b'"),
        (("empty",), "empty: there is no line to import"),
        (("slip",), "slip: there is no line to import; line 2: cron refuses '61': bad minute: '61 * * * * a'"),
        (("starts",), "starts: there is no line to import; line 1: cron runs it when the machine starts"),
        (("binary",), "binary line 2: a crontab is a text, but there is a NUL in it"),
        (("--system", "own"), "own line 2: no user is named: '0 4 * * * backup.sh x'; leave out --system"),
        (("system",), "system line 2: the command is a user: '17 * * * * root x'; use --system"),
        (("/dev/zero",), "cannot read '/dev/zero': it has more than 32 MiB"),
        # As an unset variable of a shell gives it.
        (("mine", "--out="), "bad --out '': the name of a folder is needed"),
        (("mine", "--out=mine/jobs"), "cannot write 'mine/jobs': Not a directory"),
        (("mine", "--out=/dev/full"), "cannot write '/dev/full': File exists"),
        (("--system", "mine", "--out=a\nb"), "bad --out: a systemd unit cannot run in the folder"),
        (("--system", "mine", "--out=a\\"), "bad --out: a systemd unit cannot run in the folder"),
    ],
)
def test_what_cannot_be_imported_is_refused_in_one_line(shell, arguments, quoted):
    (shell.folder / "mine").write_text(TEXT)
    (shell.folder / "empty").write_text("# nothing\nA=1\n")
    (shell.folder / "slip").write_text("A=1\n61 * * * * a\n")
    (shell.folder / "starts").write_text("@reboot x\n")
    (shell.folder / "binary").write_bytes(b"0 3 * * * a\n\0\xff\n")
    (shell.folder / "own").write_text("0 3 * * * nobody-here x\n0 4 * * * backup.sh x\n")
    (shell.folder / "system").write_text("A=1\n17 * * * * root x\n@daily nobody true\n")
    folder = [] if any(word.startswith("--out=") for word in arguments) else ["--out=jobs"]
    check_refused(shell.run("import", "crontab", *folder, *arguments), 2, quoted)
    assert not (shell.folder / "jobs").exists()
    assert not (shell.folder / ".redbike.conf").exists()


def test_two_hosts_with_the_same_path_do_not_prune_the_jobs_of_each_other(shell, crontab):
    host, path = name_host(), shell.folder / "jobs"
    assert crontab(TEXT).returncode == 0
    rows, conf = (path / "schedules.csv").read_text(), (path / ".redbike.conf").read_text()
    assert rows.strip().endswith(f":cron-{host},0 3 * * *")
    assert f"\ngroup: {host}\n" in conf
    assert f"worker: redbike.commands:Commands('cron-{host}', 'commands.ini')\n" in conf
    load = ("--config=jobs/.redbike.conf", "load", "jobs/schedules.csv", "--prune")
    assert shell.run(*load).returncode == 0
    for name, text in ((".redbike.conf", conf), ("schedules.csv", rows)):
        (path / name).write_text(text.replace(f"cron-{host}", "cron-other").replace(f": {host}", ": other"))
    assert shell.run(*load).stdout.startswith("added,")
    assert len(shell.run("schedules").stdout.splitlines()) == 2
    # Another file of the folder has another group.
    (path / "more.csv").write_text("more:A,0 4 * * *\n")
    assert shell.run(*load[:2], "jobs/more.csv", "--prune").stdout.startswith("added,")
    assert len(shell.run("schedules").stdout.splitlines()) == 3
    # A name that is given is meant; and imported again, each job has the id that it had.
    assert crontab(TEXT, "--force", "--queue=cron").returncode == 0
    assert (path / "schedules.csv").read_text().strip().endswith(":cron,0 3 * * *")
    assert crontab(TEXT, "--force").returncode == 0
    assert (path / "schedules.csv").read_text() == rows


def test_users_of_the_system_are_named_with_their_units_and_such_a_crontab_is_recognized(shell, crontab):
    done = crontab("0 1 * * * root a\n0 2 * * * www-data b\n", "--system")
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert lines[0].startswith("redbike: user root: a-")
    assert lines[1].startswith("redbike: user www-data: b-")
    unit = rf"redbike: jobs/redbike-cron-{name_host()}-\w+-www-data\.service: a unit for systemd; it runs as www-data"
    assert any(re.fullmatch(unit, line) for line in lines)
    assert len(files(shell.folder / "jobs")) == 6
    hint = "redbike: mine: its commands begin with names of users: for a crontab of the system, use --system\n"
    done = crontab("17 * * * * root cd / && x\n25 6 * * * root test -x y\n0 0 * * * z\n", "--force")
    assert (done.returncode, hint in done.stderr) == (0, True)
    assert hint not in crontab("17 * * * * root cd /\n", "--system", "--force").stderr
    assert hint not in crontab("17 * * * * root a\n0 0 * * * b\n0 1 * * * c\n0 2 * * * root\n", "--force").stderr


@pytest.mark.acceptance
def test_its_mail_goes_to_whom_cron_mailed_and_says_the_outcome(shell, crontab):
    write(shell, "bin/mail", '#!/bin/sh\necho "$@" >>mails\n').chmod(0o755)
    head = f"HOME={shell.folder}\nPATH={shell.folder}/bin:/usr/bin:/bin\n"
    lines = ["0 3 * * * exit 1", "MAILTO=one@example.org", "0 3 * * * exit 2", "MAILTO=two", "0 3 * * * exit 3"]
    assert crontab(head + "\n".join([*lines, 'MAILTO=""', "0 3 * * * exit 4", ""])).returncode == 0
    ini = shell.folder / "jobs/commands.ini"
    ini.write_text(ini.read_text().replace("# on-failure", "on-failure"))
    rows = list(csv.reader((shell.folder / "jobs/schedules.csv").open(newline="")))
    conf = "--config=jobs/.redbike.conf"
    assert shell.run(conf, "load", "jobs/schedules.csv").returncode == 0
    typo = "typo:" + rows[0][0].partition(":")[2]
    assert shell.run(conf, "set", typo, "0 3 * * *").returncode == 0
    assert shell.run(conf, "run", typo, *(jobid for jobid, _ in rows)).returncode == 0
    shell.start(conf, "up")
    mails, user = shell.folder / "mails", pwd.getpwuid(os.geteuid()).pw_name
    wait_until(lambda: mails.exists() and len(mails.read_text().splitlines()) == 4, timeout=30)
    said = [f"-s {jobid}: failed: exit status {number}" for number, (jobid, _) in enumerate(rows, 1)]
    nobody = f"no worker of its queue 'work-cron-{name_host()}' has a command or function for 'typo'"
    missing = f"-s {typo}: missing: {nobody} {user}"
    wanted = [f"{said[0]} {user}", f"{said[1]} one@example.org", f"{said[2]} two", missing]
    assert sorted(mails.read_text().splitlines()) == sorted(wanted)
