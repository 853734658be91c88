"""``redbike check``: each kind of problem, on a real server; what is only a remark; and that nothing changes."""

import shlex
import shutil
import sys
import time
import zoneinfo
from importlib import resources

import pytest

from redbike import Finding, Redbike, RoundRobin
from redbike.cli import main
from redbike.cli.messages import DONE, FAILED
from redbike.commands import Commands
from redbike.queries.check.findings import MOST_GROUPS
from redbike.schedule.zones import find_release
from redbike.store import agreed
from redbike.store.agreed import STOCK, Naming
from redbike.store.keys import Keys
from tests.loops import make_worker
from tests.servers import free_ports
from tests.states import unchanged
from tests.terminal import run_on_terminal
from tests.verbs import Quiet
from tests.waiting import wait_until

KEYS = Keys("redbike")
COMMANDS = "redbike.commands:Commands('A', 'jobs.ini')"
NOBODY = "no dispatcher and no worker is running: no job begins before one is"
WORKER = """
from redbike import Jobs, RoundRobin

class Worker(RoundRobin):
    def work(self, jobid):
        pass

class Idle(Worker):
    def queue_names(self):
        return []

class Crowded(Worker):
    def timeout(self, queue_name):
        return -1

class Lazy(RoundRobin):
    pass

class Odd(Worker):
    concurrency = 0

    def limits(self):
        return {"A": 5}

class Yielding(RoundRobin):
    def work(self, jobid):
        yield

class Partial:
    def work(self, jobid):
        pass

class Others(Jobs):
    def work(self, jobid, data=None):
        pass

functions, others = Jobs(), Others()
for jobs in functions, others:
    @jobs.job("backup")
    def backup():
        pass
"""


@pytest.fixture
def check(tmp_path, client, server_url, monkeypatch, capsys):
    """Runs it in a folder of its own; (exit status, lines)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDBIKE_URL", server_url)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "checkedjobs", raising=False)
    (tmp_path / "checkedjobs.py").write_text(WORKER)

    def run(*arguments):
        capsys.readouterr()
        status = main(["check", *arguments])
        out, err = capsys.readouterr()
        assert err == ""
        return status, out.splitlines()

    return run


@pytest.fixture
def conf(check, tmp_path, monkeypatch):
    """Writes the config file, and checks without a server of the environment."""
    monkeypatch.delenv("REDBIKE_URL")

    def write(text, *arguments, mode=0o600):
        path = tmp_path / ".redbike.conf"
        path.write_text(text)
        path.chmod(mode)
        return check(*arguments)

    return write


def problems(check, *arguments, **more):
    """The problems that it finds."""
    status, lines = check(*arguments, **more)
    assert status == FAILED
    return [line.removeprefix("problem: ") for line in lines if line.startswith("problem: ")]


def notes(check, *arguments):
    """What it remarks, and nothing is wrong."""
    status, lines = check(*arguments)
    assert status == DONE
    return [line.removeprefix("note: ") for line in lines if line.startswith("note: ")]


# The config


def test_all_is_well_and_says_what_was_looked_at(check, server_url):
    bike = Redbike(RoundRobin("A"), redis_config=server_url)
    bike.set("job:A", "EVERY:1h")
    bike.set("other:A", "0 3 * * *", retries=5, data={"to": 7})
    assert check("checkedjobs:Worker('A')") == (
        DONE,
        [f"note: {NOBODY}", "all is well: the config, the worker class, the server and 2 jobs"],
    )
    # It says so only while it is true.
    with make_worker(bike.store, bike.worker).presence:
        assert notes(check) == [NOBODY.replace(" and no worker", "")]
        bike.store.workers.register("Ownerd01", '{"kind":"dispatcher","host":"h","pid":1,"queues":[],"version":"1"}')
        assert notes(check) == []
    bike.unset("job:A")
    bike.unset("other:A")
    assert notes(check) == []


def test_every_problem_of_the_config_is_named_not_only_the_first(conf):
    said = problems(
        conf,
        "[redbike]\nprefx: app\nretries: many\nretries: 4x\non-error: explode\nworker: nobody\n"
        "[redbik-redis]\n[redbike-redis]\nhots: db\nport: x\n",
    )
    for words in (
        "line 4: 'retries' is there already in the section 'redbike'",
        "unknown setting 'prefx' in [redbike]; is 'prefix' meant?",
        "bad retries '4x'",
        "bad on-error 'explode': stop, reschedule, retry are allowed",
        "the section 'redbik-redis' of the config file is ignored; is 'redbike-redis' meant?",
        "unknown connection setting 'hots'; is 'host' meant?",
        "bad connection setting port 'x'",
        "bad worker 'nobody'",
    ):
        assert [line for line in said if words in line], words
    assert len(said) == 8


def test_a_program_for_alerts_that_is_missing_is_named(conf):
    [said] = problems(conf, "[redbike]\nalert: no-such-program secret\n")
    assert said == "the program 'no-such-program' of alert is missing on this host: nobody is told what is wrong"
    assert "all is well" in conf("[redbike]\nalert: slack+https://host/x\n")[1][-1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nonsense\n", "line 1 is neither a [section] nor a 'key: value' in one"),
        ("[redbike]\none\nprefix: a\ntwo\n", "the lines 2, 4 are neither"),
        ("[redbike-redis]\nurl: redis://h\nport: 1\n", "has a url and also 'port': give only one of them"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_problem(conf, text, said):
    assert said in problems(conf, text, "--url=unix:///nowhere")[0]
    missing = "cannot read the config file 'none.conf': No such file or directory"
    assert problems(conf, "", "--config=none.conf") == [missing]


def test_a_bad_prefix_keeps_it_from_looking_at_the_jobs_of_another(conf, server_url):
    status, [_, last] = conf("[redbike]\nprefix: a b\n", f"--url={server_url}")
    assert (status, last) == (FAILED, "1 problem in the config")


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        ("[redbike-redis]\nurl: redis://:hunter2@127.0.0.1:1\n", 0o644, "every user can read"),
        ("[redbike-redis]\nhost: 127.0.0.1\nport: 1\npassword: hunter2\n", 0o644, "every user can read"),
        ("[redbike-redis]\nurl: redis://:hunter2@127.0.0.1:1\n", 0o640, ""),
        ("[redbike-redis]\nurl: redis://user@127.0.0.1:1\n", 0o644, ""),
        ("[redbike-redis]\nurl: redis://127.0.0.1:1\n", 0o602, "every user can change"),
    ],
)
def test_a_file_that_others_can_read_or_change_is_a_problem(conf, text, mode, said):
    found = problems(conf, text, mode=mode)
    assert [line[: len(said)] for line in found if "every user" in line] == [said] * bool(said)
    assert "hunter2" not in "".join(found)
    assert "cannot reach Redis" in found[-1]


def test_what_overrides_what_is_a_remark(conf, server_url, monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis://:hunter2@one")
    assert notes(conf, "[redbike-redis]\nurl: redis://two\n", f"--url={server_url}")[0] == (
        f"the server is {server_url}, by --url, which overrides REDIS_URL and [redbike-redis] in '.redbike.conf'"
    )


# The worker class


@pytest.mark.parametrize(
    ("worker", "said"),
    [
        ("nowhere:Worker('A')", "importing nowhere fails: ModuleNotFoundError"),
        ("checkedjobs:Nobody('A')", "checkedjobs has no class 'Nobody'"),
        ("checkedjobs:Partial()", "Partial has no method queue_for()"),
        ("checkedjobs:Worker()", "missing 1 required positional argument"),
        ("checkedjobs:Idle('A')", "queue_names() gives no queue to work"),
        ("checkedjobs:Crowded('A')", "bad timeout -1 for queue 'work-A'"),
        ("checkedjobs:Lazy('A')", "Lazy has no work() of its own"),
        ("checkedjobs:Odd('A')", "bad concurrency 0 of Odd"),
        ("checkedjobs:Odd('A')", "limits() returned 5"),
        ("checkedjobs:Yielding('A')", "bad work of Yielding: work() has a yield"),
        ("redbike.commands:Commands('A', 'none.ini')", "cannot read commands from"),
    ],
)
def test_a_worker_class_that_cannot_work_is_a_problem(check, worker, said):
    assert [line for line in problems(check, worker) if said in line]


def test_what_this_host_does_not_have_of_the_commands_is_a_note(check, tmp_path):
    names = "\n".join(f"{name}: {shlex.quote(sys.executable)}" for name in "abcde")
    (tmp_path / "jobs.ini").write_text(
        f"[commands]\n{names}\nf: /none/run\ng: none\nh: nil x\ni: nil\nj: sh\n[*]\ncwd = {tmp_path}/gone\n"
        "[f]\ncwd = /\n[g]\ncwd = /\nshell = /none/sh\n[h]\ncwd = /\n[i]\ncwd = /\n[j]\ncwd = /\n"
        "env.PATH = /none\non-failure = sh\n"
    )
    assert [line for line in notes(check, COMMANDS) if "missing" in line] == [
        f"the folder '{tmp_path}/gone' of the commands 'a', 'b', 'c' and 2 more is missing on this host",
        "the program '/none/run' of the command 'f' is missing on this host",
        "the program '/none/sh' of the command 'g' is missing on this host",
        "the program 'nil' of the commands 'h', 'i' is missing in the PATH here",
        "the program 'sh' of the command 'j' is missing in the PATH here",
    ]


def test_a_command_that_needs_a_shell_and_has_none_is_a_note(check, tmp_path):
    (tmp_path / "jobs.ini").write_text(
        "[commands]\nredirected: echo hi > out\nboth: true && false\nshelled: true && false\nlogged: sh x 2>&1\n"
        "told: true\nplain: sh -c 'true && false'\n[shelled]\nshell = /bin/sh\n[told]\non-failure = a && b\n"
    )
    ending = "it needs shell = /bin/sh, or quotes around it"
    assert [line for line in notes(check, COMMANDS) if "no shell" in line] == [
        f"no shell reads the '>' of the command 'redirected': {ending}",
        f"no shell reads the '&&' of the commands 'both', 'told': {ending}",
        f"no shell reads the '2>' of the command 'logged': {ending}",
    ]


def test_every_problem_of_a_file_of_commands_is_named(check, tmp_path):
    (tmp_path / "jobs.ini").write_text(
        "[commands]\na: echo 'x\nb: echo\nc: echo\n[b]\ntimout = 5\n[c]\nretries = x\n[d]\n"
    )
    said = problems(check, COMMANDS)
    assert len(said) == 4
    for words in ("section 'd'", "command 'a': bad command line", "unknown key 'timout'", "bad retries 'x'"):
        assert [line for line in said if words in line], words


# The server


def test_a_server_that_does_not_answer_is_a_problem(check):
    [port] = free_ports(1)
    status, lines = check(f"--url=redis://user:hunter2@127.0.0.1:{port}")
    assert status == FAILED
    assert lines[1].startswith(f"problem: cannot reach Redis at 127.0.0.1:{port}")
    assert lines[-1] == "1 problem in the config and the server"
    assert "hunter2" not in "".join(lines)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"maxmemory-policy": "allkeys-lru"}, "the server's maxmemory-policy is 'allkeys-lru'"),
        ({"appendonly": "no", "save": ""}, "the server keeps nothing on disk"),
        ({}, "the server is a replica of 127.0.0.1:1"),
    ],
)
def test_settings_that_endanger_jobs_are_problems(check, node, settings, said):
    for name, value in settings.items():
        node.client.config_set(name, value)
    if not settings:
        node.client.replicaof("127.0.0.1", "1")
    found = problems(check, url_of(node))
    assert [line for line in found if line.startswith(said)]
    assert not [line for line in found if "refuses" in line], "a replica is no more than that"


def url_of(node):
    return f"--url=redis://127.0.0.1:{node.port}"


def test_a_server_that_is_almost_full_is_a_problem_and_snapshots_alone_are_a_remark(check, node):
    node.client.config_set("save", "3600 1")
    node.client.config_set("appendonly", "no")
    assert [line for line in notes(check, url_of(node)) if line.startswith("the server has no append-only file")]
    # In small parts: the buffer of a connection counts as well, for a while.
    for number in range(500):
        node.client.set(f"filler{number}", b"x" * 100_000)
    node.client.config_set("maxmemory", int(node.client.info("memory")["used_memory"] * 1.05))
    found = problems(check, url_of(node))
    assert [line for line in found if "when it is full, it takes no jobs" in line], found


REFUSALS = [
    ("min-replicas-to-write", "the server refuses all changes, so no job runs: Redis refuses: NOREPLICAS "),
    ("maxmemory", "the server refuses new jobs: Redis is out of memory: "),
]


@pytest.mark.parametrize(("setting", "said"), REFUSALS)
@pytest.mark.parametrize("shards", ["1", "4"])
def test_a_server_that_refuses_changes_is_a_problem_and_said_once(check, node, monkeypatch, shards, setting, said):
    monkeypatch.setenv("REDBIKE_SHARDS", shards)
    with Redbike(RoundRobin("A"), redis_config=url_of(node).removeprefix("--url="), shards=int(shards)) as bike:
        bike.set("a:A", "EVERY:1h")
    status, lines = check(url_of(node))
    assert (status, f"note: {NOBODY}" in lines) == (DONE, True)
    node.client.config_set(setting, "1")
    status, lines = check(url_of(node))
    assert len([line for line in lines if line.startswith(f"problem: {said}")]) == 1, lines
    # Processes that wait for the server cannot renew what says that they are there.
    assert (f"note: {NOBODY}" in lines) == (setting == "maxmemory")


def test_no_server_is_started_and_that_none_runs_is_a_remark(conf, tmp_path):
    status, [note, last] = conf("[redbike]\nprefix: app\n")
    assert (status, last) == (DONE, "all is well: the config")
    assert note.startswith(f"note: no server runs in '{tmp_path}/.redbike', so check skipped the jobs")
    assert not (tmp_path / ".redbike").exists()


def test_clocks_that_differ_are_a_remark(check, monkeypatch):
    clock = time.time
    monkeypatch.setattr("redbike.queries.check.surroundings.time.time", lambda: clock() + 60)
    [note] = notes(check)
    assert note.endswith("s ahead of that of the server, which Redbike uses")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, None),
        (b"123", "b'123' is no line with a timestamp"),
        (b"99999999999.000000\n", "is in the future"),
        ("folder", "it is no regular file"),
        ("nowhere", "does not exist"),
    ],
)
def test_a_timefile_that_cannot_be_used_is_a_problem(conf, tmp_path, server_url, content, said):
    name = "nowhere/time" if content == "nowhere" else "time"
    if content == "folder":
        (tmp_path / "time").mkdir()
    elif isinstance(content, bytes):
        (tmp_path / "time").write_bytes(content)
    look = problems if said else notes
    found = look(conf, f"[redbike]\ntimefile: {name}\n", f"--url={server_url}")
    assert not said or [line for line in found if line.startswith("the timefile") and said in line]


# Stored jobs


@pytest.fixture
def bike(client, server_url):
    return Redbike(Quiet("A"), redis_config=server_url)


def damage(client, key, value, field="job:A"):
    client.hset(key, field, value)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (KEYS.schedules, "every day", "its schedule cannot be read: bad cron 'every day'"),
        (KEYS.schedules, "", "no schedule"),
        (KEYS.schedules, b"\xff 3 * * *", "its schedule cannot be read"),
        (KEYS.statuses, "TML:soon", "its status cannot be read: 'TML:soon'"),
        (KEYS.options, "{", "its options cannot be read: '{'"),
        (KEYS.options, "[1]", "its options cannot be read: '[1]'"),
        (KEYS.options, '{"retries": "many"}', "its option cannot be read: bad retries 'many'"),
        (KEYS.options, '{"colour": 1}', "its option 'colour' is unknown"),
        (KEYS.data, '{"a":', "bad data '{\"a\":': not JSON"),
        (KEYS.queued, "soon", "its place in its queue cannot be read: 'soon'"),
        (KEYS.running, "now", "its run cannot be read: 'now'"),
        (KEYS.pauses, "for ever", "its pause cannot be read: 'for ever'"),
        (KEYS.retry_states, "lucky", "its retry state cannot be read: 'lucky'"),
        (KEYS.failures, "none", "its failure cannot be read: 'none'"),
    ],
)
def test_whatever_is_damaged_is_a_problem(bike, client, check, key, value, said):
    bike.set("job:A", "0 3 * * *")
    damage(client, key, value)
    with unchanged(bike.store):
        [line] = problems(check)
    assert line.startswith(f"'job:A': {said}")
    assert [str(finding) for finding in bike.check()] == [f"problem: {line}"]


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        # It forges no line.
        (
            lambda bike: damage(bike.client, KEYS.schedules, "0 3 * * *", "a\nproblem: b:A"),
            "control characters are not",
        ),
        (lambda bike: damage(bike.client, KEYS.schedules, "0 3 * * *", "job:"), "nothing after its last ':' names a q"),
        (
            lambda bike: bike.client.set(KEYS.schedules, "x"),
            f"the key '{KEYS.schedules}' is a string, not a hash, so the jobs cannot be checked",
        ),
        (
            lambda bike: bike.store.jobs.reject("job:A"),
            "'job:A': it was never scheduled, as its schedule was bad; set or unset it",
        ),
    ],
)
def test_what_nobody_can_set_and_what_nobody_can_read_is_a_problem(bike, check, prepare, said):
    prepare(bike)
    [line] = problems(check)
    assert said in line


def test_a_rule_that_has_run_out_is_a_remark_and_what_ends_in_order_is_none(bike, check):
    bike.set("old:A", "DTSTART:20200101T000000Z\nRRULE:FREQ=DAILY;COUNT=2")
    bike.set("once:A", "AT:1000")
    bike.set("stopped:A", "STOP")
    bike.set("now:A", "NOW")
    bike.set("on:A", "CONTINUE")
    assert notes(check) == ["'old:A': its rule has run out, it does not run again", NOBODY]


def test_jobs_whose_queue_nobody_works_are_one_line(bike, check):
    for number in range(1200):
        bike.set(f"job{number}:B", "0 3 * * *")
    bike.set("other:A", "0 3 * * *")
    bike.set("stopped:C", "STOP")
    [line] = problems(check, "checkedjobs:Worker('A')")
    assert line.startswith("no worker works the queue 'work-B': 1,200 jobs, such as 'job")
    assert check("checkedjobs:Worker('A:B')")[0] == DONE
    # Without a worker class and without a worker, nobody knows.
    assert check()[0] == DONE


def test_a_worker_that_is_alive_counts_whatever_is_configured(bike, check):
    bike.set("job:B", "0 3 * * *")
    entry = '{"kind": "worker", "host": "web1", "pid": 1, "queues": ["work-B"], "version": "1"}'
    bike.store.workers.register("Ownerw01", entry)
    assert check("checkedjobs:Worker('A')")[0] == DONE
    bike.set("job:C", "0 3 * * *")
    assert problems(check) == ["no worker works the queue 'work-C': the job 'job:C'"]
    # There are more queues than the list of a worker has.
    bike.store.workers.register("Ownerw02", entry.replace("work-B", "…+3"))
    assert check("checkedjobs:Worker('A')")[0] == DONE


def test_a_job_on_every_host_counts_by_its_queue_there(bike, check):
    for schedule in ("0 3 * * *", "STOP", "AT:1000"):
        bike.set(f"job{schedule[:1]}:B@all", schedule)
    assert problems(check, "checkedjobs:Worker('A')") == ["no worker works the queue 'work-B': the job 'job0:B@all'"]
    assert check("checkedjobs:Worker('B')")[0] == DONE


def test_jobs_that_wait_in_another_queue_than_theirs_are_one_line(bike, check, monkeypatch):
    monkeypatch.setattr(agreed, "REREAD", 0.0)
    for jobid in ("backup:Y", "backup:Z", "backup:1:Z"):
        bike.set(jobid, "NOW")
    bike.set("here:A", "NOW")
    entry = '{"kind": "worker", "host": "web1", "pid": 1, "queues": ["work-A", "work-backup"], "version": "1"}'
    naming = Naming(frozenset([STOCK]), {"backup": "work-backup"})
    bike.store.workers.register("Ownerw01", entry, naming=naming)
    remedy = "; redbike run moves each to 'work-backup'"
    assert sorted(problems(check)) == [
        f"no worker works the queue 'work-Y', in which jobs wait: the job 'backup:Y'{remedy}",
        f"no worker works the queue 'work-Z', in which jobs wait: the jobs 'backup:Z', 'backup:1:Z'{remedy}",
    ]
    # The worker class that is checked may have the queue.
    [line] = problems(check, "checkedjobs:Worker('Z')")
    assert "'work-Y', in which" in line
    bike.store.jobs.run(["backup:Y", "backup:Z", "backup:1:Z"])
    assert check()[0] == DONE


def test_a_million_queues_are_counted_together(bike, check):
    list(bike.set_many((f"job:Q{number}", "0 3 * * *") for number in range(MOST_GROUPS + 5)))
    found = problems(check, "checkedjobs:Worker('A')")
    assert len(found) == MOST_GROUPS + 1
    assert found[-1] == "no worker works: 5 more jobs"


def test_jobs_without_a_command_are_one_line(bike, check, tmp_path):
    (tmp_path / "jobs.ini").write_text("[commands]\nbackup: echo\n")
    for name in ("backup:A", "backup:db:A", "report:1:A", "report:2:A"):
        bike.set(name, "0 3 * * *")
    bike.set("stopped:A", "STOP")
    [line] = problems(check, COMMANDS)
    assert line.startswith("the worker has no command 'report': the jobs 'report:")
    other = Redbike(Commands("A", str(tmp_path / "jobs.ini")), redis_config=bike.client)
    assert list(other.check()) == [Finding(line)]


def test_jobs_without_a_function_are_one_line(bike, check):
    for name in ("backup", "backup:db", "old", "old:1"):
        bike.set(name, "EVERY:1h")
    [line] = problems(check, "checkedjobs:functions")
    assert line.startswith("the worker has no function 'old': the jobs 'old")
    other = Redbike(sys.modules["checkedjobs"].functions, redis_config=bike.client)
    assert list(other.check()) == [Finding(line)]
    assert notes(check, "checkedjobs:others") == [NOBODY]
    # Neither while a worker of it is there.
    with make_worker(bike.store, sys.modules["checkedjobs"].others).presence:
        assert notes(check, "checkedjobs:others") == [NOBODY.replace(" and no worker", "")]


def test_a_job_of_a_worker_class_that_cannot_be_loaded_has_no_known_queue(bike, check):
    bike.set("job:B", "0 3 * * *")
    bike.store.workers.register("Ownerw01", '{"kind":"worker","host":"h","pid":1,"queues":["x"],"version":"1"}')
    assert len(problems(check, "nowhere:Worker('A')")) == 1


def test_no_job_and_no_request_is_held_while_it_reads(bike, client):
    """A page at a time: what it finds comes before it has read all. No script is run for each job."""
    list(bike.set_many((f"job{number}:A", "0 3 * * *") for number in range(3000)))
    damage(client, KEYS.schedules, "bad")
    client.config_resetstat()
    heard = []
    found = bike.check(lambda done, number: heard.append((done, number)))
    assert heard == []
    assert len(list(found)) == 1
    assert heard == [(done, 3001) for done in range(500, 3001, 500)]
    calls = {name: stats["calls"] for name, stats in client.info("commandstats").items()}
    assert calls.get("cmdstat_evalsha", 0) == 0
    assert sum(calls.values()) < 150


@pytest.mark.acceptance
def test_a_bar_shows_how_far_it_is(shell, client):
    keys = Keys("redbike")
    with client.pipeline(transaction=False) as pipeline:
        for number in range(30_000):
            pipeline.hset(keys.schedules, f"job{number}:A", "0 3 * * *")
        pipeline.execute()
    shown = run_on_terminal(shell, "check")
    assert "/30000" in shown
    assert shown.rstrip().endswith("30,000 jobs")


def start_dispatcher(shell):
    """Start one, and return it as it is listed."""
    shell.start("dispatch")
    wait_until(shell.bike.workers)
    [process] = shell.bike.workers()
    return process


def test_a_process_that_places_jobs_by_other_settings_is_named(check, shell):
    (shell.folder / ".redbike.conf").write_text("[redbike]\ncatchup: none\ngrace: 5m\nhistory: 100\nlog-level: debug\n")
    process = start_dispatcher(shell)
    (shell.folder / ".redbike.conf").unlink()
    assert [line for line in problems(check) if " has " in line] == [
        f"the dispatcher {process.id} has {name}: {other}, this config has {own}: "
        "so what happens to a job depends on which process has it"
        for name, other, own in (("catchup", "none", "last"), ("grace", "300.0", "0.0"), ("history", "100", "10"))
    ]


def test_a_process_that_has_the_zones_of_another_release_is_named(check, shell):
    zones = shell.folder / "zones"
    zones.mkdir()
    (zones / "tzdata.zi").write_text("# version 2001a\n# redo posix_only\n")
    shutil.copy(resources.files("tzdata") / "zoneinfo" / "UTC", zones)
    shell.environment["PYTHONTZPATH"] = ":".join([str(zones), *zoneinfo.TZPATH])
    process = start_dispatcher(shell)
    assert [line for line in check()[1] if "tzdata" in line] == [
        f"note: the dispatcher {process.id} has the time zones of tzdata 2001a, this host those of {find_release()}: "
        "in a zone that has changed, the due time of a job depends on which process schedules it"
    ]
