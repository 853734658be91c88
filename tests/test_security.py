"""What docs/security.rst promises: users of Redis with least rights, no secret shown, no file open to others."""

import json
import os
import re
import shlex
import stat
from contextlib import contextmanager
from types import SimpleNamespace
from typing import ClassVar

import pytest
from redis.exceptions import NoPermissionError

from redbike import BadConfig, Limit, Redbike, RoundRobin, StopWork, UnsetJob
from redbike.config.settings import Settings
from redbike.connection.check import check_server
from redbike.control.moving import Mover
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.dispatcher.misplaced import Moving
from redbike.errors import ServerError
from redbike.loop.alerts.thread import Alerting
from redbike.loop.loop import Loop
from redbike.loop.queues import apply_limits
from redbike.queries.check.surroundings import ServerCheck
from redbike.queries.glance import read_view
from redbike.queries.metrics import Metrics
from redbike.store import rights
from redbike.store.agreed import FUNCTIONS, Naming
from redbike.store.cursors import Cursor
from redbike.store.job import JobSearch
from redbike.store.lease import LEASE
from redbike.store.misplaced import TIMER
from redbike.store.next_state import NextState
from redbike.store.outputs import pack_output
from redbike.store.past_runs import RunSearch
from redbike.store.sharded.quotas import divide_anew, divide_missed
from redbike.store.signals import Signal
from tests.commandline import ROOT, Shell
from tests.proc import arguments_below
from tests.shards import name_jobs
from tests.states import end
from tests.store.test_rights import NEVER, list_commands, list_scripts
from tests.verbs import set_job, take_many, take_one
from tests.waiting import wait_until

PAGE = (ROOT / "docs" / "security.rst").read_text()
ROLES = ("dispatcher", "worker", "client")
# The commands for a shell, then those that are typed into redis-cli.
IN_A_SHELL = {
    role: shlex.split(
        re.search(rf"redis-cli (ACL SETUSER redbike-{role} .*)$", PAGE.replace("\\\n", ""), re.MULTILINE)[1]
    )
    for role in ROLES
}
TYPED = [line.split() for line in re.findall(r"^   (ACL SETUSER .*)$", PAGE, re.MULTILINE)]
RIGHTS = {role: [word[1:] for word in words if word.startswith("+")] for role, words in IN_A_SHELL.items()}
_SAID = re.search(r"Only ``fsck`` needs it, and with it ``([a-z \n]+)``, and\s+``([a-z ]+)`` for ``--repair``", PAGE)
OF_FSCK = ["scan", *_SAID[1].split(), *_SAID[2].split()]
# What the users need besides if there are shards: their keys and channels, and commands.
_OF_SHARDS = re.search(r"\*\*Shards\.\*\*(.*?)``redbike shards move``", PAGE, re.DOTALL)[1]
OF_SHARDS = [word for text in re.findall("``(.+?)``", _OF_SHARDS) for word in shlex.split(text) if word[0] in "~&+"]
PASSWORD = "PASSWORD"
ENTRY = '{"kind": "worker", "host": "web1", "pid": 4711, "queues": [], "version": "1"}'
# The tests of rights compare which commands are given.
FOREIGN = [
    ("GET", "other-control"),
    ("LPUSH", "redbikes", "job:A"),
    ("FLUSHALL",),
    ("CONFIG", "GET", "*"),
    ("EVAL", "return 1", "0"),
    ("SPUBLISH", "other-journal", "message"),
]
WORKER = """
from redbike import RoundRobin

class Worker(RoundRobin):
    def work(self, jobid):
        print(f"worked {jobid}", flush=True)
        if jobid == "broken:A":
            raise ValueError("no luck")
"""


class Handler(RoundRobin):
    """Ends each job as its id says."""

    ends: ClassVar = {"broken": ValueError, "enough": StopWork, "gone": UnsetJob}

    def work(self, jobid):
        kind = jobid.partition(":")[0]
        if kind in self.ends:
            raise self.ends[kind]


def named(url, role):
    return url.replace("unix://", f"unix://redbike-{role}:{PASSWORD}@")


@pytest.fixture
def users(client):
    """The users of docs/security.rst."""
    for words in [*IN_A_SHELL.values(), *TYPED]:
        client.execute_command(*words)
    client.acl_log_reset()
    yield client
    client.acl_deluser(*(f"redbike-{role}" for role in ROLES))


@pytest.fixture
def bikes(users, server_url):
    """A Redbike for each role, and one that may do everything."""
    urls = {role: named(server_url, role) for role in ROLES} | {"admin": server_url}
    noted_as = {"client": "me@here"}
    return {
        role: Redbike(Handler("A"), redis_config=url, failures_limit=1, noted_as=noted_as.get(role))
        for role, url in urls.items()
    }


def starts(bike, admin):
    """What every process does first; the scripts are gone, as after a restart of the server."""
    admin.script_flush()
    if warnings := check_server(bike.client):
        raise ServerError(warnings[0])


def names_a_wrong_type(store, admin, change):
    """`change` is one that gives a job a status."""
    admin.delete(store.keys.statuses)
    admin.set(store.keys.statuses, "a string")
    try:
        change()
    except ServerError as error:
        if "is a string, not a hash" not in str(error):
            raise


def waits(store, admin):
    """Blocks as the loops do, hears of a HALT, and passes it on."""
    loop = Loop(store)
    admin.lpush(store.keys.wakeup, "1")
    assert loop.wait([store.keys.wakeup], 10.0)
    known = loop.signals_at_start[store.keys.prefix]
    loop.check_halt({store.keys.prefix: Signal(f"HALT {known.now:.6f}", known.now)})
    loop.close()


@contextmanager
def heard(helper, channel="journal"):
    """An event is published meanwhile; nothing else says that it was not."""
    subscription = helper.client.pubsub()
    subscription.ssubscribe(getattr(helper.store.keys, channel))
    assert subscription.get_message(timeout=5)
    yield
    message = subscription.get_message(timeout=5)
    subscription.close()
    if message is None:
        raise ServerError("nothing is heard")


def dispatches(bike, helper):
    """Jobs come due, two are lost, and what has ended is archived."""
    starts(bike, helper.client)
    store, other = bike.store, helper.store
    assert float(store.workers.register("OwnerOf1", ENTRY))
    for n, due in enumerate((1050.0, 1060.0, 1200.0)):
        set_job(other.at(1000.0), f"{n}:A", "EVERY:100@0.0", due)
    assert bike.dispatch_due(1100.0) == 2
    take_many(other.at(1100.0), [("work-A", 500.0)], [1], "tag", 2)
    helper.client.delete(store.keys.inflight("tag"))
    with heard(helper):
        Dispatcher(store, Settings(on_lost="stop")).dispatch_due(1100.0 + 2 * LEASE)
    assert {failure["jobid"] for failure in helper.failures()} == {"0:A", "1:A"}, "these are dead"
    assert list(store.archiver.archive()) == [None]
    assert [run.outcome for run in helper.runs()] == ["lost"] * 2
    moves(bike, other)
    waits(store, helper.client)
    set_job(other.at(1000.0), "wrong:A", "EVERY:100@0.0", 1050.0)
    names_a_wrong_type(store, helper.client, lambda: bike.dispatch_due(1100.0))


def moves(bike, other):
    """A job waits in a queue that nobody works, and a worker has a function for it in another one."""
    set_job(other, "mailer:Z", "NOW", "now", once=True)
    past = other.at(other.timeline.read_clock() - 5)
    entry = json.dumps(json.loads(ENTRY) | {"queues": ["work-mail"]})
    past.workers.register("OwnerOf3", entry, naming=Naming(frozenset([FUNCTIONS]), {"mailer": "work-mail"}))
    moving = Moving(bike.store)

    def is_moved():
        # How queues are named is read again after a second.
        past.workers.register("OwnerOf3", entry)
        moving.hear(bike.store, [TIMER])
        list(moving.steps or ())  # `go_on` would only log that a right is missing
        return other.questions.inspect(["mailer:Z"])[0].waiting.queue == "work-mail"

    wait_until(is_moved)
    past.workers.unregister("OwnerOf3")
    other.client.delete(other.keys.agreed, other.keys.timers)
    other.jobs.unset("mailer:Z")


def works(bike, helper):
    """Jobs end in each way, one by one and together, and what has ended is archived."""
    starts(bike, helper.client)
    store, other = bike.store, helper.store
    assert float(store.workers.register("OwnerOf1", ENTRY))
    set_job(other, "late:A", "EVERY:1h@0.0", 1000.0)
    assert bike.work_one() == "late:A"
    jobids = ["again:A", "enough:A", "gone:A", "broken:A", "kept:A"]
    for jobid in jobids:
        set_job(other, jobid, "CONTINUE", "now")
    with heard(helper):
        assert [bike.work_one() for _ in jobids] == jobids
    runs = take_many(store, [("work-A", 500.0)], [1], "tag", 2)
    assert [run.jobid for run in runs] == ["again:A", "kept:A"]
    assert store.runs.heartbeat(runs) == ["ok", "ok"]
    store.runs.save(runs[1], "5")
    assert store.runs.read_saved(runs[1]) == "5"
    assert store.questions.inspect(["again:A"])[0].running
    assert not store.live.is_watched()
    assert store.log.find_order(runs[1].jobid, runs[1].due, runs[1].start) is None
    assert store.runs.release(runs[:1]) == ["queue"]
    assert end(store, runs[1], NextState("next"), runs[1].start).word == "ok"
    assert len(list(store.archiver.archive())) == 1
    apply_limits(store, SimpleNamespace(limits=lambda: {"work-A": Limit(at_once=3, rate="9/h")}), ["work-A"])
    waits(store, helper.client)
    names_a_wrong_type(store, helper.client, bike.work_one)


def asks(bike, helper):
    """What a program, the command line and the page ask of Redis, and some changes."""
    starts(bike, helper.client)
    store, other = bike.store, helper.store
    assert bike.set("broken:A", "NOW")
    list(bike.load([("bad:A", "every day")], mark_bad=True))
    assert bike.sync([("job:A", "0 * * * *"), ("due:A", "EVERY:1h")], prune=True).added
    assert bike.set("follower:A", "AFTER:job:A")
    bike.run("job:A")
    while helper.work_one():
        pass
    other.workers.register("OwnerOf1", ENTRY)
    other.client.hset(other.keys.outputs, "broken:A", pack_output(bike.runs("broken:A")[0].due, 1, "printed"))
    set_job(other, "due:A", "EVERY:1h", 1.0)
    change_all(bike, store)
    bike.events().close()
    assert next(store.live.listen(["broken:A"])) is None
    for look in (bike.get_statuses, bike.get_schedules, bike.failures, bike.jobs, bike.runs, bike.workers, bike.log):
        assert list(look()), look
    assert bike.tell("job:A")["followers"] == ["follower:A"]
    assert "due:A" in [job.jobid for job in bike.jobs(overdue=True)]
    assert bike.output("broken:A") == "printed"
    assert bike.agenda().jobs
    assert "no dispatcher is running" in bike.health("broken:A").problems
    assert bike.why("broken:A").startswith("It has failed for good")
    # What the page reads.
    assert [job.jobid for job in store.overview.read_page(JobSearch(failed=True)).jobs] == ["broken:A"]
    assert store.overview.read_page(JobSearch(by_next=True), Cursor(entry=(1.0, b"gone:A"))).jobs
    assert store.past.read_failures(None, 10).total == 1
    assert store.past.read_runs(RunSearch(), ["broken:A"]).runs
    assert not store.past.read_runs_of_many(RunSearch(), Cursor()).following
    assert read_view(bike.store, 10).soonest
    figures = Metrics(lambda: bike.store)
    figures.format()
    if figures.problem:
        raise ServerError(figures.problem)
    assert any("a dispatcher needs them" in finding.text for finding in ServerCheck(store).run(None))
    assert "bad:A" in str([*bike.check()])
    names_a_wrong_type(store, helper.client, lambda: bike.set("wrong:A", "NOW"))


def change_all(bike, store):
    """Pause, limit, cancel, repeat what has been, and halt."""
    assert bike.pause("job:A", until=4e9) == [("job:A", "held")]
    assert bike.resume("job:A") == [("job:A", "timeline")]
    assert bike.pause_queue("A", every="EVERY:1h@0", lasting="59m")
    assert bike.resume_queue("A", every=True)
    assert bike.limit("A", at_once=5, rate="3/m").at_once == 5
    now = store.timeline.read_clock()
    assert bike.backfill("job:A", now - 7200, now).followers
    assert bike.cancel("job:A")
    assert bike.set("gone:A", "NOW")
    bike.unset("gone:A")
    bike.control("HALT")


def checks(bike, helper):
    """What fsck asks, and does."""
    assert bike.set("two:A", "EVERY:1h")
    assert bike.set("flying:A", "NOW")
    assert take_one(helper.store, [("work-A", 500.0)], "live").jobid == "flying:A"
    helper.client.srem(bike.store.keys.queues, "work-A")
    helper.client.expire(bike.store.keys.schedules, 1000)
    helper.client.sadd(bike.store.keys.tombstones("work-A"), "two:A")
    assert list(bike.fsck())
    assert all(well for _, well in bike.repair())
    assert list(bike.fsck()) == []


def asks_and_checks(bike, helper):
    with heard(helper, "log"):
        Redbike(bike.worker, redis_config=bike.client, noted_as="me@here").set("job:A", "NOW")
    Redbike(bike.worker, redis_config=bike.client).set("other:A", "NOW")  # of a program: the short way
    helper.client.flushdb()
    asks(bike, helper)
    helper.client.flushdb()
    checks(bike, helper)


DUTIES = {"dispatcher": dispatches, "worker": works, "client": asks_and_checks}


@pytest.mark.parametrize("role", ROLES)
def test_each_role_can_do_its_duties(bikes, role):
    DUTIES[role](bikes[role], bikes["admin"])


@pytest.mark.acceptance
@pytest.mark.parametrize("role", ROLES)
def test_each_role_needs_all_rights_that_it_is_given(bikes, users, role, monkeypatch):
    """A script of the role needs the others: `tests.store.test_rights` reads which."""
    monkeypatch.setattr("redbike.store.agreed.REREAD", 0.0)

    def fulfilled():
        users.flushdb()
        try:
            DUTIES[role](bikes[role], bikes["admin"])
        except ServerError as error:
            return str(error)
        return ""

    assert fulfilled() == ""
    superfluous = []
    of_scripts = (list_commands(verb, role) - NEVER.get((role, verb), set()) for verb in list_scripts(role))
    for command in {*RIGHTS[role]}.difference(*of_scripts):
        users.acl_setuser(f"redbike-{role}", enabled=True, commands=[f"-{command}"])
        if not fulfilled():
            superfluous.append(command)
        users.acl_setuser(f"redbike-{role}", enabled=True, commands=[f"+{command}"])
    assert superfluous == []


def test_a_client_that_needs_no_fsck_can_do_without_its_rights(bikes, users):
    assert {*OF_FSCK} < {*RIGHTS["client"]}
    users.acl_setuser("redbike-client", enabled=True, commands=[f"-{right}" for right in OF_FSCK])
    users.flushdb()
    asks(bikes["client"], bikes["admin"])
    users.flushdb()
    with pytest.raises(ServerError, match="permissions"):
        checks(bikes["client"], bikes["admin"])


def allow_shards(users):
    for role in ROLES:
        words = [word for word in OF_SHARDS if role == "worker" or not word.startswith("+client|")]
        users.execute_command("ACL", "SETUSER", f"redbike-{role}", *words)


@pytest.fixture
def sharded(users, server_url):
    """A Redbike with four shards for each role."""
    allow_shards(users)
    return {role: Redbike(Handler("A"), redis_config=named(server_url, role), shards=4) for role in ROLES}


@pytest.mark.parametrize("role", ROLES)
def test_without_their_keys_no_shard_is_reached(sharded, users, server_url, role):
    users.execute_command("ACL", "SETUSER", f"redbike-{role}", "resetkeys", "~redbike-*")
    with pytest.raises(ServerError, match="permissions to access"):
        Redbike(Handler("A"), redis_config=named(server_url, role), shards=4)


@pytest.mark.parametrize("right", [word[1:] for word in OF_SHARDS if word.startswith("+")])
def test_a_right_that_shards_need_is_named_at_the_start(sharded, users, right):
    assert {word[1:] for word in OF_SHARDS if word.startswith("+")} == {*rights.SHARDED.split()}
    users.execute_command("ACL", "SETUSER", "redbike-worker", f"-{right}")
    with pytest.raises(ServerError, match=f"no permissions for {re.escape(right)}: a worker needs them"):
        sharded["worker"].work()


def test_jobs_and_their_followers_in_other_shards_live_with_three_users(sharded, users):
    client, dispatcher, worker = (sharded[role] for role in ("client", "dispatcher", "worker"))
    parent, follower = name_jobs(client.store, 0, 1)
    client.set(parent, "EVERY:1h")
    for _ in range(2):
        client.enter(follower, f"AFTER:{parent}")
    client.run(parent)
    assert worker.work_one() == parent
    assert dispatcher.dispatch_due() == 1
    assert worker.work_one() == follower
    assert client.tell(parent)["followers"] == [follower]
    assert list(client.fsck()) == []
    client.limit("A", at_once=3)
    users.hdel(client.store.shards[1].keys.queue_limits, "work-A")
    divide_missed(dispatcher.store.shards, [])
    divide_anew(dispatcher.store.shards, "work-A")
    assert client.store.shards[1].queue_limits.read("work-A").at_once == 3
    client.unset(parent)
    assert {entry["object"] for entry in users.acl_log()} <= {"client|setinfo"}


@pytest.mark.parametrize("role", ROLES)
def test_no_role_gets_at_anything_else(users, bikes, server_url, role):
    for words in FOREIGN:
        with pytest.raises(NoPermissionError):
            bikes[role].client.execute_command(*words)
    with pytest.raises(ServerError, match="permissions to access"):
        Redbike(Handler("A"), prefix="other", redis_config=named(server_url, role))


@pytest.fixture
def shells(users, tmp_path, server_url):
    """The command line, as each role."""
    (tmp_path / "jobs.py").write_text(WORKER)
    shells = {role: Shell(tmp_path, named(server_url, role)) for role in ROLES}
    yield shells
    for shell in shells.values():
        shell.close()


@pytest.mark.acceptance
@pytest.mark.parametrize("shards", [1, 4])
def test_jobs_live_and_end_with_three_users(users, shells, tmp_path, shards):
    """Real processes, each as the user of its role; what they log, at its most talkative, has no password in it."""
    if shards > 1:
        allow_shards(users)
    (tmp_path / ".redbike.conf").write_text(f"[redbike]\nlog-level: debug\ntimefile: time\nshards: {shards}\n")
    said = []

    def ask(*arguments):
        done = shells["client"].run(*arguments)
        assert done.returncode == 0, done.stderr
        said.append(done.stderr)
        return done.stdout

    loops = [shells["dispatcher"].start("dispatch"), shells["worker"].start("work", "jobs:Worker('A')", log="work")]
    for jobid, schedule in (("due:A", "EVERY:1s"), ("broken:A", "NOW")):
        ask("set", jobid, schedule)
    wait_until(lambda: "worked due:A" in shells["worker"].log("work") and "no luck" in ask("failures"))
    assert ask("fsck") == ""
    ask("control", "HALT")
    assert [loop.wait(timeout=60) for loop in loops] == [0, 0]

    logged = "".join([*said, shells["dispatcher"].log(), shells["worker"].log("work")])
    assert "DEBUG" in logged
    assert "WARNING" not in logged
    assert PASSWORD not in logged
    # How a client calls itself is no right that it needs, and redis-py bears not having it.
    assert {entry["object"] for entry in users.acl_log()} <= {"client|setinfo"}


@pytest.mark.acceptance
def test_a_right_that_is_missing_is_named_in_one_line(users, shells):
    users.acl_setuser("redbike-worker", enabled=True, commands=["-get", "-hscan"])
    done = shells["worker"].run("statuses")
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert re.search("redbike: .*permissions.*(get|hscan)", line)
    assert PASSWORD not in line


@pytest.mark.parametrize(("command", "role"), [("dispatch", "dispatcher"), ("work", "worker")])
def test_rights_that_are_needed_only_later_are_named_at_the_start(bikes, users, shells, command, role):
    users.acl_setuser(f"redbike-{role}", enabled=True, commands=["-lrange", "-script|load", "-time"])
    (shells[role].folder / ".redbike.conf").write_text("[redbike]\nworker: jobs:Worker('A')\n")
    # The server has the script, as others have run it.
    bikes["admin"].store.questions.list_missing_rights([])
    done = shells[role].run(command)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert f"gives the user 'redbike-{role}' no permissions for script|load, time, lrange: a {role} needs them" in line


@pytest.mark.parametrize(("role", "needed"), [("dispatcher", rights.DISPATCHER), ("worker", rights.WORKER)])
def test_all_rights_of_a_role_are_checked_and_no_others(bikes, users, role, needed):
    checked = needed.split()
    assert sorted([*checked, "ping", "info", "evalsha", rights.PUBLISHING]) == sorted(RIGHTS[role])
    questions = bikes[role].store.questions
    checked.append(rights.PUBLISHING)
    assert questions.list_missing_rights(checked) == []
    for command in checked:
        users.acl_setuser(f"redbike-{role}", enabled=True, commands=[f"-{command}"])
        assert questions.list_missing_rights(checked) == [command]
        users.acl_setuser(f"redbike-{role}", enabled=True, commands=[f"+{command}"])


def test_what_a_job_does_by_its_bike_needs_the_further_rights_of_the_page_and_no_others(users, server_url):
    def open_worker():
        return Redbike(Handler("A"), redis_config=named(server_url, "worker"))

    more = re.search(r"To set, run and unset\s+jobs,\s+give it ``(.+?)`` as well; for ``health\(\)``, ``(.+?)``", PAGE)

    def change(bike):
        assert bike.set("new:A", "NOW")
        assert bike.set("new:A", "EVERY:1h")
        assert bike.run("new:A")
        bike.unset("new:A")

    for act, needed in ((change, more[1].split()), (Redbike.health, more[2].split())):
        users.acl_setuser("redbike-worker", enabled=True, commands=needed)
        with open_worker() as bike:
            act(bike)
        for right in needed:
            users.acl_setuser("redbike-worker", enabled=True, commands=[right.replace("+", "-")])
            with pytest.raises(ServerError, match=r"(?i)permissions|without MULTI"), open_worker() as bike:
                act(bike)
            users.acl_setuser("redbike-worker", enabled=True, commands=[right])


@pytest.mark.parametrize("role", ["dispatcher", "worker"])
def test_alerts_need_the_further_rights_of_the_page_and_no_others(bikes, users, role, tmp_path):
    more = dict(re.findall(r"a\s+(dispatcher|worker)(?: also needs)? ``((?:\+[a-z]+ ?)+)``", PAGE))[role].split()
    users.acl_setuser(f"redbike-{role}", enabled=True, commands=more)
    store, admin = bikes[role].store, bikes["admin"]
    needed = rights.ALERTING.split()
    assert {word[1:] for word in more} <= {*needed} <= {*RIGHTS[role], *(word[1:] for word in more)}
    admin.set("a:A", "EVERY:1h", finish_within="0.001s")
    admin.set("b:A", "NOW", finish_within="0.001s", on_error="reschedule")
    admin.store.client.hset(admin.store.keys.failures, "b:A", "{}")
    admin.store.client.zadd(admin.store.keys.failure_times, {"b:A": 1.0})
    admin.store.client.hset(admin.store.keys.skipped, mapping={"missed:": 1, "missed:b:A": 1})
    alerting = Alerting(store, Settings(alert=f"sh -c 'cat >>{tmp_path}/told'"), role == "dispatcher")
    later = store.timeline.read_clock()
    admin.store.timeline.advance(later)
    for seconds in (0, 100, 200, 300):
        alerting._store = alerting._missed._store = store.at(later + seconds)
        alerting.look()
    told = {json.loads(line)["alert"] for line in (tmp_path / "told").read_text().splitlines()}
    assert told == ({"late", "failed"} if role == "dispatcher" else {"no dispatcher"})


def test_the_rights_of_a_client_are_all_but_those_of_fsck_and_tail(bikes):
    others = {"ping", "info", "evalsha", *OF_FSCK, "ssubscribe", rights.PUBLISHING}
    assert sorted({*rights.CLIENT.split(), *others}) == sorted(RIGHTS["client"])
    assert bikes["client"].store.questions.list_missing_rights(rights.CLIENT.split()) == []


def test_a_check_says_what_a_user_may_not_do(users, shells):
    said = shells["client"].run("check")
    assert said.returncode == 0
    noted = [line for line in said.stdout.splitlines() if line.startswith("note: ")]
    assert [re.search("a (\\w+) needs them", line)[1] for line in noted] == ["dispatcher", "worker"]
    users.acl_setuser("redbike-client", enabled=True, commands=["-lset"])
    said = shells["client"].run("check")
    assert said.returncode == 1
    lines = [line for line in said.stdout.splitlines() if line.startswith("problem: ")]
    assert [re.search("a (\\w+) needs them", line)[1] for line in lines] == [*rights.ROLES]
    assert "no permissions for lset: a client needs them" in lines[0]


def test_rights_on_other_keys_do_not_count(bikes, users):
    users.acl_setuser("redbike-worker", enabled=True, reset_keys=True, keys=["other-*"])
    with pytest.raises(ServerError, match="permissions to access"):
        bikes["worker"].work()


def test_a_check_that_is_not_allowed_is_passed_over_with_a_warning(users, shells):
    users.acl_setuser("redbike-client", enabled=True, commands=["-info"])
    done = shells["client"].run("set", "job:A", "NOW")
    assert done.returncode == 0
    [warning] = done.stderr.splitlines()
    assert re.search("WARNING.*not checked.*info", warning)


@pytest.mark.acceptance
@pytest.mark.parametrize("place", ["config", "command line"])
def test_no_secret_stands_in_the_arguments_of_a_process(users, server_url, tmp_path, place):
    """Of none of ours where it was given otherwise; and never in those that we start."""
    users.acl_setuser("redbike-worker", enabled=True, categories=["+@all"])
    url = named(server_url, "worker")
    shell = Shell(tmp_path, None)
    (tmp_path / "jobs.py").write_text(WORKER + "    def __init__(self, queues, token): super().__init__(queues)\n")
    settings = "[redbike]\nworker: jobs:Worker('A', 'TOKEN')\n[redbike-redis]\n"
    (tmp_path / ".redbike.conf").write_text(settings + (f"url: {url}\n" if place == "config" else ""))
    given = [f"--url={url}"] if place == "command line" else []
    up = shell.start(*given, "up", "--processes=2")
    assert shell.run(*given, "set", "job:A", "NOW").returncode == 0
    wait_until(lambda: "worked job:A" in shell.log())
    own, *children = arguments_below(up.pid)
    assert len(children) == 3
    shown = children if place == "command line" else [own, *children]
    assert [words for words in shown if PASSWORD in words or "TOKEN" in words] == []
    assert PASSWORD not in shell.log()
    assert "TOKEN" not in shell.log()
    up.terminate()
    assert up.wait(timeout=60) == 0
    shell.close()


@pytest.mark.acceptance
def test_files_are_open_to_nobody_else_whatever_the_umask(tmp_path):
    (tmp_path / "jobs.py").write_text(WORKER)
    shell = Shell(tmp_path, None)
    (tmp_path / ".redbike.conf").write_text("[redbike]\ntimefile: time\nworker: jobs:Worker('A')\n")
    before = os.umask(0)
    try:
        up = shell.start("up")
    finally:
        os.umask(before)
    wait_until((tmp_path / "time").exists)
    assert shell.run("set", "job:A", "NOW").returncode == 0
    wait_until(lambda: "worked job:A" in shell.log())
    modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in (tmp_path, *tmp_path.rglob("*"))}
    assert modes["time"] == 0o600
    assert modes[".redbike"] == 0o700
    assert modes["redis.sock"] == 0o700
    up.terminate()
    assert up.wait(timeout=60) == 0


def test_a_folder_of_someone_elses_is_not_used(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".redbike").symlink_to("elsewhere")
    done = Shell(tmp_path, None).run("set", "job:A", "NOW")
    assert done.returncode == 1
    assert "does not belong to this user" in done.stderr
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.acceptance
def test_ids_that_were_put_into_redis_by_hand_forge_no_line_of_log(shell, client):
    """Redbike itself refuses them; who may write to Redis can enter anything."""
    silent = WORKER.replace('print(f"worked {jobid}", flush=True)', 'raise ValueError("no luck")')
    (shell.folder / "jobs.py").write_text(silent)
    ids = [
        "a\n2020-01-01T00:00:00Z INFO forged:A",
        "\x1b[2J\x1b[31mred:A",
        "\r\nover:A",
        "\x9b2Jc1:A",
        "a\0b:A",
        b"\xff:A",
    ]
    for jobid in ids:
        client.hset("redbike-schedules", jobid, "NOW")
        client.lpush("redbike-work-A", jobid)
    worker = shell.start("work", "jobs:Worker('A')")
    wait_until(lambda: client.hlen("redbike-failures") == len(ids))
    worker.terminate()
    assert worker.wait(timeout=60) == 0
    logged = [line for line in shell.log().splitlines() if re.match(r"\d{4}-\d\d-\d\dT", line)]
    assert len([line for line in logged if "no luck" in line]) == len(ids)
    assert all(line.isprintable() for line in logged)
    assert not [line for line in logged if line.startswith("2020")]


def test_the_rights_to_move_jobs_to_shards_suffice_and_none_is_too_many(users, server_url, bikes):
    """They are those of the client with a few more, for the keys of the shards, too."""
    more = re.search(r"``redbike shards move`` needs .*?with them ``([a-z ]+)``", PAGE, re.DOTALL)[1].split()
    mine = ["ACL", "SETUSER", "redbike-client", "~{redbike:*", "&{redbike:*"]
    users.execute_command(*mine, *(f"+{right}" for right in more))
    client = bikes["client"].client
    for number in range(20):
        bikes["admin"].set(f"job-{number}:A", "NOW")
    workers = bikes["admin"].store.workers
    workers.register("OwnerOf1", ENTRY)
    workers.unregister("OwnerOf1")
    for right in more:
        users.execute_command("ACL", "SETUSER", "redbike-client", f"-{right}")
        # Redis 7.0 does not name the command.
        with pytest.raises(ServerError, match=f"(?i)no permissions .*{right}|can't run this command"):
            Mover(client, "redbike").move(4)
        users.execute_command("ACL", "SETUSER", "redbike-client", f"+{right}")
    assert Mover(client, "redbike").move(4).jobs == 20
    with pytest.raises(BadConfig, match="have moved to 4 shards"):
        bikes["client"].set("new:A", "NOW")
