"""Jobs move to another number of shards: nothing is lost, and nobody comes between."""

import contextlib
import itertools
import json

import pytest

from redbike import BadConfig, RedbikeError
from redbike.control.moving import Mover
from redbike.store.keys import FIXED
from redbike.store.moving import rules
from redbike.store.moving.lists import divide_entry
from redbike.store.moving.merged import share_limits
from redbike.store.sharded.mail import deliver
from redbike.text.group_names import MARK
from tests.control.moved import World, check_places, fill, list_order
from tests.crashing import AFTER, Crash, Faults, faulty
from tests.shards import name_jobs
from tests.verbs import add_token

# What is left of runs and processes, what wakes and stops these, and requests that none of them repeats any more.
DROPPED = ["batches", "leases", "slots", "progress", "workers", "seen", "requests", "wakeup", "halt", "control"]


@pytest.fixture
def world(client, prefix):
    return World(client, prefix)


def test_each_key_has_one_rule():
    listed = [*rules.PAGED, *rules.MERGED, *rules.EMPTY, *DROPPED, *rules.STAYING]
    assert sorted(listed) == sorted(FIXED)


def test_all_is_as_before_with_any_number_of_shards(world):
    fill(world)
    used = {name for name in FIXED if world.client.exists(f"{world.prefix}-{name}")}
    assert {*rules.PAGED, *rules.MERGED} <= used
    before, jobs = world.answers(1), len(list(world.open(1).jobs()))
    numbers = (1, 4, 16, 3, 1)
    for old, new in itertools.pairwise(numbers):
        moved = world.move(new)
        assert (moved.before, moved.number, moved.jobs) == (old, new, jobs)
        after = world.answers(new)
        assert {name: (before[name], after[name]) for name in before if before[name] != after[name]} == {}
        check_places(world, old, new)
    assert world.move(1).describe() == "the jobs are in 1 shard already"
    assert world.open(1).flush() > 0
    assert world.client.keys(f"*{world.prefix}*") == []


def test_what_waits_runs_once_and_in_its_order(world):
    fill(world)
    world.open(1).acknowledge()
    world.open(1).resume_queue("B")
    expected = list_order(world, 1)
    world.move(4)
    bike, ran = world.open(4), []
    while jobid := bike.work_one():
        ran.append(jobid)
    assert sorted(ran) == sorted(expected)
    world.now += 4000.0
    assert bike.dispatch_due() > 20
    assert list(bike.fsck()) == []


def test_what_is_due_first_is_taken_first_when_shards_become_one(world):
    bike = world.open(4)
    for n in range(12):
        world.now += 1.0
        bike.set(f"job-{n}:A", "NOW")
    bike.unset("job-4:A")
    world.move(1)
    assert list_order(world, 1) == [f"job-{n}:A" for n in range(12) if n != 4]


def test_another_number_is_refused_and_the_old_one_takes_it_back(world, client):
    fill(world)
    before = world.answers(1)
    faults = Faults()
    world.move(4, faulty(client, faults))
    requests = faults.requests
    world.move(1)
    half = len(requests) // 2
    faults = Faults()
    faults.arm(AFTER, half)
    with pytest.raises(Crash):
        world.move(4, faulty(client, faults))
    for number in (2, 16):
        with pytest.raises(
            BadConfig, match=rf"bad --to {number}: the jobs are on the move from 1 shard to 4: .*--to=4"
        ):
            world.move(number)
    assert world.move(1).describe() == "the move is reverted: the jobs are in 1 shard, as before"
    assert world.answers(1) == before
    assert [key for key in client.keys(f"*{world.prefix}*") if b"-~" in key] == []


def test_who_had_begun_before_changes_nothing(world, client):
    fill(world)
    olds = [world.open(1)]
    world.move(4)
    olds.append(world.open(4))
    olds[1].set("new:A", "EVERY:1h")
    world.move(16)
    state = world.dump()
    for bike in olds:
        for act in (
            lambda bike: bike.set("late:A", "EVERY:2h"),
            lambda bike: list(bike.set_many([("job-1:A", "EVERY:3h"), ("other:A", "NOW")])),
            lambda bike: bike.unset("job-1:A"),
            lambda bike: bike.run("job-1:A"),
            lambda bike: bike.pause("job-1:A"),
            lambda bike: bike.pause_queue("A"),
            lambda bike: bike.limit("A", at_once=200),
            lambda bike: bike.store.tokens.remove("ci"),
            lambda bike: bike.group("new", [("a{new}:A", "NOW")], then="b{new}:A"),
            lambda bike: bike.dispatch_due(),
            lambda bike: bike.work_one(),
            lambda bike: bike.dispatch(),
            lambda bike: bike.work(),
            lambda bike: bike.flush(),
            lambda bike: bike.jobs(),
        ):
            with contextlib.suppress(RedbikeError):
                act(bike)
            assert world.dump() == state
        with pytest.raises(BadConfig, match=r"have moved to (4|16) shards: write the number"):
            bike.run("job-1:A")


def test_nothing_moves_while_somebody_works(world, client):
    fill(world)
    state = world.dump()
    entry = {"kind": "worker", "host": "web1", "pid": 4711, "queues": ["work-A"], "version": "1"}
    store = world.open(1).store.follow(None)
    store.workers.register("OwnerOf1", json.dumps(entry))
    with pytest.raises(RedbikeError, match=r"^cannot move: the worker web1:4711 is there; .*redbike control HALT does"):
        world.move(4)
    client.delete(store.keys.workers, store.keys.seen)
    client.hset(store.keys.running, "fly:A", "tag 1.0 2.0 1.0 0 0 - work-A")
    with pytest.raises(RedbikeError, match=r"^cannot move: fly:A is in flight; .*start a dispatcher"):
        world.move(4)
    client.delete(store.keys.running)
    assert world.dump() == state


def test_whoever_comes_between_stops_it(world, client, monkeypatch):
    """A worker has registered after the first look: then all is put back."""
    fill(world)
    before = world.answers(1)
    mover, check = Mover(client, world.prefix), Mover._check

    def look(self, places, number):
        if not client.exists(f"{world.prefix}-running"):
            client.hset(f"{world.prefix}-running", "fly:A", "tag 1.0 2.0 1.0 0 0 - work-A")
        else:
            check(self, places, number)

    monkeypatch.setattr(Mover, "_check", look)
    with pytest.raises(RedbikeError, match="fly:A is in flight"):
        mover.move(4)
    monkeypatch.undo()
    assert client.hdel(f"{world.prefix}-running", "fly:A") == 1
    assert world.answers(1) == before


def test_what_cannot_be_divided_stays(world, client):
    bike = world.open(1)
    bike.set("load:A", "0 * * * *")
    bike.set("report:A", "AFTER:load:A")
    bike.backfill("load:A", world.now - 36_000, world.now - 7200)
    with pytest.raises(RedbikeError, match=r"'load:A' and 'report:A[^']*' belong together, .* in braces"):
        world.move(64)
    assert list(bike.fsck()) == []


@pytest.mark.parametrize(("key", "is_asked_for"), [("queued", False), ("queues", False), ("queues", True)])
def test_what_waits_without_a_record_or_a_known_queue_is_not_left_behind(world, client, key, is_asked_for):
    bike = world.open(1)
    jobids = [f"job-{number}:A" for number in range(5)]
    for jobid in jobids:
        bike.set(jobid, "NOW")
    bike.pause(jobids[-1])
    if is_asked_for:
        bike.run(jobids[-1])
    else:
        jobids.pop()
    client.delete(f"{world.prefix}-{key}")
    said = rf"wait in a queue.*: job-.* and {len(jobids) - 3} more; run redbike fsck --repair"
    with pytest.raises(RedbikeError, match=said):
        world.move(4)
    assert all(is_well for _, is_well in bike.repair())
    world.move(4)
    assert sorted(iter(world.open(4).work_one, None)) == jobids


def test_groups_are_counted_anew_wherever_their_jobs_are(world):
    bike = world.open(1)
    jobs = [(f"load-{n}:A", "AT:2000000000") for n in range(6)]
    bike.group("loads", jobs, then="report:A")
    bike.group("empty", [("one:A", "AT:2000000000")], then="other:A")
    bike.store.groups.open("next")
    for done, number in enumerate((4, 16, 3, 1), 1):
        world.move(number)
        bike = world.open(number)
        bike.unset(f"load-{done}:A")
        for source, shard in enumerate(bike.store.shards):
            for receiver in shard.links.list_mail():
                deliver(bike.store.shards, source, receiver)
        group = {"name": "loads", "left": 6 - done, "total": 6, "failed": 0, "dropped": done}
        assert (list(bike.fsck()), bike.tell("report:A")["follows_group"]) == ([], group)
        assert bike.store.groups.read(["next"])["next"].counts.is_open
    bike.unset("load-0:A")
    bike.unset("load-5:A")
    bike.run("one:A")
    ran = list(iter(bike.work_one, None))
    bike.dispatch_due()
    assert sorted([*ran, *iter(bike.work_one, None)]) == ["one:A", "other:A", "report:A"]


def test_followers_hear_of_their_parents_wherever_they_are(world):
    bike = world.open(1)
    for follower, parents in (("one:A", "load:A"), ("two:A", "load:A"), ("all:A", "one:A,two:A")):
        bike.set("load:A", "EVERY:1h")
        bike.set(follower, f"AFTER:{parents}")
    for number, other in ((4, 3), (16, 2), (3, 16), (1, 4)):
        world.move(number)
        bike = world.open(number)
        assert (list(bike.fsck()), bike.tell("load:A")["followers"]) == ([], ["one:A", "two:A"])
        bike.run("load:A")
        ran = [bike.work_one()]
        # There was no dispatcher to send the news to other shards: who moves the jobs does it.
        world.move(other)
        bike = world.open(other)
        for _ in range(4):
            world.now += 1.0
            bike.dispatch_due()
            ran += iter(bike.work_one, None)
        assert sorted(ran) == ["all:A", "load:A", "one:A", "two:A"]


def test_news_of_a_group_reach_its_home_and_then_its_follower_in_one_move(world):
    bike = world.open(4)
    # The shard of the job comes after that of the group: it tells that one when that has been asked for its own news.
    name = next(name for name in "abcdefgh" if bike.store.number_shard(MARK + name) == 1)
    member, follower = name_jobs(bike.store, 3, 2)
    bike.group(name, [(member, "NOW")], then=follower)
    assert bike.work_one() == member
    assert world.move(3).number == 3
    bike = world.open(3)
    world.now += 1.0
    bike.dispatch_due()
    assert [bike.work_one(), bike.work_one()] == [follower, None]


def test_limits_are_divided_and_never_more_in_all(world):
    bike = world.open(1)
    bike.limit("A", rate="9/m", at_once=5)
    bike.limit("B", at_once=1)
    bike.set("job:A", "NOW")
    for old, new in ((1, 4), (4, 2), (2, 16), (16, 1)):
        assert world.move(new).before == old
        bike = world.open(new)
        assert [(each.queue, each.at_once, each.rate) for each in bike.queue_limits()] == [
            ("work-A", 5, "9/m"),
            ("work-B", 1, None),
        ]
        kept = [json.loads(world.client.hget(keys.queue_limits, "work-A")) for keys in world.list_places(new)]
        assert (sum(each["at_once"] for each in kept), sum(each["count"] for each in kept)) == (5, 9)
        assert list(bike.fsck()) == []
    # What may be taken in a time stays taken.
    assert [bike.work_one() for _ in range(2)] == ["job:A", None]
    world.move(4)
    bike = world.open(4)
    bike.limit("A", at_once=64)
    bike.limit("B", at_once=None)
    assert [(each.queue, each.at_once) for each in bike.queue_limits()] == [("work-A", 64)]


def test_a_division_is_later_than_those_before_and_a_damaged_time_counts_as_none():
    full = {3: "1.5.2", 7: "17.500000"}
    kept = [{"work-A": json.dumps({"count": 4, "seconds": 60, "epoch": each, "full_at": full[each]})} for each in full]
    parts = [json.loads(each["work-A"]) for each in share_limits(kept, 2)]
    assert [(each["count"], each["epoch"], each["full_at"]) for each in parts] == [(2, 8, full[7])] * 2


def test_what_a_shard_has_missed_while_it_was_away_is_not_forgotten(world):
    bike = world.open(3)
    bike.set("job:A", "NOW")
    bike.pause_queue("A")
    add_token(bike.store, "ci", "read")
    for shard in bike.store.shards[1:]:
        world.client.delete(shard.keys.queue_limits, shard.keys.tokens, shard.keys.agreed)
    world.move(2)
    for shard in world.open(2).store.shards:
        assert shard.queue_limits.read("work-A").pause is not None
        assert [token.name for token in shard.tokens.read_all()[0]] == ["ci"]


def test_a_prefix_that_cannot_have_shards_is_refused(client):
    world = World(client, "a{b}c")
    world.open(1).set("job:A", "EVERY:1h")
    with pytest.raises(BadConfig, match=r"bad prefix 'a\{b\}c': with shards it has no braces"):
        world.move(4)
    assert [job.jobid for job in world.open(1).jobs()] == ["job:A"]


def test_an_entry_of_the_log_is_divided():
    entry = b'["1.000000","ada@here","set","so","a:A","b:A","c:A"]'
    parts = divide_entry(entry, 16)
    assert sorted(job for _, part in parts for job in json.loads(part)[4:]) == ["a:A", "b:A", "c:A"]
    assert {tuple(json.loads(part)[:4]) for _, part in parts} == {("1.000000", "ada@here", "set", "so")}
    assert divide_entry(entry, 1) == [(0, entry)]
    assert divide_entry(b"damaged", 4) == [(0, b"damaged")]
