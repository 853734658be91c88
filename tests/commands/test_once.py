"""One-offs of a shell: what their data must say, and that only workers of commands take them."""

import csv

import pytest

from redbike import Jobs, Redbike, RoundRobin
from redbike.commands import Commands
from redbike.commands.once import make_record, read_command
from redbike.config.options import ALL_COLUMNS
from redbike.config.settings import Settings
from redbike.control.setter import Setter
from redbike.errors import BadConfig, BadJobId, CommandFailed
from redbike.loop.naming import open_store
from redbike.store.shell import check_own_jobid, is_of_shell, make_jobid
from tests.commands.conftest import dispatch_later
from tests.loops import make_worker
from tests.states import dump

GOOD = {"argv": ["echo", "a b"], "cwd": "/", "env": {"PATH": "/usr/bin:/bin", "é": "é"}, "umask": "0027"}
JOB = "once/20261126T231500Z-abcdefgh:shell"


class Other(RoundRobin):
    def work(self, jobid):
        raise AssertionError("it has no business with it")


class Elsewhere(RoundRobin):
    def queue_for(self, jobid):
        return "mine"


@pytest.fixture
def make(client, prefix):
    """Make a worker of a class; it is registered if a test says so."""

    def making(handler):
        settings = Settings(prefix=prefix)
        return make_worker(open_store(client, settings, handler), handler, settings)

    return making


@pytest.fixture
def bike(client, prefix):
    return Redbike(Other("A"), prefix, client)


@pytest.fixture
def put(bike):
    """Set a one-off as a shell does."""

    def putting(data, jobid=JOB, schedule="NOW"):
        Setter(bike.store, bike.settings).enter_from_shell(jobid, schedule, data)

    return putting


def test_ids_are_unique_and_by_their_times():
    ids = [make_jobid(1795734900.5 + number // 100) for number in range(300)]
    assert (len(set(ids)), ids[0][:22]) == (300, "once/20261126T231500Z-"[:22])
    assert [each[:21] for each in sorted(ids)] == [each[:21] for each in ids]
    assert all(map(is_of_shell, ids))
    assert not any(map(is_of_shell, ("once:shell", "once/x:A", "x:shell", "Once/x:shell")))


def test_a_record_is_what_it_was_made_of_without_what_belongs_to_a_terminal():
    env = {"A": "1", "TERM": "xterm", "DISPLAY": ":0", "SHELLOPTS": "x", "_": "/bin/x", "REDBIKE_URL": "redis://:x@y",
           "REDBIKE_PING_URL": "https://x/y", "REDBIKE_JOBID": "x", "REDBIKE_PREFIX": "mine"}  # fmt: skip
    record = make_record(["ls", ""], "/tmp", env, 0o22)
    assert record == {
        "argv": ["ls", ""], "cwd": "/tmp", "env": {"A": "1", "REDBIKE_PREFIX": "mine"}, "umask": "0022"
    }  # fmt: skip
    command = read_command(record)
    assert (command.argv, command.cwd, command.umask, command.inherits) == ((b"ls", b""), b"/tmp", 0o22, False)
    # An earlier version has stored the whole of it.
    assert read_command(record | {"env": env}).env.keys().isdisjoint({b"REDBIKE_URL", b"REDBIKE_PING_URL"})


@pytest.mark.parametrize(
    ("argv", "env", "said"),
    [
        (["a\udcff"], {}, "bad argument 'a\\udcff'"),
        (["ls"], {"A": "\udcff"}, "bad variable 'A'"),
        ([""], {}, "its command is empty"),
    ],
)
def test_what_cannot_be_stored_is_refused(argv, env, said):
    with pytest.raises(BadConfig) as raised:
        make_record(argv, "/", env, 0)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (None, "must be an object with argv, cwd, env, umask"),
        ({"more": 1}, "must be an object"),
        ({"argv": "ls"}, "argv"),
        ({"argv": []}, "argv"),
        ({"argv": ["ls\0"]}, "argv"),
        ({"argv": [""]}, "its command is empty"),
        ({"cwd": "tmp"}, "cwd"),
        ({"cwd": None}, "cwd"),
        ({"env": ["A=1"]}, "env"),
        ({"env": {"A": 1}}, "env"),
        ({"env": {"A=B": "1"}}, "a name that no variable"),
        ({"umask": 18}, "umask"),
        ({"umask": "99999"}, "umask"),
    ],
)
def test_data_that_are_no_record_fail_in_one_line(changes, said):
    with pytest.raises(CommandFailed, match=f"^it is no one-off of a shell: [^\n]*{said}[^\n]*$"):
        read_command(None if changes is None else GOOD | changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"umask": 18}, "it is no one-off of a shell: umask"),
        ({"cwd": "/no/such"}, "cannot run 'echo': No such file or directory: '/no/such'"),
        ({"env": {"PATH": "/no"}}, "cannot run 'echo': No such file or directory: 'echo'"),
    ],
)
def test_what_cannot_be_run_here_fails_in_one_line(put, make, bike, changes, said):
    put(GOOD | changes)
    assert make(Commands("")).work_one() == JOB
    assert [failure["error"].startswith(said) for failure in bike.failures()] == [True]
    assert bike.tell(JOB)["status"].startswith("DIE")


@pytest.mark.parametrize("queues", ["", "A", "A:shell"])
def test_any_worker_of_commands_takes_it_whatever_its_queues(put, make, bike, tmp_path, queues):
    (tmp_path / "x.ini").write_text("[commands]\nonce = false\n")
    worker = make(Commands(queues, str(tmp_path / "x.ini")) if queues else Commands())
    put(GOOD)
    assert worker.work_one() == JOB
    told = bike.tell(JOB)
    assert (told["status"][:3], told["output"]) == ("STP", "a b")
    assert worker.queues.names() == [f"work-{name}" for name in dict.fromkeys([*queues.split(":"), "shell"]) if name]


def test_another_command_of_the_queue_is_as_in_any_queue(make, bike, tmp_path):
    (tmp_path / "x.ini").write_text("[commands]\nx = true\n")
    bike.set("x:shell", "NOW")
    assert make(Commands("A", str(tmp_path / "x.ini"))).work_one() == "x:shell"
    assert bike.tell("x:shell")["status"].startswith("STP")


@pytest.mark.parametrize("handler", [Other("shell"), Commands("shell", "none.ini", shell_jobs=False)])
def test_a_worker_that_takes_none_leaves_it_to_others(put, make, bike, handler):
    if isinstance(handler, Commands):
        handler._file = Commands("")._file  # it has no commands
    put(GOOD)
    other = make(handler)
    assert other.work_one() == JOB
    assert list(bike.failures()) == []
    dispatch_later(bike, JOB)
    worker = make(Commands(""))
    with worker.presence:
        assert worker.work_one() == JOB
    assert bike.tell(JOB)["output"] == "a b"


def test_a_dispatcher_of_any_class_puts_it_into_its_queue(put, make, client, prefix):
    put(GOOD, schedule="AT:1")
    jobs = Jobs()
    jobs.job("x", every="1h")(lambda: None)
    for number, worker in enumerate((Elsewhere("A"), jobs, Other("A"))):
        store = Redbike(worker, prefix, client).store
        assert store.queue_for(make_jobid(float(number))) == "work-shell"
    assert make(Commands("")).work_one() == JOB


@pytest.mark.parametrize(("handler", "said"), [(Other("A"), True), (Other("shell"), True), (Commands(""), False)])
def test_it_is_said_where_no_worker_takes_it(put, make, bike, caplog, handler, said):
    with make(handler).presence:
        put(GOOD)
        if handler.initstring == "shell":
            assert "no worker of work-shell runs one-offs of a shell" in bike.why(JOB)
    why = "no worker of its queue 'work-shell' runs one-offs of a shell"
    assert [why in line for line in caplog.messages if JOB in line] == [True] * said


def test_programs_and_their_users_cannot_set_one(bike, client):
    before = dump(bike.store)
    for data in (GOOD, None):
        with pytest.raises(BadJobId, match="only redbike at, in and now set such ids"):
            bike.set(JOB, "NOW", data=data)
        with pytest.raises(BadJobId):
            bike.enter(JOB, "NOW", data=data)
        assert [type(how) for _, how in bike.set_many([(JOB, "NOW", {"data": data})])] == [BadJobId]
        assert [type(how) for _, _, how in bike.load([(JOB, "NOW", {"data": data})])] == [BadJobId]
    assert dump(bike.store) == before
    assert check_own_jobid("x:shell") == "x:shell"


def test_a_backup_has_it_and_brings_it_back(put, bike, tmp_path):
    put(GOOD, schedule="AT:4000000000")
    [row] = bike.get_rows()
    with open(tmp_path / "rows.csv", "w") as file:
        csv.writer(file).writerows([ALL_COLUMNS, row])
    bike.unset(JOB)
    assert [change.error for change in bike.sync_file(str(tmp_path / "rows.csv"))] == [None]
    assert bike.tell(JOB)["data"] == GOOD
