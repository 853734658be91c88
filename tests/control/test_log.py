"""Who changed what: what is noted of a person's calls, and on the command line, and of nobody else's."""

import io
import os
import pwd
import socket
import time

import pytest

from redbike import BadConfig, BadJobId, LogEntry, Redbike, RoundRobin
from redbike.store.inspection.fsck import fsck
from tests.waiting import wait_until

ME = "me@here"
HOURLY = "EVERY:1h@0"
BIKE = {"queues": "A:B", "noted_as": ME}


def rows(bike, jobid=None):
    return [(entry.action, entry.jobid, entry.detail) for entry in bike.log(jobid)]


def test_a_program_is_not_noted_unless_it_wants_to_be(bike, client, prefix):
    program = Redbike(RoundRobin("A:B"), prefix, client)
    program.set("a:A", HOURLY)
    program.pause("a:A")
    program.control("HALT")
    assert list(bike.log()) == []
    before = time.time()
    bike.set("a:A", "EVERY:2h@0")
    [entry] = program.log()
    assert entry == LogEntry(entry.time, ME, "set", "a:A", f"{HOURLY} -> EVERY:2h@0")
    assert before - 2 < entry.time < time.time() + 2


def test_each_verb_is_noted_with_what_it_changed(bike):
    bike.set("a:A", "EVERY:1h@0.0")
    bike.pause("a:A", until=1e10, reason="moving house")
    bike.pause("a:A")
    bike.resume("a:A")
    bike.resume("a:A")
    bike.run("a:A")
    bike.cancel("a:A")
    bike.cancel("a:A")
    bike.control("halt")
    bike.unset("a:A")
    bike.unset("a:A")
    assert rows(bike) == [
        ("unset", "a:A", "EVERY:1h@0.0"),
        ("halt", "", "HALT"),
        ("cancel", "a:A", ""),
        ("run", "a:A", ""),
        ("resume", "a:A", ""),
        ("pause", "a:A", "until 2286-11-20T17:46:40+00:00: moving house"),
        ("set", "a:A", "EVERY:1h@0.0"),
    ]
    assert rows(bike, "a:A") == [row for row in rows(bike) if row[1]]
    assert rows(bike, "b:A") == []
    with pytest.raises(BadJobId):
        bike.log("a\nb")


def test_a_pause_is_by_whom_the_log_names(bike):
    bike.set("a:A", HOURLY)
    bike.pause("a:A")
    bike.pause_all()
    assert bike.tell("a:A")["paused"]["by"] == ME
    assert bike.queue_limits()[0].pause.by == ME


@pytest.mark.parametrize("who", ["", "a\nb", "x" * 201, 7])
def test_who_is_one_line_of_limited_length(client, prefix, who):
    with pytest.raises(BadConfig, match="bad noted_as"):
        Redbike(RoundRobin("A"), prefix, client, noted_as=who)


def test_what_loops_change_is_not_noted(bike):
    bike.set("a:A", HOURLY)
    until = time.time() + 60
    bike.pause("a:A", until=until)
    bike.pause_queue("A", until=until)
    noted = rows(bike)
    bike.dispatch_due(until + 1)
    assert "paused" not in bike.tell("a:A")
    assert not bike.queue_limits()
    bike.set("a:A", "NOW")
    bike.dispatch_due()
    assert bike.work_one() == "a:A"
    assert rows(bike)[1:] == noted


def test_a_file_is_one_entry_when_it_is_done(bike, tmp_path):
    path = tmp_path / "jobs{}\x1b.csv"
    path.write_text("".join(f"{n}:A,{HOURLY}\n" for n in range(1200)) + "bad:A,whenever\nno row\n")
    assert len(list(bike.load(str(path)))) == 1202
    assert rows(bike) == [("load", "", f"{tmp_path}/jobs{{}}\\x1b.csv: 1200 added, 2 bad")]


def test_a_file_that_sets_nothing_is_not_noted(bike, tmp_path):
    list(bike.load(io.StringIO("no row\nbad:A,whenever\n")))
    with pytest.raises(BadConfig):
        list(bike.load(str(tmp_path / "nowhere.csv")))
    assert rows(bike) == []


def test_a_load_that_is_interrupted_is_noted_with_what_it_has_set(bike):
    lines = io.StringIO("".join(f"{n}:A,{HOURLY}\n" for n in range(1200)))
    loading = bike.load(lines)
    next(loading)
    loading.close()
    assert rows(bike) == [("load", "", "the open file: 500 added, interrupted")]
    assert len(list(bike.get_schedules())) == 500


def test_a_repair_is_noted_if_it_repaired_something(bike, client):
    assert list(bike.repair()) == []
    assert rows(bike) == []
    client.zadd(bike.store.keys.timers, {"nobody": 1})
    assert [well for _, well in bike.repair()] == [True]
    assert rows(bike) == [("repair", "", "1 repaired, 0 not repaired")]


def test_damaged_entries_are_named_and_removed(bike, client):
    bike.set("a:A", HOURLY)
    noted = rows(bike)
    key = bike.store.keys.log
    client.rpush(key, "garbage", '["1.000000","me","set"]', "garbage")
    found = list(fsck(bike.store))
    assert found == [
        f"the key {key!r} holds 'garbage', which is no entry of the log",
        f'the key {key!r} holds \'["1.000000","me","set"]\', which is no entry of the log',
    ]
    assert rows(bike) == noted
    repaired = list(Redbike(RoundRobin("A:B"), bike.prefix, client).repair())
    assert repaired == [(f"{line} -- repaired: it is removed", True) for line in found]
    assert list(fsck(bike.store)) == []
    assert rows(bike) == noted
    client.delete(key)
    client.set(key, "a string")
    assert "is a string, not a list" in next(fsck(bike.store))
    client.delete(key)
    bike.flush()


def test_the_command_line_notes_who_and_shows_it(shell):
    def run(*arguments, status=0):
        done = shell.run(*arguments)
        assert done.returncode == status, done.stderr
        return done.stdout

    began = time.time()
    shell.environment |= {"LOGNAME": "boss", "USER": "boss", "SUDO_USER": "m\te\x1b"}
    (shell.folder / "jobs.csv").write_text("one:A,EVERY:1h\ntwo:A,EVERY:1h\n")
    assert run("log") == "time,who,action,jobid,detail\n"
    run("load", "jobs.csv")
    run("set", "--timeout=5", '--data="secret"', "a:A", "RRULE:FREQ=DAILY")
    run("set", "--", "-b:A", "NOW")
    run("pause", "*:A")
    run("resume", "--queue=A")
    run("pause", "--queue=A", "--reason=why, indeed")
    run("limit", "A", "--at-once=3")
    run("limit", "A")
    run("resume", "a:A", "--dry-run")
    run("control", "HALT")
    run("unset", "nobody:A", status=1)
    run("unset", "one:A")
    shown = shell.list_rows("log")
    who = f"{pwd.getpwuid(os.geteuid()).pw_name}@{socket.gethostname()} (sudo by m e\\x1b)"
    assert all(len(row) == 5 and row[1] == who and began - 2 < float(row[0]) < time.time() + 2 for row in shown)
    assert [row[2] for row in shown] == [*["unset", "halt", "limit", "pause"], *["pause"] * 4, "set", "set", "load"]
    assert [row[3:] for row in shown[:4]][:-1] == [
        ["one:A", shown[0][4]],
        ["", "HALT"],
        ["", "queue work-A: at once 3"],
    ]
    assert shown[3][3:] == ["", "queue work-A: why, indeed"]
    assert shown[-1][4] == "jobs.csv: 2 added"
    assert "timeout: default -> " in shown[-2][4]
    assert "; data changed" in shown[-2][4]
    assert "\\n" in shown[-2][4]
    assert "secret" not in str(shown)
    assert run("log", "--limit=2") == "".join(run("log").splitlines(keepends=True)[:3])
    assert [row[2] for row in shell.list_rows("log", "one:A")] == ["unset", "pause"]
    assert [row[2] for row in shell.list_rows("log", "--", "-b:A")] == ["pause", "set"]
    assert shell.list_rows("log", "nobody:A") == []


def test_a_dispatcher_notes_its_file_and_nothing_more(shell):
    (shell.folder / "jobs.csv").write_text("one:A,EVERY:1h\nbad:A,whenever\n")
    dispatcher = shell.start("dispatch", "--schedules=jobs.csv")
    wait_until(lambda: shell.list_rows("log"))
    assert "bad:A,BAD," in shell.run("statuses").stdout
    assert shell.run("log").stdout.endswith(',load,,"jobs.csv: 1 added, 1 bad"\n')
    wait_until(lambda: shell.run("control", "HALT").returncode == 0 and dispatcher.poll() is not None)
