"""The server goes back in time: its dispatchers see that, and it is told until somebody has acknowledged it."""

import pytest

from redbike.config.settings import Settings
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.dispatcher.missed import BEHIND
from redbike.loop.timefile import Timefile
from redbike.queries.metrics import Metrics
from redbike.store.inspection.fsck import fsck

BIKE = {"noted_as": "me@here"}


def keep_time(*dispatchers):
    """Let these dispatchers note the time."""
    for dispatcher in dispatchers:
        dispatcher.dispatch_due()
        dispatcher.timekeeper._kept = 0.0
        dispatcher.timekeeper.keep(until=float("inf"))


def put_back(store, dispatched):
    store.client.delete(store.keys.dispatched)
    store.client.zadd(store.keys.dispatched, dispatched)


def keep_time_at(instant, dispatcher, store):
    """Let it note the time by a clock that says this instant."""
    dispatcher.store = store.at(instant)
    keep_time(dispatcher)


def tell(store):
    return [line for line in fsck(store) if "went back" in line or "had lost all" in line or "was ahead" in line]


@pytest.mark.parametrize("sooner", [False, True], ids=["noted", "surveyed"])
def test_what_the_server_has_forgotten_is_told_once_until_somebody_knows(bike, caplog, sooner):
    store = bike.store
    first, second = dispatchers = [Dispatcher(store, Settings()) for _ in range(2)]
    keep_time(*dispatchers)
    assert tell(store) == []
    # As if a replica had taken over that lacks the last seconds.
    back = first.timekeeper._known - 7
    put_back(store, dict.fromkeys(store.client.zrange(store.keys.dispatched, 0, -1), back))
    if sooner:
        first.dispatch_due()
    keep_time(first, second, second, first)
    [rewind] = store.rewinds.list_all()
    assert (rewind.back, rewind.known - rewind.back, rewind.is_of_clock) == (
        pytest.approx(back, abs=0.01),
        pytest.approx(7, abs=0.5),
        False,
    )
    assert caplog.text.count("the server went back by 7 s to 20") == 1
    assert [topic for topic in bike.health().topics if topic == "rewound"]
    figures = Metrics(lambda: store).format()
    assert f'redbike_rewinds_total{{prefix="{bike.store.keys.prefix}"}} 1.0' in figures
    assert f'redbike_unacknowledged_rewinds{{prefix="{bike.store.keys.prefix}"}} 1.0' in figures
    assert len(tell(store)) == 1
    assert [is_well for line, is_well in bike.repair() if "went back" in line] == [False]
    assert bike.acknowledge() == [rewind.describe()]
    assert (bike.acknowledge(), tell(store), store.rewinds.list_all()) == ([], [], [])
    assert [(entry.action, entry.who) for entry in bike.log()] == [("acknowledge", "me@here")]
    assert f'redbike_unacknowledged_rewinds{{prefix="{bike.store.keys.prefix}"}} 0.0' in Metrics(lambda: store).format()
    for dispatcher in dispatchers:
        dispatcher.close()


@pytest.mark.parametrize("is_first", [True, False], ids=["it is the first that notes", "another one has noted"])
def test_a_dispatcher_tells_what_it_did_at_a_master_that_another_one_has_left(store, caplog, is_first):
    """The other one is at the new master for long, and has kept the time there. It knows of a smaller loss at most."""
    now = store.timeline.read_clock()
    stays, returns = dispatchers = [Dispatcher(store, Settings()) for _ in range(2)]
    for dispatcher in dispatchers:
        keep_time_at(now - 60, dispatcher, store)
    replica = dict(store.client.zrange(store.keys.dispatched, 0, -1, withscores=True))
    keep_time_at(now - 60 if is_first else now - 57, stays, store)
    keep_time_at(now - 20, returns, store)
    put_back(store, replica)
    keep_time_at(now - 10, stays, store)
    for dispatcher in [returns, stays, returns]:
        keep_time_at(now, dispatcher, store)
    rewinds = [(rewind.back - now, rewind.known - now) for rewind in store.rewinds.list_all()]
    assert rewinds[-1] == pytest.approx((-60, -20), abs=0.5)
    assert caplog.text.count("the server went back by 40 s to 20") == 1
    assert caplog.text.count("the server went back by ") == (1 if is_first else 2)
    for dispatcher in dispatchers:
        dispatcher.close()


def test_a_dispatcher_that_ends_leaves_no_instant_of_its_own_and_of_those_that_were_killed_some_stay(store, dispatcher):
    now = store.timeline.read_clock()
    killed = {f"until:Killed{number:02}": now - 1000 + number for number in range(120)}
    store.client.zadd(store.keys.dispatched, {"until": now, **killed})
    keep_time(dispatcher)
    kept = [member.decode() for member in store.client.zrange(store.keys.dispatched, 0, -1)]
    assert kept[-2:] == ["until", f"until:{dispatcher.presence.owner}"]
    assert kept[:-2] == list(killed)[-99:]
    dispatcher.timekeeper.keep_at_exit()
    assert [member.decode() for member in store.client.zrange(store.keys.dispatched, 0, -1)] == kept[:-1]


def test_a_server_that_has_lost_everything_is_told(store, dispatcher, client):
    keep_time(dispatcher)
    client.flushdb()
    keep_time(dispatcher)
    assert "had lost all of its data" in tell(store)[0]


@pytest.mark.parametrize(
    ("file", "redis", "is_told"),
    [
        # A dispatcher that starts knows the timefile: the server may be a little behind that.
        (0, 1 - BEHIND, False),
        (0, -4 - BEHIND, True),
        # That an empty server is, is as it should be: so a file of schedules that is loaded there catches up.
        (0, None, False),
        # A clock that was ahead is told of, unless that is soon over.
        (None, 30, False),
        (None, 90, True),
    ],
)
def test_a_dispatcher_that_starts_knows_the_timefile_and_the_clock(store, tmp_path, file, redis, is_told):
    settings, now = Settings(timefile=str(tmp_path / "time")), store.timeline.read_clock()
    if file is not None:
        Timefile(settings.timefile).write(now + file)
    if redis is not None:
        store.timeline.advance(now + redis)
    dispatcher = Dispatcher(store, settings)
    dispatcher.timekeeper.skip_missed()
    keep_time(dispatcher, dispatcher)
    dispatcher.close()
    assert len(tell(store)) == is_told
    assert store.timeline.read_dispatched()[1] <= store.timeline.read_clock()


def test_a_damaged_record_is_named_and_removed(bike):
    bike.store.client.hset(bike.store.keys.rewinds, "yesterday", "nobody knows")
    assert "holds 'yesterday', which is no instant to which the server went back" in next(bike.fsck())
    assert bike.health().is_well is False
    assert all(is_well for _, is_well in bike.repair())
    assert list(bike.fsck()) == []
