"""Groups whose jobs, and the jobs that follow them, are in several shards: what comes of them is as in one."""

import re
from contextlib import suppress
from itertools import count
from types import SimpleNamespace

import pytest

from redbike import BadSchedule, Redbike, RoundRobin
from redbike.config.settings import Settings
from redbike.errors import Unreachable
from redbike.store import groups
from redbike.store.inspection.links import list_uncounted, list_unknown
from redbike.store.links import Links
from redbike.store.sharded.mail import deliver
from redbike.text.group_names import MARK
from tests.chance import seeds, walk
from tests.crashing import AFTER, BEFORE, Crash, Faults, faulty
from tests.states import list_problems
from tests.store.sharded.test_linking import Farm
from tests.store.test_following_machine import START, end_so
from tests.store.test_group_machine import STEPS, Groups
from tests.verbs import take_one

STRIDE = 3  # requests between two at which a process dies


class Bike(Redbike):
    """One with four shards, at an instant that stays."""

    now, settings = START, Settings(on_error="reschedule")

    def __init__(self, client, prefix):
        super().__init__(RoundRobin("A"), prefix, client, shards=4)
        self.flush()
        self._compose(self.store.follow(self.read), self._noted.follow(self.read), self.worker)

    def read(self):
        return self.now


class ShardedGroups(Groups):
    """The same steps, and messages that are delivered before anybody looks, some of them twice."""

    def deliver(self):
        shards = self.store.shards
        for _ in shards:
            for number, shard in enumerate(shards):
                for receiver in shard.links.list_mail():
                    messages = shard.links.read_mail(receiver)
                    shards[receiver].links.deliver(number, messages[: self.chance.randint(1, len(messages))])
                    deliver(shards, number, receiver)

    def inspect(self, jobid):
        self.deliver()
        return super().inspect(jobid)

    def find_problems(self):
        self.deliver()
        links = [*list_unknown(self.store), *list_uncounted(self.store)]
        return [*links, *(problem for shard in self.store.shards for problem in list_problems(shard))]

    def take(self):
        self.number += 1
        for shard in self.chance.sample(self.store.shards, 4):
            run = take_one(shard, [("work-A", 1e6)], f"t{self.number}")
            if run != "empty":
                self.runs.append(run)
                return

    def finish(self, how):
        if not self.runs:
            return None
        run = self.runs.pop(self.chance.randrange(len(self.runs)))
        shard = SimpleNamespace(store=self.store.find_shard(run.jobid), now=self.bike.now, settings=self.bike.settings)
        known, answer, ending = end_so(shard, run, how)
        if answer.word != "ok":
            self.runs.append(run)
        return run, known, answer, ending


@pytest.mark.timeout(900)
@seeds(0, 2, 60)
def test_random_steps_of_groups_agree_with_the_contract(client, prefix, seeds):
    fired = 0
    for world in walk(lambda chance: ShardedGroups(Bike(client, prefix), chance), seeds, STEPS):
        fired += world.fired
    assert fired > len(seeds)


@pytest.fixture
def farm(client, prefix):
    return Farm(client, prefix)


def pick(farm, group):
    """A job in its shard, two in two others, and one in the fourth that follows them."""
    home = farm.bike.store.number_shard(MARK + group)
    return farm.name(home, *({0, 1, 2, 3} - {home}))


def look(farm):
    """Deliver what there is, and let run what is due then."""
    for number, shard in enumerate(farm.bike.store.shards):
        for receiver in shard.links.list_mail():
            deliver(farm.bike.store.shards, number, receiver)
    return farm.dispatch()


@pytest.mark.parametrize("fault", [AFTER, pytest.param(BEFORE, marks=pytest.mark.acceptance)])
def test_whoever_sets_one_may_die_at_any_request_and_begin_again(farm, client, fault):
    near, one, two, then = pick(farm, "load")
    jobs = [(near, "NOW"), (one, "NOW"), (two, "NOW")]
    for place in count(1, STRIDE):
        farm.bike.flush()
        faults = Faults()
        faults.arm(fault, place)
        with suppress(Crash):
            Redbike(RoundRobin("A"), farm.bike.prefix, faulty(client, faults), shards=4).group("load", jobs, then=then)
        if not faults.struck:
            break
        # What follows does not run too early, whatever of the rest was set.
        ran = [jobid for _ in range(3) for jobid in look(farm)]
        assert then not in ran or set(ran[: ran.index(then)]) == {near, one, two}
        assert farm.bike.group("load", jobs, then=then) == 3
        ran = [jobid for _ in range(3) for jobid in look(farm)]
        assert (sorted(ran[:-1]), ran[-1]) == (sorted([near, one, two]), then), place
        assert list(farm.bike.fsck()) == []
    assert place > 20


def test_what_has_ended_counts_before_its_message_is_delivered(farm):
    near, one, two, then = pick(farm, "load")
    farm.bike.group("load", [(jobid, "AT:2000000000") for jobid in (near, one, two)], then=then)
    for left, jobid in ((2, near), (1, one), (0, two)):
        farm.bike.unset(jobid)
        group = {"name": "load", "left": left, "total": 3, "failed": 0, "dropped": 3 - left}
        assert farm.bike.tell(then)["follows_group"] == group
    assert list(farm.bike.fsck()) == []
    assert [*look(farm), *look(farm)] == [then]


def test_nobody_waits_for_a_group_while_a_shard_is_away_that_may_have_jobs_of_it(farm, monkeypatch):
    near, one, _, then = pick(farm, "load")
    away = farm.bike.store.find_shard(one)
    farm.bike.set(near, "EVERY:1h", group_of="load")

    def fail(links, *_):
        if links._namespace.keys is away.keys:
            raise Unreachable("away")

    with monkeypatch.context() as patch:
        patch.setattr(Links, "read_mail", fail)
        with pytest.raises(Unreachable, match=f"the shard {re.escape(away.keys.prefix)} is missing"):
            farm.bike.set(then, "GROUP:load")
    assert farm.bike.tell(then)["schedule"] is None
    assert farm.bike.set(then, "GROUP:load")


def test_no_job_of_a_group_waits_for_what_waits_for_it(farm):
    near, one, two, then = pick(farm, "load")
    farm.bike.set(then, "GROUP:load")
    farm.bike.set(two, f"AFTER:{then}")
    for jobid, parent in ((near, two), (one, then), (one, two)):
        match = f"would wait for itself: {jobid} after .*{then} after group load after {jobid}"
        with pytest.raises(BadSchedule, match=match):
            farm.bike.enter(jobid, f"AFTER:{parent}", group_of="load")
    farm.bike.set(one, f"AFTER:{two}")
    farm.bike.set(near, "EVERY:1h", group_of="sale")
    farm.bike.set(two, f"AFTER:{near}", group_of="sale")
    for jobid in (near, two):
        with pytest.raises(BadSchedule, match=f"would wait for itself: {jobid} after group sale"):
            farm.bike.enter(jobid, "GROUP:sale")


@pytest.mark.parametrize("lost", ["part", "home", "record", "subscription"])
def test_fsck_finds_what_the_shards_of_a_group_do_not_know_of_each_other(farm, lost):
    near, one, two, then = pick(farm, "load")
    bike, store = farm.bike, farm.bike.store
    bike.group("load", [(one, "AT:2000000000"), (two, "AT:2000000000")], then=then)
    home, shard, number = store.find_shard(near), store.find_shard(one), store.number_shard(one)
    part, whole = f"{MARK}{MARK}load\n\x1c{number:02}", f"the shard {home.keys.prefix} does not know"
    line = f"the group 'load': {whole} which jobs of it others have"
    if lost == "part":
        assert home.client.zrem(home.keys.followers, part) == 1
    elif lost == "home":
        # As if its server had forgotten that the last job there has ended, and another that it had any.
        other = next(each for each in range(4) if each not in map(store.number_shard, (near, one, two)))
        assert home.client.zadd(home.keys.followers, {f"{MARK}{MARK}load\n\x1c{other:02}": 0}) == 1
    elif lost == "record":
        assert shard.client.hdel(shard.keys.following, f"{MARK}load") == 1
    else:
        line = f"'{then}': {whole} that it follows the group load"
        [link] = [each for each in home.client.zrange(home.keys.followers, 0, -1) if each.startswith(b"\x1dload\n")]
        home.client.zrem(home.keys.followers, link)
    assert list(bike.fsck()) == [line]
    if lost == "part":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(groups.Groups, "tell", lambda *given: None)
            assert list(bike.repair()) == [(f"{line} -- not repaired: it still does not", False)]
    assert list(bike.repair()) == [(f"{line} -- repaired: it does now", True)]
    assert list(bike.fsck()) == []
    bike.unset(one)
    assert look(farm) == []
    bike.unset(two)
    assert [*look(farm), *look(farm)] == [then]
