"""A shard that was away while all were told of something hears of it when it is back."""

import pytest

from redbike import Redbike, RoundRobin, Unreachable
from redbike.config.settings import Settings
from redbike.dispatcher.sharded import Dispatchers
from redbike.store.namespace import Namespace
from redbike.store.processes import ProcessRecord
from redbike.store.sharded.steering import catch_up, note_end
from redbike.store.tokens import Token, UnknownToken
from tests.loops import beside
from tests.verbs import add_token
from tests.waiting import wait_until

TOKEN = Token("ci", "read", (), None, 0.0, "amy", "digest")
BIKE = {"queues": "A:B", "shards": 3}
FAR = "DTSTART:20990101T000000Z\nRRULE:FREQ=DAILY"  # so it never begins by itself


@pytest.fixture
def bike(bike):
    list(bike.set_many([(f"job-{number}:A", "EVERY:1d") for number in range(9)]))
    return bike


class Away:
    """Leaves one shard as it was, whatever happens meanwhile."""

    def __init__(self, bike, number):
        self.shard = bike.store.shards[number]

    def keys(self):
        return list(self.shard.client.scan_iter(f"{self.shard.keys.prefix}-*"))

    def __enter__(self):
        kept = {key: self.shard.client.dump(key) for key in self.keys()}
        # A dispatcher may take a key away between the two requests.
        self.kept = {key: value for key, value in kept.items() if value is not None}

    def __exit__(self, *error):
        # At once: a dispatcher may write meanwhile.
        with self.shard.client.pipeline() as pipeline:
            pipeline.delete(*self.keys())
            for key, value in self.kept.items():
                pipeline.restore(key, 0, value, replace=True)
            pipeline.execute()


def look(shard):
    limits = shard.queue_limits.list_all()
    pauses = [(each.queue, each.pause and (each.pause.until, each.pause.by, each.pause.reason)) for each in limits]
    return pauses, shard.blackouts.list_all(), [token.name for token in shard.tokens.read_all()[0]]


@pytest.mark.parametrize("number", [0, 2])
def test_a_shard_that_was_away_knows_what_all_others_know(bike, number):
    bike.pause_queue("B")
    for act in (
        lambda: bike.pause_queue("A", reason="a new disk"),
        lambda: bike.resume_queue("B"),
        bike.pause_all,
        lambda: bike.pause_queue("B", every=FAR, lasting=60),
        lambda: add_token(bike.store, "ci", "read"),
        lambda: bike.resume_queue("B", every=True),
        lambda: bike.store.tokens.remove("ci"),
        bike.resume_all,
    ):
        with Away(bike, number):
            act()
        shards = bike.store.shards
        assert look(shards[number]) != look(shards[1])
        assert len(catch_up(shards)) == 1
        assert look(shards[number]) == look(shards[1])
        assert catch_up(shards) == [], "all of them know"
    assert list(bike.fsck()) == []


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_token_is_removed_where_it_is_though_a_shard_was_away_when_it_was_added(bike, number):
    with Away(bike, number):
        add_token(bike.store, "ci", "read")
    bike.store.tokens.remove("ci")
    assert [look(shard)[2] for shard in bike.store.shards] == [[]] * 3
    with pytest.raises(UnknownToken, match="no such token: 'ci'"):
        bike.store.tokens.remove("ci")
    assert catch_up(bike.store.shards) == []


class Gone:
    """A shard that is away still."""

    @property
    def client(self):
        raise Unreachable("it is away")


ENTRY = ProcessRecord(0.0, "worker", "web1", 4711, ("work-A",), "1").format_entry()


@pytest.mark.parametrize("number", [0, 2])
def test_a_process_that_ends_while_a_shard_is_away_is_not_lost_once_that_is_back(bike, number, monkeypatch):
    shards, workers = bike.store.shards, bike.store.workers
    for owner in ("OwnerOf1", "OwnerOf2"):
        workers.register(owner, ENTRY)

    def fail(owner):
        raise Unreachable("it is away")

    with monkeypatch.context() as patch:
        patch.setattr(shards[number].workers, "unregister", fail)
        workers.unregister("OwnerOf1")
    assert len(workers.list_all()) == 2, "as the other shard is not told yet"
    assert catch_up([Gone() if shard is shards[number] else shard for shard in shards]) == []
    assert catch_up(shards) == [f"{shards[number].keys.prefix}: ended:OwnerOf1"]
    assert [each.id for each in workers.list_all()] == ["web1:4711:OwnerOf2"]
    assert not any("ended:" in field for shard in shards for field in kept(shard)), "all of them know"


def test_the_end_of_a_process_is_forgotten_after_a_day(bike, monkeypatch):
    shards = bike.store.shards
    monkeypatch.setattr("redbike.store.sharded.steering.KEPT", -1.0)
    note_end(shards[:1], "OwnerOf1")
    catch_up(shards[:2])
    assert not any("ended:" in field for shard in shards for field in kept(shard))


def kept(shard):
    return [field.decode() for field in shard.client.hgetall(shard.keys.agreed)]


class Late:
    """A shard to which nobody comes before `act` is done."""

    def __init__(self, shard, act):
        self._shard, self._act, self._is_done = shard, act, False

    def __getattr__(self, name):
        if name == "queue_limits" and not self._is_done:
            self._is_done = True
            self._act()
        return getattr(self._shard, name)


def test_what_is_told_while_a_shard_catches_up_counts(bike):
    shards = list(bike.store.shards)
    with Away(bike, 2):
        bike.pause_queue("A")
    assert len(catch_up([*shards[:2], Late(shards[2], lambda: bike.resume_queue("A"))])) == 2
    assert [look(shard)[0] for shard in shards] == [[]] * 3


class Death(BaseException):
    """The process that copies is killed."""


class Dying(Late):
    """The same; but whoever copies to it dies before it notes that."""

    def __getattr__(self, name):
        if name == "client" and self._is_done:
            raise Death
        return super().__getattr__(name)


def test_what_is_told_while_one_copies_who_dies_then_counts(bike):
    shards = list(bike.store.shards)
    with Away(bike, 2):
        bike.pause_queue("A")
    with pytest.raises(Death):
        catch_up([*shards[:2], Dying(shards[2], lambda: bike.resume_queue("A"))])
    assert len(catch_up(shards)) == 1
    assert [look(shard)[0] for shard in shards] == [[]] * 3
    assert catch_up(shards) == []


def test_the_end_of_a_pause_is_told_too(bike):
    until = bike.store.timeline.read_clock() + 1000
    for before, after in (({"until": until}, {}), ({}, {"until": until})):
        bike.pause_queue("A", **before)
        with Away(bike, 2):
            bike.resume_queue("A")
            bike.pause_queue("A", **after)
        assert len(catch_up(bike.store.shards)) == 1
        assert {shard.queue_limits.read("work-A").pause.until for shard in bike.store.shards} == {after.get("until")}
        bike.resume_queue("A")


def test_what_is_told_later_counts_whichever_clock_it_has(bike):
    bike.pause_queue("A")
    for shard in bike.store.shards:
        # So did a master whose clock was a minute ahead.
        shard.client.hset(shard.keys.agreed, "told:pause:work-A", f"{shard.timeline.read_clock() + 60:.6f}")
    with Away(bike, 2):
        bike.resume_queue("A")
    assert len(catch_up(bike.store.shards)) == 1
    assert [look(shard)[0] for shard in bike.store.shards] == [[]] * 3


def test_a_damaged_note_counts_as_none(bike):
    [head, shard, _] = bike.store.shards
    shard.client.hset(shard.keys.agreed, mapping={"told:pause:work-A": "x", "told:later:x": "1.000000", "told:": "nan"})
    shard.client.hset(head.keys.agreed, "told:pause:work-B", "inf")
    bike.pause_queue("A")
    assert [len(look(each)[0]) for each in bike.store.shards] == [1] * 3
    shard.client.hset(shard.keys.agreed, "told:pause:work-A", "x")
    assert catch_up(bike.store.shards) == [f"{shard.keys.prefix}: pause:work-A"]


def test_shards_are_compared_again_after_a_while(bike, monkeypatch):
    monkeypatch.setattr("redbike.dispatcher.sharded.CATCH_UP", 0.05)
    with beside(bike.store, Dispatchers(bike.store, Settings()).dispatch):
        # The first time, it may be that which is done at the start.
        for is_paused, act in ((True, bike.pause_queue), (False, bike.resume_queue)):
            with Away(bike, 2):
                act("A")
            wait_until(lambda wanted=is_paused: bool(bike.store.shards[2].queue_limits.read("work-A").pause) == wanted)


@pytest.mark.parametrize("away", [None, 0, 2])
def test_a_change_of_all_shards_is_noted_once(client, prefix, monkeypatch, away):
    pack = Namespace.pack

    def fail(namespace, *given, **named):
        if away is not None and namespace.keys.prefix == bike.store.shards[away].keys.prefix:
            raise Unreachable("it is away")
        return pack(namespace, *given, **named)

    monkeypatch.setattr(Namespace, "pack", fail)
    with Redbike(RoundRobin("A"), prefix, client, shards=3, noted_as="amy") as bike:
        for act in (
            lambda: bike.pause_queue("A", reason="a new disk"),
            lambda: bike.resume_queue("A"),
            lambda: bike.pause_queue("A", every=FAR, lasting=60),
            lambda: bike._noted.tokens.add(TOKEN),
            lambda: bike._noted.tokens.remove(TOKEN.name),
            lambda: bike.control("HALT"),
        ):
            if away is None:
                act()
            else:
                with pytest.raises(Unreachable, match="all others have"):
                    act()
        away = None
        noted = [entry.action for entry in bike.log()]
    assert noted == ["halt", "token", "token", "pause --every", "resume", "pause"]


@pytest.mark.parametrize("paused", [0, 1])
def test_what_changes_one_shard_alone_is_noted_too(client, prefix, paused):
    with Redbike(RoundRobin("A"), prefix, client, shards=3, noted_as="amy") as bike:
        bike.store.shards[paused].queue_limits.pause("work-A")
        bike.resume_queue("A")
        assert [entry.action for entry in bike.log()] == ["resume"]
