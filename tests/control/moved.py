"""A prefix with something in every key, whose jobs move to another number of shards, and what is asked of it."""

import re

from redbike import Redbike, RoundRobin
from redbike.control.moving import Mover
from redbike.store.entries import pack_entry
from redbike.store.keys import FIXED, Keys
from redbike.store.outputs import pack_output
from redbike.store.scripts import GUARD
from tests.states import dump
from tests.store.sharded.test_same_answers import QUESTIONS as SHARED
from tests.store.sharded.test_same_answers import scrub
from tests.verbs import add_token

NOW = 1_900_000_000.0
QUESTIONS = {
    **SHARED,
    # Of those that are due at once, the first one may be another.
    "health": lambda bike: [re.sub(r" \(first .*?\)", "", str(each)) for each in SHARED["health"](bike)],
    # Those that wait to be archived are archived.
    "metrics": lambda bike: [line for line in SHARED["metrics"](bike) if "unarchived" not in line],
    "whole log": lambda bike: sorted((e.time, e.who, e.action, e.jobid, e.detail) for e in bike.log()),
    "stored": lambda bike: [
        state.stored | {"status": state.status, "timeline": state.timeline, "timer": state.timer}
        for state in bike.store.questions.inspect(sorted({jobid for jobid, *_ in bike.get_statuses()}))
    ],
    "told": lambda bike: [
        bike.tell(jobid) for jobid in ("load{n}:A", "report{n}:A", "then{g}:A", "back:A", "out:A", "flop:A", "dark:B")
    ],
    "host": lambda bike: bike.tell("clean:A@all"),
    "rewinds": lambda bike: bike.store.rewinds.list_all(),
    "tokens": lambda bike: bike.store.tokens.read_all()[0],
    "alerts": lambda bike: sorted(bike.store.alerts.read().told.items()),
    "output": lambda bike: bike.output("out:A"),
    "followers": lambda bike: bike.store.backfills.list_followers("load{n}:A"),
    "dispatched": lambda bike: bike.store.timeline.read_dispatched()[1],
    "order": lambda bike: [bike.store.log.find_order("job-1:A", NOW, NOW + 1), bike.why("wait:B")],
}


class Worker(RoundRobin):
    def work(self, jobid):
        if jobid.startswith(("job-3:", "flop:")):
            raise ValueError("no")


class World:
    """A prefix with a clock of its own, opened anew for each number of shards."""

    def __init__(self, client, prefix):
        self.client, self.prefix, self.now = client, prefix, NOW

    def open(self, shards, client=None):
        bike = Redbike(Worker("A:B"), self.prefix, client or self.client, shards=shards, noted_as="ada@here")
        bike._compose(bike.store.follow(lambda: self.now), bike._noted.follow(lambda: self.now), bike.worker)
        return bike

    def move(self, number, client=None):
        return Mover(client or self.client, self.prefix).move(number)

    def answers(self, shards):
        bike = self.open(shards)
        # What a server has lost is told with the shard that keeps the record.
        shard = re.compile(r"the shard \S+: |, shard='[^']*'")
        return {name: shard.sub("", scrub(ask(bike))) for name, ask in QUESTIONS.items()}

    def dump(self):
        """All keys, as the server packs them."""
        return {key: self.client.dump(key) for key in self.client.keys(f"*{self.prefix}*")}

    def restore(self, dumped):
        """Bring back what was dumped, and nothing else."""
        self.client.flushdb()
        for key, value in dumped.items():
            self.client.restore(key, 0, value)

    def list_places(self, shards):
        return [Keys(shard.keys.prefix) for shard in self.open(shards).store.shards]


def fill(world, shards=1):
    """Put something into every key."""
    bike = world.open(shards)
    list(
        bike.set_many((f"job-{n}:A", schedule) for n, schedule in enumerate(["EVERY:1h", "0 3 * * *", "EVERY:7s"] * 8))
    )
    bike.set("flop:A", "NOW", retries=3, backoff=600.0, data={"x": [1]})
    bike.set("gone:A", "NOW")
    bike.set("out:A", "NOW")
    bike.set("job-3:A", "NOW", tags="a,b", owner="ada")
    bike.set("late:A", "EVERY:1h", start_within=5.0, expires=600.0)
    bike.set("rule:A", "DTSTART:20260101T000000\nRRULE:FREQ=DAILY;BYHOUR=4")
    bike.set("soon:A", "AT:1900000300")
    list(bike.set_many([("load{n}:A", "EVERY:1h"), ("report{n}:A", "AFTER:load{n}:A")]))
    list(bike.set_many([("chain-0:A", "EVERY:1h"), ("chain-1:A", "AFTER:chain-0:A")]))
    bike.set("chain-2:A", "AFTER:chain-0:A,chain-1:A")
    bike.group("{g}", [("one{g}:A", "AT:2000000000"), ("two{g}:A", "AT:2000000001")], then="then{g}:A")
    bike.set("back:A", "0 * * * *")
    world.now += 8.0
    bike.dispatch_due()
    assert bike.work_one()
    for shard in bike.store.shards:
        list(shard.archiver.archive())
        shard.timeline.advance(world.now)
    while bike.work_one():
        pass
    assert next(bike.jobs("flop:A")).last_outcome == "retry"
    bike.backfill("back:A", NOW - 36_000, NOW - 7200, at_once=2)
    bike.sync([("row-1:B", "EVERY:1h"), ("row-2:B", "EVERY:2h")], group="these")
    bike.set("clean:A@all", "ALL:EVERY:1h")
    bike.pause("job-5:A", "job-6:A", until=world.now + 9000, reason="so")
    bike.pause("job-7:A", reason="for good")
    bike.set("dark:B", "EVERY:1h")
    bike.pause("dark:B", every="0 22 * * *", lasting="2h")
    bike.set("wait:B", "EVERY:1h", expires=900.0)
    bike.run("wait:B", "row-*", "job-1*")
    bike.unset("job-11:A")
    bike.pause_queue("B", until=world.now + 1000)
    bike.limit("A", at_once=128, rate="160/m")
    add_token(bike.store, "ci", "read", ["job-*"])
    # What takes long to come about.
    first, keys = bike.store.find_shard("out:A"), bike.store.find_shard("out:A").keys
    world.client.hset(keys.outputs, "out:A", pack_output(NOW, 1, "done"))
    world.client.hset(keys.saved, "out:A", f'{NOW!r} {{"at":7}}')
    world.client.hset(keys.rewinds, "1800000000.000000", "1800000009.000000 1800000010.000000")
    world.client.hset(keys.untold, "tag+ out:A", f"{NOW:.6f} 0\n".encode() + pack_entry("w:1:x", []))
    told = {"job:late:A": '{"active":{"late":1900000000.0}}', "missed:late:A": "3 1900000000.000000"}
    told |= {"missed:": "3", "waiting:": '{"at":1.0,"lines":["one"],"more":0,"tries":0}', "sent:": "1.000000"}
    world.client.hset(keys.alerts, mapping=told)
    world.client.hset(keys.skipped, mapping={"missed:late:A": "3", "missed:": "3", "expired:": "1"})
    world.client.hset(keys.agreed, mapping={"protocol": "5", "rules": '{"stock":"1900000000.000000"}'})
    assert first.keys is keys


def check_places(world, old, new):
    """Where jobs have left are texts alone, and nothing has a name of a move any more."""
    names = [key.decode() for key in world.client.keys(f"*{world.prefix}*")]
    assert [name for name in names if "-~" in name] == []
    prefix = world.prefix if old == 1 else f"{{{world.prefix}:00}}/{old}"
    left = [name for name in names if name.startswith(f"{prefix}-") and name != f"{prefix}-agreed"]
    assert all(world.client.get(name).decode().startswith(GUARD) for name in left)
    assert len(left) == len(FIXED) - 2  # without control and agreed
    assert sorted(world.client.hkeys(f"{prefix}-agreed")) == ([b"left", b"shards"] if old == 1 else [])


def list_order(world, shards):
    return [
        jobid.decode()
        for keys in world.list_places(shards)
        for queue in ("work-A", "work-B")
        for jobid in world.client.lrange(keys.queue(queue), 0, -1)[::-1]
        if not world.client.sismember(keys.tombstones(queue), jobid)
    ]


def dump_all(world, shards):
    """All that is in shards, but for what differs each time."""
    found = [dump(shard) for shard in world.open(shards).store.shards]
    return [{key: drop_changing(key, value) for key, value in each.items()} for each in found]


def drop_changing(key, value):
    """Without who has moved it, and without when limits are divided anew."""
    if key.endswith("-agreed"):
        return {field: text for field, text in value.items() if field != b"shards"}
    if key.endswith("-followers"):  # and since when other shards hear of ends
        return [(member.partition(b" ")[0] if b"\n\x1c" in member else member, score) for member, score in value]
    return [pair for pair in value if not pair[0].startswith(b"quota:")] if key.endswith("-timers") else value
