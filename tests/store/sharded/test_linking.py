"""Jobs that follow jobs of other shards: each end of a parent reaches them once, however often it is delivered."""

import logging

import pytest

from redbike import BadConfig, BadSchedule, Redbike
from redbike.config.settings import Settings
from redbike.control.moving import Mover
from redbike.errors import Unreachable
from redbike.loop.alerts.late import find_late
from redbike.loop.policies import decide_asked_again
from redbike.store.backfill import make_jobid
from redbike.store.links import Links
from redbike.store.sharded.mail import deliver
from tests.shards import name_jobs
from tests.verbs import Telling, take_one


class Farm:
    """A program with four shards at an instant of its own."""

    def __init__(self, client, prefix):
        self.now = 1_900_000_000.0
        self.bike = Redbike(Telling("A"), prefix, client, shards=4)
        self.bike._compose(self.bike.store.follow(self.read), self.bike._noted.follow(self.read), self.bike.worker)

    def read(self):
        return self.now

    def name(self, *shards):
        """A job in each of these shards."""
        return name_jobs(self.bike.store, *shards)

    def set_family(self, *shards):
        """Set a job in the first of these shards, and in each of the others one that follows it; return them."""
        parent, *followers = self.name(*shards)
        self.bike.set(parent, "EVERY:1h")
        for each in followers:
            self.bike.enter(each, f"AFTER:{parent}")
        return parent, *followers

    def run(self, *jobids):
        """Let jobs run and end, without a dispatcher."""
        self.bike.run(*jobids)
        return self.work()

    def work(self):
        return list(iter(self.bike.work_one, None))

    def dispatch(self):
        self.bike.dispatch_due(self.now)
        return self.work()

    def links(self, jobid):
        return self.bike.store.find_shard(jobid).links

    def list_links(self, jobid):
        store = self.bike.store.find_shard(jobid)
        return store.client.zrange(store.keys.followers, 0, -1)


@pytest.fixture
def farm(client, prefix):
    return Farm(client, prefix)


def test_each_end_of_a_parent_makes_its_followers_due_wherever_they_are(farm):
    bike, (parent, near, far), [other] = farm.bike, farm.set_family(0, 0, 1), farm.name(2)
    bike.enter(other, f"AFTER:{near},{far}")
    assert farm.run(parent) == [parent]
    assert sorted(farm.dispatch()) == sorted([near, far])
    assert farm.dispatch() == [other]
    assert farm.dispatch() == []
    assert [run.due for run in bike.runs()] == [farm.now] * 4
    assert bike.tell(parent)["followers"] == sorted([near, far])
    assert bike.tell(other)["waits_for"] == [near, far]
    assert list(bike.fsck()) == []


def test_a_retry_that_is_cancelled_reaches_a_follower_wherever_that_is(farm):
    bike, (parent, follower) = farm.bike, farm.name(0, 1)
    bike.set(parent, "EVERY:1h")
    bike.enter(follower, f"AFTER:{parent} any")
    bike.run(parent)
    shard = bike.store.find_shard(parent)
    run = take_one(shard, [("work-A", 10.0)], "tag")
    shard.runs.end(run, decide_asked_again(run, 60.0))
    bike.cancel(parent)
    assert farm.dispatch() == [follower]
    assert list(bike.fsck()) == []


def test_a_message_that_is_delivered_again_has_no_further_effect(farm, monkeypatch):
    bike, (parent, follower) = farm.bike, farm.set_family(2, 3)
    farm.run(parent)
    # The first dispatcher dies before it has removed it, and another one has read it as well.
    [message] = farm.links(parent).read_mail(3)
    with monkeypatch.context() as patch:
        patch.setattr(Links, "confirm", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            deliver(bike.store.shards, 2, 3)
    assert farm.links(follower).deliver(2, [message]) == (message.number, [])
    assert farm.dispatch() == [follower]
    assert farm.links(parent).list_mail() == []
    farm.links(follower).deliver(2, [message])
    assert farm.dispatch() == []
    assert bike.tell(follower)["waits_for"] == [parent]
    assert farm.run(parent) == [parent]
    assert farm.dispatch() == [follower]


def test_ends_that_wait_for_a_shard_count_as_if_it_had_answered(farm, monkeypatch):
    bike, (parent, follower, far) = farm.bike, farm.set_family(0, 2, 3)

    def fail(links, *_):
        if links._namespace.keys is bike.store.find_shard(follower).keys:
            raise Unreachable("away")

    with monkeypatch.context() as patch:
        patch.setattr(Links, "deliver", fail)
        for _ in range(3):
            farm.run(parent)
            farm.now += 1
        with pytest.raises(Unreachable):
            deliver(bike.store.shards, 0, 2)
    assert len(farm.links(parent).read_mail(2)) == 3
    # It is due once, and once more for what has ended before that; a further end only counts, as within a shard.
    assert [farm.dispatch() for _ in range(3)] == [[follower, far], [follower, far], []]
    assert bike.tell(follower)["skipped"] == {"running": 1} == bike.tell(far)["skipped"]


def test_each_end_is_a_step_of_its_own_also_for_messages_that_come_together(farm):
    bike, (one, two, near, far) = farm.bike, ["one{0}:A", "two{0}:A", "near{0}:A", "far{1}:A"]
    assert bike.store.number_shard(near) != bike.store.number_shard(far)
    for each in (one, two):
        bike.set(each, "EVERY:1h")
    for each in (near, far):
        bike.enter(each, f"AFTER:{one},{two}")
    farm.run(one)
    assert farm.dispatch() == []
    for each in (two, one):
        farm.run(each)
    assert sorted(farm.dispatch()) == [far, near]
    assert bike.tell(far)["waits_for"] == bike.tell(near)["waits_for"] == [two]
    farm.run(two)
    assert sorted(farm.dispatch()) == [far, near]


def test_a_failure_is_told_as_one(farm):
    bike, (good, failed, either) = farm.bike, farm.name(1, 2, 3)
    bike.set("bad:A", "NOW")
    bike.enter(good, "AFTER:bad:A")
    bike.enter(failed, "AFTER:bad:A failed")
    bike.enter(either, "AFTER:bad:A any")
    assert farm.work() == ["bad:A"]
    assert sorted(farm.dispatch()) == sorted([failed, either])
    assert bike.why(good).startswith("It waits for bad:A, which has failed for good, so it never succeeds")


def test_a_shard_hears_of_no_more_once_nobody_follows_there_for_a_while(farm):
    bike, (parent, follower) = farm.bike, farm.set_family(0, 1)
    bike.unset(follower)
    farm.run(parent)
    farm.dispatch()
    assert farm.list_links(parent), "somebody may be about to set a follower"
    farm.now += 61
    farm.run(parent)
    farm.dispatch()
    assert farm.list_links(parent) == []
    bike.enter(follower, f"AFTER:{parent}")
    farm.run(parent)
    assert farm.dispatch() == [follower]


def test_a_follower_that_takes_long_to_set_subscribes_again(farm, monkeypatch):
    bike, (parent, follower) = farm.bike, farm.name(0, 1)
    monkeypatch.setattr("redbike.store.sharded.linking.LASTING", 0.0)
    with monkeypatch.context() as patch:
        # Meanwhile somebody has found that nobody follows.
        subscribe = Links.subscribe
        patch.setattr(Links, "subscribe", lambda *_: patch.setattr(Links, "subscribe", subscribe))
        bike.enter(follower, f"AFTER:{parent}")
    bike.set(parent, "EVERY:1h")
    farm.run(parent)
    assert farm.dispatch() == [follower]


def test_jobs_that_would_wait_for_themselves_over_shards_are_refused(farm):
    bike, (one, two, three) = farm.bike, farm.name(0, 1, 2)
    bike.enter(two, f"AFTER:{one}")
    bike.enter(three, f"AFTER:{two}")
    text = f"the job would wait for itself: {one} after {three} after {two} after {one}"
    with pytest.raises(BadSchedule, match=text):
        bike.enter(one, f"AFTER:{three}")
    assert not bike.set(one, f"AFTER:{three},gone:A")
    bike.enter(two, "EVERY:1h")
    assert bike.set(one, f"AFTER:{three}")
    # All at once, the last one is refused.
    found = dict(bike.set_many([("x:A", "AFTER:z:A"), ("y:A", "AFTER:x:A"), ("z:A", "AFTER:y:A")]))
    assert [found[each] for each in ("x:A", "y:A")] == [True, True]
    assert "the job would wait for itself: z:A after y:A after x:A after z:A" in str(found["z:A"])
    assert len({bike.store.number_shard(each) for each in ("x:A", "y:A", "z:A")}) > 1


@pytest.mark.parametrize("is_pruned", [False, True])
def test_a_parent_that_is_unset_names_its_followers_which_wait(farm, caplog, is_pruned):
    bike, (parent, near, far) = farm.bike, farm.name(3, 3, 0)
    bike.sync([(parent, "EVERY:1h")], group="g")
    for each in (near, far):
        bike.enter(each, f"AFTER:{parent}")
    with caplog.at_level(logging.WARNING):
        bike.sync([], group="g", prune_all=True) if is_pruned else bike.unset(parent)
    assert f"2 jobs wait for it: {', '.join(sorted([near, far]))}" in caplog.text
    assert bike.why(far) == f"It waits for {parent}, which is no job."
    bike.set(parent, "NOW")
    assert farm.work() == [parent]
    assert sorted(farm.dispatch()) == sorted([near, far])


def test_a_backfill_that_would_leave_a_follower_behind_is_refused(farm):
    bike, (parent, near, far) = farm.bike, farm.name(0, 0, 1)
    bike.set(parent, "0 * * * *")
    bike.enter(near, f"AFTER:{parent}")
    bike.enter(far, f"AFTER:{near}")
    with pytest.raises(BadConfig, match=f"'{far}' follows '{near}' from another shard, .*: --alone runs it without"):
        bike.backfill(parent, farm.now - 7200, farm.now)
    assert bike.backfill(parent, farm.now - 7200, farm.now, alone=True)
    bike.unset(far)
    bike.cancel(parent)
    assert bike.backfill(parent, farm.now - 7200, farm.now, again=True).followers == [near]


def test_the_occurrences_of_a_backfill_end_in_the_shard_of_their_job(farm):
    for jobid in ("load:A", "@all:A"):
        farm.bike.set(jobid, "0 * * * *")
        dues = farm.bike.backfill(jobid, farm.now - 7200, farm.now, at_once=2).dues
        assert farm.dispatch() == [make_jobid(jobid, due) for due in dues]
        assert farm.bike.tell(jobid)["last_backfill"]["done"] == len(dues) == 2


def test_fsck_finds_what_the_shard_of_a_parent_does_not_know(farm):
    bike, (parent, near), [far] = farm.bike, farm.set_family(0, 0), farm.name(1)
    bike.enter(far, f"AFTER:{near},{parent}")
    store = bike.store.find_shard(parent)
    [link] = [each for each in farm.list_links(parent) if each.startswith(f"{parent}\n\x1c".encode())]
    store.client.zrem(store.keys.followers, link)
    line = f"'{far}': the shard {store.keys.prefix} does not know that it follows '{parent}'"
    assert list(bike.fsck()) == [line]
    assert list(bike.repair()) == [(f"{line} -- repaired: it does now", True)]
    assert list(bike.fsck()) == []
    farm.run(parent)
    assert [farm.dispatch(), farm.dispatch()] == [[near], [far]]


def test_a_repair_that_has_no_effect_is_not_taken_for_one(farm, monkeypatch):
    bike, (parent, _) = farm.bike, farm.set_family(0, 1)
    bike.client.delete(bike.store.find_shard(parent).keys.followers)
    monkeypatch.setattr(Links, "subscribe", lambda *_: None)
    [(line, is_well)] = bike.repair()
    assert (line.partition(" -- ")[2], is_well) == ("not repaired: it still does not", False)


@pytest.mark.parametrize("score", [-1, 5])
def test_what_hides_followers_is_removed(farm, score):
    bike, (parent, near, far) = farm.bike, farm.set_family(0, 0, 1)
    store = bike.store.find_shard(parent)
    for damaged in (parent, f"{parent}\n{near}"):
        bike.client.zadd(store.keys.followers, {damaged: score})
        line = f"the key {store.keys.followers!r} holds {damaged!r} with a score, which hides followers"
        assert line in list(bike.fsck())
        assert (f"{line} -- repaired: it is removed", True) in list(bike.repair())
        assert list(bike.fsck()) == []
    farm.run(parent)
    assert sorted(farm.dispatch() + farm.dispatch()) == sorted([near, far])


def test_fsck_finds_a_job_in_a_shard_that_its_id_does_not_name(farm):
    jobid, other = farm.name(1, 0)
    farm.bike.set(other, "EVERY:1h")
    wrong, right = (farm.bike.store.shards[number].keys.prefix for number in (0, 1))
    store = farm.bike.store.shards[0]
    store.client.hset(store.keys.schedules, jobid, "EVERY:1h")
    store.client.hset(store.keys.statuses, jobid, f"TML:{farm.now:.0f}")
    store.client.zadd(store.keys.timeline, {jobid: farm.now + 60})
    line = f"{jobid!r}: it is in the shard {wrong}, but its id names {right}"
    assert list(farm.bike.fsck()) == [line]
    end = "not repaired: a redbike shards move to another number, and back, does it"
    assert list(farm.bike.repair()) == [(f"{line} -- {end}", False)]
    for number in (8, 4):
        Mover(store.client, farm.bike.prefix).move(number)
    assert (list(farm.bike.fsck()), farm.bike.tell(jobid)["next_run"]) == ([], farm.now + 60)


def test_a_follower_is_late_if_its_parent_is_wherever_that_is(farm):
    bike, (parent, follower) = farm.bike, farm.name(0, 1)
    bike.set(parent, "NOW")
    bike.enter(follower, f"AFTER:{parent}", start_within=5)
    shard = bike.store.find_shard(follower)
    assert find_late(shard, Settings()) == []
    farm.now += 10
    assert [late.jobid for late in find_late(shard, Settings())] == [follower]


def test_what_is_no_message_stops_no_delivery(farm):
    bike, (parent, follower) = farm.bike, farm.set_family(0, 3)
    farm.run(parent)
    store = bike.store.find_shard(parent)
    damaged = ["\x1c\x1c", "\x1c\x1c00\nx", "\x1c\x1c03\n0", "\x1c\x1c99\n1", "\x1c\x1cno\n1"]
    store.client.zadd(store.keys.followers, dict.fromkeys(damaged, 0))
    assert farm.dispatch() == [follower]
    assert farm.dispatch() == []
