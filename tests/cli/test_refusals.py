"""What a command cannot do: one line that quotes it, an exit status, and nothing is changed."""

import shlex

import pytest

from redbike import Redbike
from redbike.control import jobs as job_control
from redbike.control.setter import Setter
from tests.cli.refused import check_refused
from tests.commandline import Within
from tests.states import unchanged

WORKER = "from redbike import RoundRobin as Worker\n"
BAD_TIME = "bad timestamp '24/12'"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("agenda --after=24/12", BAD_TIME),
        ("agenda --hours=0", "bad --hours '0': 1 to 168 are allowed"),
        ("at 24/12 -- true", BAD_TIME),
        ("at yesterday -- true", "bad time 'yesterday': "),
        ("backfill job:A --from=24/12 --to=now", BAD_TIME),
        ("backfill job:A --from=2 --to=1", "bad range: it begins at 1970-01-01 00:00:02 UTC, after its end"),
        ("backfill job:A --from=tomorrow --to=+1d", "bad range: its start, "),
        ("backfill job:A --from=0 --to=1 --at-once=0", "bad --at-once '0': 1 to 1000 are allowed"),
        ("cancel '' job:A", "bad job id ''"),
        ("control STOP", "bad signal 'STOP': HALT is the only one"),
        ("dispatch --after=24/12", BAD_TIME),
        ("health --max-lag=soon", "bad --max-lag 'soon'"),
        ("jobs a[:A", "bad pattern 'a[:A': a [ has no ] behind it"),
        ("jobs --format=xml", "bad --format 'xml': csv, json, table are allowed"),
        ("jobs --status=DEAD", "bad status 'DEAD': TML, ENQ, WRK, STP, DIE, BAD are allowed"),
        ("jobs --tag=-a", "bad tag '-a'"),
        ("limit A --at-once=-1", "bad at-once '-1'"),
        ("limit A --at-once=0", "bad at-once 0"),
        ("limit A --rate=", "bad rate ''"),
        ("limit A --rate=x", "bad rate 'x'"),
        ("limit wake-A --rate=5/s", "bad queue name 'wake-A'"),
        ("load nowhere.csv", "cannot read 'nowhere.csv': No such file or directory"),
        ("load - --after=24/12", BAD_TIME),
        ("log --limit=0", "--limit"),
        ("log --since=24/12", BAD_TIME),
        ("log 'a\nb'", r"'a\nb'"),
        ("next '0 3 * * *' --count=none", "none"),
        pytest.param(f"now -- {'x' * 70_000}", "bad data", id="now with too much"),
        (r"pause 'nightly:*\'", r"bad pattern 'nightly:*\\': nothing follows its last backslash"),
        ("pause job:A --reason='a\tb'", r"bad reason 'a\tb': one line of up to 500 characters is needed"),
        ("pause job:A --until=24/12", BAD_TIME),
        ("pause job:A --every='0 2 * *' --for=2h", "bad cron '0 2 * *': 5 to 7 fields are needed, it has 4"),
        ("pause job:A --every='0 2 * * *'", "a blackout needs a schedule (every) and a length"),
        ("pause --all --every='0 2 * * *' --for=30h", "it would never end"),
        ("pause --all --until=yesterday", "bad until 'yesterday': a time in the future is needed"),
        ("pause --queue=", "bad queue name ''"),
        ("resume --queue=", "bad queue name ''"),
        ("run --failed 'a['", "bad pattern 'a['"),
        ("run --tag=-a", "bad tag '-a'"),
        ("runs --limit=0", "bad --limit '0': 1 to 1000000 are allowed"),
        ("runs --since=24/12", BAD_TIME),
        ("runs 'a\nb'", "bad job id"),
        ("set '' NOW", "bad job id ''"),
        ("set 'b:A ' NOW", "spaces at its ends"),
        ("set job:A '0 3 * * *' --after=24/12", BAD_TIME),
        ("set job:A '0 3 * * *' --tz=Mars/Olympus", "Mars/Olympus"),
        ("set job:A AFTER:extract:A --after=0", "bad --after '0': it has no effect on the schedule AFTER:extract:A"),
        ("set job:A AT:25:00", "bad timestamp '25:00': epoch seconds or ISO 8601 is needed, such as 2030-01-31T22:45"),
        ("set job:A 'at 25:00'", "5 to 7 fields are needed, it has 2; is one like AT:2030-01-31T22:45 meant?"),
        ("set job:A 'every day'", "'every day': 5 to 7 fields are needed, it has 2; is one like EVERY:15m meant?"),
        ("set job:A GROUP:", "bad schedule 'GROUP:': the name of a group is missing"),
        ("set job:A@all AFTER:extract:A", "a job on every host cannot follow others"),
        ("set once/x:shell NOW", "bad job id 'once/x:shell': only redbike at, in and now set such ids"),
        ("set job:A GROUP:g --after=5", "bad --after '5': it has no effect on the schedule GROUP:g"),
        ("set job:A NOW --after=2002-01-01", "bad --after '2002-01-01': it has no effect on the schedule NOW"),
        ("set job:A NOW --data=NaN", "bad data 'NaN': not JSON:"),
        ("set job:A NOW --group-of='a\tb'", r"bad group-of 'a\tb': control characters, and spaces"),
        ("set job:A NOW --timeout=soon", "bad timeout 'soon': seconds, or a duration such as 15m, from 0.001 to 1e+09"),
        ("shards move --to=65", "bad --to 65: 1 to 64 shards"),
        ("statuses --before=24/12", BAD_TIME),
        ("token add ci --role=read --expires=24/12", BAD_TIME),
        ("unset --tag=-a", "bad tag '-a'"),
        ("why job:A --at=24/12", BAD_TIME),
    ],
)
def test_bad_input_is_refused_before_a_server_is_started_or_missed(tmp_path, line, said):
    check_refused(Within(tmp_path, None).run(*shlex.split(line)), 2, said)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("agenda --after=10000", "bad after 10000.0"),
        ("backfill hourly:A --from=2026-01-08 --to=2026-01-07", "bad range: it begins at 2026-01-08 00:00:00 UTC"),
        ("backfill hourly:A --from=2026-01-08T03:10 --to=2026-01-08T03:20", "nothing to run: 'hourly:A' has no"),
        ("dispatch --schedules=", "bad --schedules '': the name of a file is needed"),
        ("dispatch --schedules=nowhere.csv", "nowhere.csv"),
        ("jobs --queue='a\nb'", r"'a\nb'"),
        ("limit wake-A --rate=5/s", "bad queue name 'wake-A'"),
        ("next 'every day'", "every day"),
        ("next nobody:A", "there is no such job either: 'nobody:A'"),
        ("pause --all --until=2001-01-01", "bad until '2001-01-01': a time in the future is needed"),
        ("pause --queue=", "bad queue name ''"),
        ("server status", "redbike server controls only the embedded server"),
        ("top", "top needs a terminal; "),
        ("up 'jobs:Worker(\"A\")' --schedules=", "bad --schedules '': the name of a file is needed"),
        ("why hourly:A --at=4000000000", "bad --at: 2096-10-02 07:06:40 UTC is in the future"),
        ("work", "no worker: name one, as in 'package.module:Class(\"A:B\")', or package.module:jobs for an instance"),
        ("work 'jobs:Worker(\"A\")' --concurrency=0", "0"),
        ("up 'jobs:Worker(\"A\")' --concurrency=0", "0"),
        ("work 'jobs:Worker(\"A\")' --processes=many", "many"),
        ('work \'jobs:Worker("A") or open("pwned", "w")\'', "jobs:Worker"),
        ("work jobs", "'jobs': package.module:Class('init string') is needed, or package.module:jobs for an instance"),
        ("work 'os:system(\"touch pwned\")'", "os:system"),
        ("--config=nowhere.conf statuses", "nowhere.conf"),
        ("--config=xml.conf statuses", "bad log-format 'xml': text, json are allowed"),
        ("--url=gopher://x statuses", "gopher://x"),
        ("--url= set job:A NOW", "bad --url '': the URL of a server is needed"),
        ("--url=redis://h:1/?nosuch=1 schedules", "bad url 'redis://h:1/?nosuch=1': unknown option 'nosuch'"),
    ],
)
def test_bad_input(jobs, line, said):
    check(jobs, line, 2, said)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("backfill nobody:A --from=2026-01-05 --to=2026-01-06", "no such job: 'nobody:A'"),
        ("cancel nobody:A", "no such job: 'nobody:A'"),
        ("pause hourly:A no*", "no job matches 'no*'"),
        ("pause nobody:A", "no such job: 'nobody:A'"),
        (r"pause 'nightly:\'", r"no such job: 'nightly:\\'"),
        ("resume nobody:A", "no such job: 'nobody:A'"),
        ("run --failed hourly:A", "no job that has failed for good matches 'hourly:A'"),
        ("run hourly:A no*", "no job matches 'no*'"),
        ("run nobody:A", "no such job: 'nobody:A'"),
        ("show nobody:A", "no such job: 'nobody:A'"),
        ("unset nobody:A", "no such job: 'nobody:A'"),
        ("unset 'no*' --dry-run", "no such job: 'no*'"),
        ("why nobody:A", "no such job: 'nobody:A'"),
        ("--url=unix:///nowhere/redis.sock statuses", "/nowhere/redis.sock"),
        ("--url=redis://user:hunter2@127.0.0.1:1/0?password=hunter3 statuses", "127.0.0.1:1"),
        ("--url=redis://127.0.0.1:1 next job:A", "bad schedule 'job:A'"),
    ],
)
def test_what_is_not_there(jobs, line, said):
    check(jobs, line, 1, said)


@pytest.mark.parametrize(
    ("line", "where", "said"),
    [
        ("set load:A AFTER:extract:A", (Redbike, "enter"), "load:A: it is set; for what it waits cannot be read: "),
        ("now -- true", (Setter, "enter_from_shell"), ""),
        ("backfill daily:A --from=2026-01-05 --to=2026-01-06", (Redbike, "backfill"), "daily:A: 2 occurrences run"),
        ("run daily:A every:A@all", (job_control, "run_jobs"), "every:A@all: it has no job on any host"),
        ("pause --queue=A", (Redbike, "pause_queue"), ""),
        ("limit A --at-once=2", (Redbike, "limit"), ""),
    ],
)
def test_a_server_that_goes_away_after_a_change_is_no_failure(tmp_path, own_server, monkeypatch, line, where, said):
    """Whoever hears of an error does it again, and it would run twice."""
    change, shell = getattr(*where), Within(tmp_path, own_server.url)
    for jobid in ("daily:A", "every:A@all"):
        assert shell.run("set", jobid, "@daily").returncode == 0

    def change_and_stop(*given, **named):
        found = change(*given, **named)
        own_server.stop()
        return found

    monkeypatch.setattr(*where, change_and_stop)
    done = shell.run(*shlex.split(line))
    assert (done.returncode, said in done.stderr) == (0, True), done
    assert not own_server.status()["running"]


def check(jobs, line, status, said):
    (jobs.folder / "xml.conf").write_text("[redbike]\nlog-format: xml\n")
    jobs.bike.set("hourly:A", "EVERY:1h@0")
    with unchanged(jobs.bike.store):
        done = jobs.run(*shlex.split(line))
        check_refused(done, status, said)
        assert "hunter" not in done.stderr
    assert not (jobs.folder / "pwned").exists()
