"""Who waits for runs, or listens to events, while one of two shards does not answer."""

import threading
from functools import partial

import pytest

from redbike import Redbike, Unreachable
from redbike.cli import tail
from redbike.errors import LoginRefused
from redbike.store.jobs import JobToSet
from redbike.store.sharded.mail import deliver
from redbike.store.sharded.missing import list_listens
from tests.loops import join, start
from tests.shards import NAMES, name_jobs, place_shard
from tests.verbs import Quiet
from tests.waiting import wait_until


@pytest.fixture
def bike(server_url, prefix, own_server):
    """The second of its two shards is on a server of its own."""
    with (
        Redbike(Quiet(), prefix, server_url, shards=2, noted_as="ada@here") as bike,
        place_shard(bike, own_server.url, 1),
    ):
        yield bike


@pytest.fixture
def near(bike):
    return name_jobs(bike.store, 0)[0]


@pytest.fixture
def gone(bike):
    return name_jobs(bike.store, 1)[0]


def count_listeners(shard):
    return shard.client.pubsub_shardnumsub(shard.keys.journal)[0][1]


def list_threads():
    return {each for each in threading.enumerate() if each.name == "redbike-listener"}


def test_a_job_of_the_other_is_waited_for(bike, near, own_server):
    bike.set(near, "EVERY:1h")
    own_server.stop()
    ended = []
    waiting = start(lambda: ended.append(bike.wait(near, 60)))
    wait_until(lambda: count_listeners(bike.store.shards[0]))
    bike.run(near)
    assert bike.work_one() == near
    join(waiting)
    assert [run.outcome for run in ended] == ["ok"]


@pytest.mark.parametrize(
    "act",
    [
        lambda bike, gone: bike.set(gone, "EVERY:2h"),
        lambda bike, gone: list(bike.set_many((jobid, "EVERY:2h") for jobid in NAMES)),
        lambda bike, gone: bike.dispatch_due(),
        lambda bike, gone: bike.work_one(),
    ],
    ids=["set", "set_many", "dispatch_due", "work_one"],
)
def test_what_needs_it_names_it(bike, gone, own_server, act):
    bike.set(gone, "EVERY:1h")
    own_server.stop()
    with pytest.raises(Unreachable, match=rf"^the shard \{bike.store.shards[1].keys.prefix} is missing: cannot reach"):
        act(bike, gone)


def test_one_that_refuses_the_login_is_named_and_not_missing(bike, gone, own_server):
    other = bike.store.shards[1].client
    other.config_set("requirepass", "changed")
    other.connection_pool.disconnect()
    for act in (lambda: bike.set(gone, "EVERY:1h"), bike.dispatch_due, lambda: bike.tell(gone)):
        with pytest.raises(LoginRefused, match=rf"^the shard \{bike.store.shards[1].keys.prefix}: Redis refuses the l"):
            act()


def test_the_sender_of_messages_that_is_away_is_named(bike, near, gone, own_server):
    second = bike.store.shards[1]
    bike.set(gone, "NOW")
    bike.enter(near, f"AFTER:{gone}")
    bike.work_one()
    assert second.links.list_mail() == [0]
    own_server.stop()
    with pytest.raises(Unreachable, match=rf"^the shard \{second.keys.prefix} is missing: cannot reach"):
        deliver(bike.store.shards, 1, 0)


def test_an_error_of_whoever_sets_jobs_names_no_shard(bike):
    jobs = [JobToSet(jobid, "AT:1000", 1000.0, True, "work-A") for jobid in NAMES]
    with pytest.raises(Unreachable, match=r"^theirs$"), bike.store.jobs.set_meanwhile(jobs, True):
        raise Unreachable("theirs")


def test_tail_hears_the_other_and_names_it(bike, gone, near, own_server, monkeypatch, capsys):
    over = threading.Event()

    def listen_until_over(listen, wants):
        if over.is_set():
            raise RuntimeError("it is over")
        return listen(wants, over.is_set)

    monkeypatch.setattr(tail, "RETRY", 0.05)
    monkeypatch.setattr(
        tail, "list_listens", lambda store: [partial(listen_until_over, e) for e in list_listens(store)]
    )
    own_server.stop()
    listener = tail._Listener(bike)
    listening = start(listener.listen)
    wait_until(lambda: count_listeners(bike.store.shards[0]))
    bike.set(near, "EVERY:1h")
    assert listener.heard.get(timeout=60).jobid == near
    name, said = bike.store.shards[1].keys.prefix, []
    wait_until(lambda: said.append(capsys.readouterr().err) or f"the shard {name} is missing: " in "".join(said))
    own_server.start()
    wait_until(lambda: count_listeners(bike.store.shards[1]))
    bike.set(gone, "EVERY:1h")
    assert listener.heard.get(timeout=60).jobid == gone
    assert "".join(said).count("\n") == 1
    assert capsys.readouterr().err.startswith("redbike: the server is back")
    over.set()
    join(listening)
    assert str(listener.heard.get(timeout=60)) == "it is over"


def test_nothing_listens_any_more_once_nobody_reads(bike, gone, near, own_server):
    before = list_threads()
    for listen in (bike.store.events.listen, lambda: bike.store.live.listen([gone, near])):
        events = listen()
        assert len(list_threads() - before) == 2
        events.close()
        wait_until(lambda: not list_threads() - before)
    events = bike.store.events.listen()
    own_server.stop()
    with pytest.raises(Unreachable):
        next(events)
    wait_until(lambda: not list_threads() - before)
    wait_until(lambda: not count_listeners(bike.store.shards[0]))
