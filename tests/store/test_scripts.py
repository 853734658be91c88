"""How scripts get to the server over a connection that is kept."""

import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest
import redis

from redbike import Redbike, RoundRobin
from redbike.connection.client import connect
from redbike.errors import NoSuchJob, ServerError, Unreachable
from redbike.store.jobs import JobToSet
from redbike.store.run import Poll
from redbike.store.scripts import Pipeline, name_wrong_key
from redbike.store.store import Store
from tests.verbs import Quiet, set_job


@pytest.fixture
def store(client, prefix, server_url):
    """A store with connections of its own; no other test has left any over which scripts were run."""
    client.client_kill_filter(skipme=True, _type="normal")
    with connect(server_url) as own:
        yield Store(own, prefix, RoundRobin("A").queue_for)


def ids(client):
    return {entry["id"] for entry in client.client_list()}


def running(client):
    """The connections over which a script was the last command."""
    return {entry["id"] for entry in client.client_list() if entry["cmd"] == "evalsha"}


def test_after_a_server_has_become_a_replica_it_is_looked_for_anew(client, prefix):
    """The name in the URL may lead to another server by then."""
    store, line = Store(client, prefix, RoundRobin("A").queue_for), Pipeline(client)
    call = store.timeline.pack_survey()
    line.run([call])
    before = ids(client)
    client.replicaof("127.0.0.1", "1")
    try:
        with pytest.raises(Unreachable, match="read only"):
            line.run([store.runs.pack_take(Poll([("work-A", 10.0)], [1]), "tag", 1), store.timeline.pack_dispatch([])])
    finally:
        client.replicaof("NO", "ONE")
    line.run([call])
    assert ids(client) - before
    line.close()


def test_one_script_after_the_other_uses_the_same_connection(client, store):
    set_job(store, "a:A", "STOP", None)
    (before,) = running(client)
    set_job(store, "b:A", "STOP", None)
    with pytest.raises(NoSuchJob):
        store.jobs.unset("c:A")
    assert running(client) == {before}


def test_threads_share_no_connection(client, store):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: set_job(store, f"{number}:A", "STOP", None), range(400)))
    assert len(dict(store.catalog.list_statuses())) == 400
    assert 1 <= len(running(client)) <= 8


@pytest.mark.parametrize("how", ["closed by the server", "dropped"])
def test_a_connection_that_is_closed_is_replaced_before_it_is_used(client, store, how):
    set_job(store, "a:A", "STOP", None)
    (before,) = running(client)
    if how == "dropped":
        store.scripts.drop_idle_connections()
    else:
        client.client_kill_filter(_id=before)
    set_job(store, "b:A", "STOP", None)
    assert len(running(client) - {before}) == 1


def test_replies_that_nobody_has_read_are_left_to_no_one(client, store):
    def calls():
        yield store.timeline.pack_survey()
        raise redis.ResponseError("between two calls")

    set_job(store, "a:A", "STOP", None)
    with pytest.raises(ServerError, match="between two calls"):
        store.scripts.run_all(calls())
    assert [state.schedule for state in store.questions.inspect(["a:A"])] == ["STOP"]
    with pytest.raises(ValueError, match="meanwhile"), store.scripts.run_meanwhile([store.timeline.pack_survey()]):
        raise ValueError("meanwhile")
    assert [state.schedule for state in store.questions.inspect(["a:A"])] == ["STOP"]


def test_scripts_run_while_the_caller_goes_on(client, store):
    call = store.timeline.pack_survey()
    with store.scripts.run_meanwhile([call, call]) as replies:
        assert replies == []
        assert [state.schedule for state in store.questions.inspect(["a:A"])] == [None]
    assert [reply[0] for reply in replies] == ["ok", "ok"]


def test_a_limited_number_of_connections_is_not_kept_from_others(client, prefix, server_url):
    with connect(f"{server_url}?max_connections=1") as own:
        store = Store(own, prefix, RoundRobin("A").queue_for)
        set_job(store, "a:A", "STOP", None)
        assert store.questions.read_schedule("a:A") == "STOP"


def test_a_forked_process_has_a_connection_of_its_own(client, store):
    set_job(store, "a:A", "STOP", None)
    before = running(client)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            set_job(store, "b:A", "STOP", None)
            own = running(store.client) - before
            status = 0 if len(own) == 1 else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    set_job(store, "c:A", "STOP", None)
    assert running(client) == before
    assert set(dict(store.catalog.list_statuses())) == {"a:A", "b:A", "c:A"}


WRONG = {
    "timeline": "zset",
    "running": "hash",
    "requests": "zset",
    "work-A": "list",
    "wake-work-B": "list",
    "tombstones-work-B": "set",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_key_of_a_wrong_type_is_named_in_one_line(client, store, name):
    key = f"{store.keys.prefix}-{name}"
    client.xadd(key, {"wrong": "type"})
    entries = [JobToSet(f"job:{queue}", "NOW", "now", True, f"work-{queue}") for queue in "AB"]
    entries.append(JobToSet("later:A", "EVERY:1h", 4e9, False, "work-A"))
    with pytest.raises(ServerError) as refused:
        store.jobs.set(entries)
    assert str(refused.value) == f"Redis refuses: WRONGTYPE {key} is a stream, not a {WRONG[name]}"
    assert client.keys(f"{store.keys.prefix}-*") == [key.encode()]


def test_of_several_scripts_the_key_of_the_one_that_failed_is_named(client, store):
    """And not one that another of them would not have needed."""
    client.set(store.keys.queue("work-A"), "a string")
    calls = [store.runs.pack_take(Poll([(name, 10.0)], [1]), name, 1) for name in ("work-B", "work-A", "work-C")]
    for run in (store.scripts.run_all, Pipeline(client).run):
        with pytest.raises(ServerError, match=f"WRONGTYPE {store.keys.queue('work-A')} is a string, not a list"):
            run(calls)
    with pytest.raises(ServerError, match=f"WRONGTYPE {store.keys.queue('work-A')} is a string, not a list"):
        store.depths.count_before("work-A", "job:A", 9)
    assert store.questions.read_schedule("job:A") is None, "the connection is of use afterwards"


@pytest.mark.parametrize("is_put_right", [True, False])
def test_a_key_that_is_put_right_meanwhile_is_not_named_and_an_error_of_another_kind_stays(client, store, is_put_right):
    if not is_put_right:
        client.set(store.keys.timeline, "a string")
    said = "WRONGTYPE Operation against a key" if is_put_right else "ERR no such thing as WRONGTYPE"
    error = redis.ResponseError(said)
    assert name_wrong_key(client, [(store.keys.timeline, "zset")], error) is error


class Proxy:
    """Leads to the server at the socket `target`. Instead of the next reply, it does what is `planned` and hangs up."""

    def __init__(self, path, target):
        self.planned, self._target = [], target
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self):
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self):
        with suppress(OSError):
            while True:
                near, far = self._listener.accept()[0], socket.socket(socket.AF_UNIX)
                far.connect(self._target)
                for ends in ((near, far, []), (far, near, self.planned)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source, target, planned):
        with suppress(OSError):
            while (data := source.recv(65536)) and not planned:
                target.sendall(data)
            if planned:
                planned.pop()()
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def proxy(server_url, tmp_path):
    proxy = Proxy(tmp_path / "proxy", server_url.removeprefix("unix://"))
    yield proxy
    proxy.close()


@pytest.fixture
def cut(prefix, proxy, tmp_path):
    """A store behind the proxy, which is connected and knows the scripts."""
    with connect(f"unix://{tmp_path}/proxy") as own:
        store = Store(own, prefix, RoundRobin("A").queue_for).noted_as("me@here")
        store.jobs.set([JobToSet("there:A", "STOP", None, False, "work-A", options='{"start-within":9}')])
        store.jobs.run(["there:A"])
        yield store


NOW = JobToSet("job:A", "NOW", "now", True, "work-A")
REPEATED = {
    "set": lambda store: store.jobs.set([NOW]),
    "set what alerts": lambda store: store.jobs.set([replace(NOW, options='{"start-within":9}')]),
    "set many": lambda store: store.jobs.set([replace(NOW, jobid=jobid) for jobid in ("job:A", *map(str, range(300)))]),
    "run": lambda store: store.jobs.run(["there:A"]),
}


@pytest.mark.parametrize("operation", REPEATED)
def test_a_request_whose_reply_was_lost_is_sent_again_and_acts_once(client, prefix, proxy, cut, operation):
    """Also if the job has been run by then."""
    other = Redbike(Quiet(), prefix, client)
    assert other.work_one() == "there:A"
    proxy.planned.append(other.work_one)
    REPEATED[operation](cut)
    assert proxy.planned == []
    jobs = 301 if operation == "set many" else 1
    while other.work_one():
        pass
    noted = [entry for entry in other.log() if entry.action == operation[:3]]
    assert len(other.worker.worked) == len(noted) == jobs + 1


def test_what_would_answer_otherwise_the_second_time_is_not_sent_again(proxy, cut):
    with pytest.raises(NoSuchJob):
        cut.jobs.unset("other:A")
    proxy.planned.append(lambda: None)
    with pytest.raises(Unreachable):
        cut.jobs.unset("there:A")
    with pytest.raises(NoSuchJob):
        cut.jobs.unset("there:A")


def test_a_server_that_has_gone_is_not_waited_for(proxy, cut):
    proxy.planned.append(proxy.close)
    with pytest.raises(Unreachable, match="Connection refused"):
        cut.jobs.set([NOW])
