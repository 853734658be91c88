"""Everything that a process of Redbike does to the state in Redis: what was there before, and the operation itself."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from redbike import Again, Redbike, RoundRobin, UnsetJob, current_run
from redbike.config.settings import Settings
from redbike.control.queues import QueueController
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.errors import NoSuchJob
from redbike.store.backfill import NewBackfill
from redbike.store.blackouts import Blackout
from redbike.store.inspection.fsck import fsck
from redbike.store.jobs import JobToSet
from redbike.store.lease import LEASE
from redbike.store.processes import ProcessRecord
from redbike.store.store import Store
from redbike.worker.batch import MOST
from redbike.worker.worker import Worker
from tests.crashing import Faults, faulty
from tests.loops import Acting, raising
from tests.verbs import Once, run_job, set_job, take_many
from tests.waiting import wait_until

JOB = "job:A"
FIRST = "2001-09-09T01:46:40Z"  # the first occurrence of a backfill, at 1e9
OFTEN = {"redbike.worker.heartbeat.INTERVAL": 0.01}
EACH_TOLD = {"redbike.worker.batch.UNREPORTED": -1.0}


class Handler(RoundRobin):
    """Does what the operation says with some jobs, nothing with others, and tells which it worked."""

    def __init__(self, acts: dict[str, Callable[[], Any]]) -> None:
        super().__init__("A:A:B")
        self.acts = acts
        self.worked: list[str] = []
        self.seconds = 100.0
        self.refused: list[str] = []

    def queue_for(self, jobid: str) -> str:
        if jobid in self.refused:
            raise RuntimeError("it has no queue")
        return super().queue_for(jobid)

    def work(self, jobid: str) -> Any:
        self.worked.append(current_run().jobid)  # that of an occurrence, if it is one of a backfill
        return self.acts.get(jobid, lambda: None)()

    def timeout(self, queue_name: str) -> float:
        return self.seconds


class Scene:
    """The jobs under one prefix; `bike` belongs to the process that faults strike, `observer` to the one that looks."""

    def __init__(self, client: Any, prefix: str, settings: dict[str, Any]) -> None:
        self.acts: dict[str, Callable[[], Any]] = {}
        self.faults = Faults()
        self.left = False  # whether the operation is at its end
        self.over = False  # whether the process that faults strike is gone
        self.handler, self.later = Handler(self.acts), Handler(self.acts)
        known = Settings(prefix=prefix, **settings)
        self.observer = Redbike.from_settings(self.later, known, client)
        self.bike = Redbike.from_settings(self.handler, known, faulty(client, self.faults))
        self.store = self.observer.store
        self.began = self.now()
        self.hourly, self.two_hourly = (f"EVERY:{hours}h@{self.began - 36010:.0f}" for hours in (1, 2))

    def now(self) -> float:
        return self.store.timeline.read_dispatched()[0]

    def put(self, jobid: str, due: float, schedule: str = "", once: bool = False) -> None:
        """A job that is due in `due` seconds: it is on the timeline, also if it should have been dispatched."""
        set_job(self.store.at(self.began - 10_000), jobid, schedule or self.hourly, self.began + due, once)

    def queue(self, *jobids: str, schedule: str = "") -> None:
        """Jobs that are due now."""
        for jobid in jobids:
            set_job(self.store, jobid, schedule or self.hourly, "now", schedule == "NOW")

    def fly(self, *jobids: str, ago: float = 0.0, tag: str = "tag") -> None:
        """Jobs in flight, taken together `ago` seconds ago by a worker that is gone."""
        self.store.jobs.set([JobToSet(jobid, self.hourly, self.began - ago, False, "work-A") for jobid in jobids])
        taken = take_many(self.store.at(self.began - ago), [("work-A", 1000.0)], [1], tag, MOST)
        assert {run.jobid for run in taken} == set(jobids)

    def flying(self) -> set[str]:
        return {jobid.decode() for jobid in self.store.client.hkeys(self.store.keys.running)}

    def waits(self, condition: Callable[[], object]) -> None:
        """To be called by a job: wait for `condition`, unless the process is dead."""
        wait_until(lambda: condition() or self.faults.crashed or self.over)

    @contextmanager
    def meanwhile(self, *steps: Callable[[], None]) -> Iterator[None]:
        """Do each of `steps` from another process, as soon as this one has nothing to do, or is at its end."""
        thread = threading.Thread(target=self._interfere, args=steps)
        thread.start()
        try:
            yield
        finally:
            self.left = True
            thread.join()

    def _interfere(self, *steps: Callable[[], None]) -> None:
        for step in steps:
            wait_until(lambda: self.left or self.faults.crashed or self.blocked())
            step()

    def blocked(self) -> list[str]:
        """The connections that wait for a token."""
        return [each["id"] for each in self.store.client.client_list() if "b" in each["flags"]]

    @contextmanager
    def worker(self, concurrency: int = 1, most: int = 1) -> Iterator[Worker]:
        """A worker of the process that faults strike, which begins by taking `most` jobs."""
        worker = Worker(self.bike.store, self.handler, self.bike.settings, concurrency)
        worker.pace.number = most
        try:
            yield worker
        finally:
            worker.batches.watch.stop()
            worker.heartbeat.stop()

    def goes_on(self) -> None:
        """As after a restart: what is due is dispatched, later what is lost, and then all queues are worked."""
        self.over = True
        dispatcher = Dispatcher(self.store, self.observer.settings)
        dispatcher.timekeeper.skip_missed()
        dispatcher.dispatch_due()
        dispatcher.dispatch_due(self.now() + LEASE + 1)
        worker = Worker(self.store, self.later, self.observer.settings)
        while worker.work_one() or dispatcher.dispatch_due():
            pass
        worker.heartbeat.stop()
        dispatcher.close()

    def runs(self) -> Counter[str]:
        """How often the work of each job has begun."""
        return Counter(self.handler.worked + self.later.worked)

    def cut_short(self) -> Counter[str]:
        """The jobs whose work had begun when the process died, and whose end was not told: they are to run again.

        Not those that were set or unset meanwhile, as that counts, and not how the run ended.
        """
        begun = self.store.questions.inspect(set(self.handler.worked) & self.flying())
        return Counter(state.jobid for state in begun if state.schedule and state.running.split(" ")[6] == "-")

    def close(self) -> None:
        self.bike.client.connection_pool.disconnect()


@dataclass
class Operation:
    """`by_hand` means that whoever gave the command gives it again if it failed; others are taken up after a restart.

    `steps` is how many changes of state it may be, each of which is done or not done. `insists` means that it waits out
    a lost reply, and then leaves nothing behind. `mends` means that what is there before is damaged. `patches` are
    constants of the package that are other ones meanwhile, by module and name.
    """

    name: str
    prepare: Callable[[Scene], Any]
    act: Callable[[Scene], Any]
    by_hand: bool = False
    steps: int = 1
    insists: bool = False
    mends: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    patches: dict[str, Any] = field(default_factory=dict)


def nothing(scene: Scene) -> None:
    pass


def waiting(*jobids: str, schedule: str = "") -> Callable[[Scene], None]:
    return lambda scene: scene.queue(*jobids, schedule=schedule)


def elsewhere(scene: Scene) -> None:
    """A job that waits in a queue that is not its own."""
    set_job(Store(scene.observer.client, scene.store.keys.prefix, lambda jobid: "elsewhere"), JOB, scene.hourly, "now")


def dead(scene: Scene) -> None:
    scene.queue(JOB)
    Worker(scene.store, Acting(raising(ValueError("it broke"))), scene.observer.settings).work_one()


def crowd(scene: Scene) -> None:
    """A job in each state."""
    dead(scene)
    scene.fly("flying:A")
    scene.put("later:A", due=3600)
    set_job(scene.store, "stopped:A", "STOP", None)
    scene.store.jobs.reject("bad:A")
    scene.queue("queued:A", "queued:B")
    scene.store.signals.halt()


def damaged(scene: Scene) -> None:
    """Jobs of which a part is gone."""
    client, keys = scene.observer.client, scene.store.keys
    scene.fly("flying:A")
    scene.put("later:A", due=3600)
    scene.queue("queued:A", "unrecorded:A")
    client.zrem(keys.leases, "tag")
    client.delete(keys.inflight("tag"))
    client.zrem(keys.timeline, "later:A")
    client.lrem(keys.queue("work-A"), 0, "queued:A")
    client.hdel(keys.queued, "unrecorded:A")


def without_scripts(prepare: Callable[[Scene], Any]) -> Callable[[Scene], Any]:
    """`prepare`, and then the server has none of our scripts any more, as after a restart."""

    def prepared(scene: Scene) -> None:
        prepare(scene)
        scene.observer.client.script_flush()

    return prepared


def load(scene: Scene) -> list[tuple[str, bool]]:
    first, second = scene.hourly, scene.two_hourly
    pairs = [("a:A", first), ("b:B", "NOW"), ("bad:A", "whenever"), ("a:A", second), ("c:A", "NOW"), (JOB, first)]
    return [(jobid, result is True) for jobid, result in scene.bike.set_many(pairs)]


def sync(scene: Scene) -> None:
    """A file has lost a row since it was loaded, and changed another one: in the end the jobs are those of the file."""
    rows = [
        ("a:A", scene.hourly),
        ("b:A", scene.two_hourly, {"retries": 5}),
        ("once:A", "NOW"),
        ("new:A", scene.hourly),
    ]
    scene.bike.sync(rows, prune=True)
    assert {jobid for jobid, _ in scene.bike.get_schedules()} == {"a:A", "b:A", "once:A", "new:A", "foreign:A"}


def synced(scene: Scene) -> None:
    scene.observer.sync([("a:A", scene.hourly), ("b:A", scene.hourly), ("c:A", scene.hourly)])
    scene.observer.sync([("foreign:A", scene.hourly)], group="other")


def run(scene: Scene) -> str:
    try:
        scene.bike.run(JOB)
    except NoSuchJob as error:
        return str(error)
    return ""


def cancel(scene: Scene) -> None:
    """The word for it is another one if it was cancelled before the process died."""
    for _, word in scene.bike.cancel("*"):
        assert word in ("cancelled", "unchanged", "idle")


def look(scene: Scene) -> list[Any]:
    bike = scene.bike
    listed = [sorted(bike.get_statuses()), sorted(bike.get_schedules()), list(bike.failures())]
    return [bike.tell("flying:A"), bike.is_working("job:A"), bike.is_halted(), bike.workers(), *listed]


def repair(scene: Scene) -> None:
    for _, well in scene.bike.repair():
        assert well


def paused(
    prepare: Callable[[Scene], Any], *more: str, since: float = -7150.0, until: float | None = None
) -> Callable[[Scene], None]:
    """`prepare`, and then `JOB` and `more` are paused since `since` seconds."""

    def prepared(scene: Scene) -> None:
        prepare(scene)
        ends = None if until is None else scene.began + until
        scene.store.at(scene.began + since).pauses.pause([JOB, *more], ends, "somebody", "")

    return prepared


def pause(scene: Scene) -> None:
    scene.bike.pause(JOB, until=scene.began + 3600)


def resume(scene: Scene) -> None:
    scene.bike.resume(JOB)


def flush(scene: Scene) -> None:
    scene.bike.flush()


def steering(act: Callable[[QueueController, float], Any]) -> Callable[[Scene], None]:
    """Do `act`, which is also given the time. What it returns is not compared: what is paused already is not paused."""

    def steer(scene: Scene) -> None:
        act(QueueController(scene.bike.store, scene.bike.worker), scene.began)

    return steer


def late(scene: Scene) -> None:
    """A paused one-off that came due long ago."""
    paused(lambda scene: scene.put(JOB, due=-7100, schedule=f"AT:{scene.began - 7100}", once=True))(scene)


def expiring(scene: Scene) -> None:
    """Jobs that wait in queues, and must begin within 10 minutes."""
    now, options = scene.began - 700, '{"expires":600}'
    for jobid, schedule in ((JOB, scene.hourly), ("b:B", scene.hourly), ("once:A", "NOW")):
        job = JobToSet(jobid, schedule, "now", schedule == "NOW", scene.store.queue_for(jobid), options=options)
        scene.store.at(now).jobs.set([replace(job, expires=600.0)])


def alerting(scene: Scene) -> None:
    """A job that alerts if it is late."""
    options = '{"finish-within":3600}'
    scene.store.jobs.set([JobToSet(JOB, scene.hourly, scene.began + 3600, False, "work-A", options=options)])


def set_alerting(scene: Scene) -> None:
    assert scene.bike.set(JOB, scene.hourly, finish_within="1h")


def expiring_later(scene: Scene) -> None:
    """A job that is due, and must begin within 10 minutes."""
    due = JobToSet(JOB, scene.hourly, scene.began - 20, False, "work-A", options='{"expires":600}')
    scene.store.at(scene.began - 100).jobs.set([due])


def held_queue(scene: Scene) -> None:
    """A queue with a job that is paused until an instant to come."""
    scene.queue(JOB)
    scene.store.queue_limits.pause("work-A", scene.began + 3600)


def held_all(scene: Scene) -> None:
    scene.queue(JOB, "other:B")
    scene.put("due:A", due=-1)
    scene.store.queue_limits.pause("")


def limited(scene: Scene) -> None:
    """A queue with one job in flight, which may have no more, and another job."""
    scene.store.queue_limits.limit("work-A", at_once=1, rate=(1000, 1))
    scene.fly("flying:A", ago=90)
    scene.queue(JOB)


def opened(scene: Scene) -> None:
    """The pauses of a queue and of everything are over."""
    scene.queue(JOB)
    for name in ("work-A", ""):
        scene.store.at(scene.began - 100).queue_limits.pause(name, scene.began - 50)


def resume_follower(scene: Scene) -> None:
    # What it returns is not compared: what is resumed already is not resumed.
    scene.bike.resume("held:A")


def followed(prepare: Callable[[Scene], Any]) -> Callable[[Scene], None]:
    """Jobs follow the one of `prepare`: one of them alone, and one that is paused; one follows both."""

    def prepared(scene: Scene) -> None:
        for jobid, parents in (("child:A", JOB), ("held:A", JOB), ("last:B", "child:A,other:A any")):
            assert scene.observer.set(jobid, f"AFTER:{parents}")
        scene.observer.pause("held:A")
        prepare(scene)

    return prepared


def backfilling(scene: Scene, is_paused: bool = False) -> None:
    """A backfill of three occurrences, the first of which is due to be dispatched; or its job is paused before that."""
    scene.put(JOB, due=3600)
    if is_paused:
        scene.store.pauses.pause([JOB], None, "somebody", "")
    dues = [1e9, 1e9 + 3600, 1e9 + 7200]
    new = NewBackfill(JOB, scene.hourly, "", 1e9, 2e9, dues, token="token")
    assert scene.store.backfills.begin(new) == "ok"


def backfilled(scene: Scene) -> None:
    """The same, with the first occurrence in its queue."""
    backfilling(scene)
    scene.observer.dispatch_due()


def chained(prepare: Callable[[Scene], Any]) -> Callable[[Scene], None]:
    """Jobs follow the one of `prepare`, so that they do so in its backfill."""

    def prepared(scene: Scene) -> None:
        for jobid, parents in (("child:A", JOB), ("last:B", f"child:A,{JOB}")):
            assert scene.observer.set(jobid, f"AFTER:{parents}")
        prepare(scene)

    return prepared


def cancel_backfill(scene: Scene) -> None:
    """If the process has died, the second one is for the run of the schedule, which is not due."""
    assert scene.bike.cancel(JOB)[0].word in ("ended", "idle")


def grouped(prepare: Callable[[Scene], Any], *more: str) -> Callable[[Scene], None]:
    """The job of `prepare` is the last one of a group, or has `more` beside it; another job waits for the group."""

    def prepared(scene: Scene) -> None:
        prepare(scene)
        for jobid in (JOB, *more):
            assert scene.observer.set(jobid, scene.hourly, group_of="g")
        assert scene.observer.set("report:A", "GROUP:g")

    return prepared


def gather(scene: Scene) -> None:
    scene.bike.group("g", [(JOB, "NOW"), ("a:A", scene.hourly), ("b:B", scene.hourly)], then="report:A")


def dark(scene: Scene) -> None:
    """Blackouts that have begun since they were set, but that no dispatcher has seen."""
    began = scene.began - 100
    blackout = Blackout(f"EVERY:1d@{began - 86400:.0f}", 3600.0, began - 50, "somebody")
    scene.queue(JOB, "other:B")
    scene.put("soon:A", due=100)
    for name in (f"job:{JOB}", "job:soon:A", "queue:work-B", "queue:"):
        scene.store.at(began - 50).blackouts.set([name], blackout, began, "")


def black_out(scene: Scene) -> None:
    scene.bike.pause(JOB, every=f"EVERY:1d@{scene.began - 2 * 86400 - 60:.0f}", lasting="2h")


def dark_now(scene: Scene) -> None:
    """A blackout of a job, a queue and everything that is on."""
    dark(scene)
    Dispatcher(scene.store, scene.bike.settings).dispatch_due()


def put_off(scene: Scene) -> None:
    """Other blackouts, of which none is on."""
    later: dict[str, Any] = {"every": f"EVERY:1d@{scene.began - 2 * 86400 + 3600:.0f}", "lasting": "1h"}
    scene.bike.pause(JOB, **later)
    scene.bike.pause_queue("B", **later)
    scene.bike.pause_all(**later)


def lighten(scene: Scene) -> None:
    scene.bike.resume(JOB, every=True)
    scene.bike.resume_queue("B", every=True)
    scene.bike.resume_all(every=True)


BASE = "clean:A@all"


def on_hosts(scene: Scene) -> None:
    """Two hosts with workers of the queue A."""
    for number in (1, 2):
        record = ProcessRecord(0.0, "worker", f"web{number}", 1, ("work-A",), "1", for_host=True)
        scene.store.workers.register(f"owner00{number}", record.format_entry())


def everywhere(scene: Scene) -> None:
    on_hosts(scene)
    scene.observer.set(BASE, scene.hourly)


def pause_everywhere(scene: Scene) -> None:
    scene.bike.pause(BASE)


def set_everywhere(scene: Scene) -> None:
    scene.bike.set(BASE, scene.two_hourly, retries=1, data=1)


# test_transitions.py repeats each script in each state: here are the ways that clients take to them.
BY_HAND = [
    ("set a follower", waiting(JOB), lambda scene: scene.bike.set("child:A", f"AFTER:{JOB}")),
    ("set a follower anew", followed(waiting(JOB)), lambda scene: scene.bike.set("child:A", "AFTER:other:A failed")),
    ("unset a follower", followed(waiting(JOB)), lambda scene: scene.bike.set("last:B", None)),
    ("unset a parent", followed(waiting(JOB)), lambda scene: scene.bike.set(JOB, None)),
    ("resume a follower", followed(waiting(JOB)), resume_follower),
    ("set one of a group", nothing, lambda scene: scene.bike.set(JOB, scene.hourly, group_of="g")),
    ("set without its group", grouped(nothing), lambda scene: scene.bike.set(JOB, scene.hourly, group_of=None)),
    ("unset what waits for a group", grouped(nothing), lambda scene: scene.bike.set("report:A", None)),
    ("unset what has a blackout", dark_now, lambda scene: scene.bike.set(JOB, None)),
    ("cancel a backfill", backfilled, cancel_backfill),
    ("unset what is of a backfill", backfilled, lambda scene: scene.bike.set(f"{JOB}@{FIRST}", None)),
    ("unset what has a backfill", backfilled, lambda scene: scene.bike.set(JOB, None)),
    ("cancel a backfill of a chain", chained(backfilled), cancel_backfill),
    ("unset what has a backfill of a chain", chained(backfilled), lambda scene: scene.bike.set(JOB, None)),
    ("unset a follower in a backfill", chained(backfilled), lambda scene: scene.bike.set(f"child:A@{FIRST}", None)),
    ("resume what has a backfill", lambda scene: backfilling(scene, is_paused=True), resume),
    ("set NOW", nothing, lambda scene: scene.bike.set(JOB, "NOW")),
    ("set with an empty cache of scripts", without_scripts(nothing), lambda scene: scene.bike.set(JOB, "NOW")),
    ("unset what alerts", alerting, lambda scene: scene.bike.set(JOB, None)),
    ("set what expires", nothing, lambda scene: scene.bike.set(JOB, "NOW", expires="1h")),
    ("run what expires", expiring_later, run),
    ("resume what has expired", paused(expiring, since=-650.0), resume),
    ("set what is past", nothing, lambda scene: scene.bike.set(JOB, scene.hourly, after=scene.began - 7200)),
    ("set what waits elsewhere", elsewhere, lambda scene: scene.bike.set(JOB, scene.two_hourly)),
    ("set what is in flight", lambda scene: scene.fly(JOB), lambda scene: scene.bike.set(JOB, scene.two_hourly)),
    ("set badly", nothing, lambda scene: scene.bike.set(JOB, "0 0 30 2 *")),
    ("unset what waits elsewhere", elsewhere, lambda scene: scene.bike.set(JOB, None)),
    ("unset what is in flight", lambda scene: scene.fly(JOB), lambda scene: scene.bike.set(JOB, None)),
    ("unset what is dead", dead, lambda scene: scene.bike.set(JOB, None)),
    ("unset what is unknown", nothing, lambda scene: scene.bike.unset(JOB)),
    ("run what is dead", dead, run),
    ("run what is unknown", nothing, run),
    ("cancel what is queued", waiting(JOB), cancel),
    ("cancel what is in flight", lambda scene: scene.fly(JOB), cancel),
    ("pause what is queued", waiting(JOB), pause),
    ("pause what waits elsewhere", elsewhere, pause),
    ("pause what is in flight", lambda scene: scene.fly(JOB), pause),
    ("resume what has come due", paused(lambda scene: scene.put(JOB, due=-7100)), resume),
    ("resume what was queued", paused(waiting(JOB), since=0.0), resume),
    ("cancel what is paused", paused(waiting(JOB), since=0.0), cancel),
    ("halt", crowd, lambda scene: scene.bike.control("HALT")),
    ("clear the control", crowd, lambda scene: scene.bike.clear_control()),
    ("look", crowd, look),
    ("pause a queue", waiting(JOB), steering(lambda limiter, t: limiter.pause("work-A", t + 3600, "a reason"))),
    ("pause everything", waiting(JOB), steering(lambda limiter, _: limiter.pause(""))),
    ("resume a queue", held_queue, steering(lambda limiter, _: limiter.resume("work-A"))),
    ("take a limit back", limited, steering(lambda limiter, _: limiter.limit("A", at_once=None, rate=None))),
    ("fsck", waiting(JOB, "other:A"), lambda scene: list(fsck(scene.bike.store))),
]


def due(scene: Scene) -> None:
    """Jobs that are due in two queues, one that is still running, one that runs once, one that has no queue."""
    for number, jobid in enumerate(["a:A", "b:B", "c:A", "d:A", "e:B", "evil:A"]):
        scene.put(jobid, due=number - 100)
    scene.put("once:A", due=-90, schedule=f"AT:{scene.began - 90}", once=True)
    scene.fly("flying:A")
    scene.put("flying:A", due=-101, schedule=scene.two_hourly)
    scene.put("later:A", due=3600)
    scene.handler.refused.append("evil:A")
    scene.later.refused.append("evil:A")


MANY = ("left:A", "cancelled:A", "asked:A", "changed:A", "missed:A", "unset:A", "once:A", "stopped:A", "last:A")


def set_meanwhile(scene: Scene) -> None:
    """Whatever may be set during runs."""
    run_job(scene.store, "asked:A")
    scene.put("changed:A", due=1000, schedule=scene.two_hourly)
    set_job(scene.store, "missed:A", scene.two_hourly, scene.began - 500)
    scene.observer.cancel("cancelled:A")
    scene.store.jobs.unset("unset:A")
    set_job(scene.store, "once:A", "NOW", "now", once=True)
    set_job(scene.store, "stopped:A", "STOP", None)


def lost(scene: Scene) -> None:
    """Runs whose worker is gone: one alone, some that were taken together, and one that is lost once too often."""
    scene.fly("alone:A", ago=90, tag="one")
    scene.fly("two:A", "three:A", ago=80, tag="several")
    scene.fly("owed:A", ago=70, tag="another")
    run_job(scene.store, "owed:A")
    scene.fly(*MANY, ago=65, tag="many")
    set_meanwhile(scene)
    scene.store.client.hset(scene.store.keys.retry_states, "killer:A", "0 2")
    scene.fly("killer:A", ago=60, tag="last")
    scene.fly("alive:A", tag="alive")


def strays(scene: Scene) -> None:
    """Tags whose worker is gone, with jobs in their lists that are not in flight any more: of some, and of all."""
    scene.fly("a:A", "stray:A", "b:A", ago=90, tag="several")
    scene.fly("other:A", ago=80, tag="one")
    scene.fly("alive:A", tag="alive")
    for jobid in ("stray:A", "other:A"):
        scene.store.client.hdel(scene.store.keys.running, jobid)
        scene.store.jobs.unset(jobid)


def over(scene: Scene) -> None:
    """Pauses that are over: of jobs that waited in a queue, that came due meanwhile, and that are in flight."""
    scene.fly("flying:A")
    scene.queue(JOB)
    scene.put("due:A", due=-7100)
    scene.put("later:A", due=3600)
    others = ("due:A", "later:A", "flying:A", "b:B")
    scene.put("b:B", due=-7100, schedule=f"AT:{scene.began - 7100}", once=True)
    paused(nothing, *others, until=-100.0)(scene)


def missed(scene: Scene) -> None:
    """Occurrences that came due while there was no dispatcher."""
    for number in range(3):
        scene.put(f"{number}:A", due=number - 7200)
    scene.put("once:A", due=-7200, schedule=f"AT:{scene.began - 7200}", once=True)
    scene.store.timeline.advance(scene.began - 8000)


def one_pass(scene: Scene, bike: Redbike | None = None) -> int:
    bike = bike or scene.bike
    dispatcher = Dispatcher(bike.store, bike.settings)
    moved = dispatcher.dispatch_due()
    dispatcher.close()
    return moved


def past(scene: Scene) -> None:
    """Runs that have ended: of several jobs, of one that was unset since, and some that are archived already."""
    scene.queue(*MANY)
    worker = Worker(scene.store, Once(), scene.observer.settings)
    while worker.work_one():
        pass
    worker.heartbeat.stop()
    list(scene.store.archiver.archive())
    scene.queue(*MANY)
    while worker.work_one():
        pass
    scene.store.jobs.unset("unset:A")


SMALL = {"redbike.store.journal.READ_STEP": 3, "redbike.store.journal.WRITE_STEP": 3}  # several steps for a few jobs


def archive(scene: Scene) -> None:
    list(scene.bike.store.archiver.archive())


def archive_with_another(scene: Scene) -> None:
    """One that takes over in the middle, as if the first one had been suspended for a minute."""
    steps = scene.bike.store.archiver.archive()
    for _ in range(5):
        next(steps, None)
    for _ in scene.store.at(scene.now() + 60).archiver.archive():
        pass
    assert list(steps) == []


def spent(scene: Scene) -> None:
    """One-offs that have ended, of which one has the row of a file, and one runs again."""
    for jobid in (*MANY, "row:A", "again:A"):
        scene.store.jobs.set([JobToSet(jobid, "STOP", None, False, "work-A", group="file\nNOW" * (jobid == "row:A"))])
        scene.store.client.zadd(scene.store.keys.spent, {jobid: 1.0})
    scene.store.jobs.run(["again:A"])


def forget(scene: Scene) -> None:
    number, is_more = scene.bike.store.timeline.forget()
    assert number <= len(MANY), "after a lost reply there are none left"
    assert not is_more


def dispatch(scene: Scene) -> None:
    with scene.meanwhile(lambda: scene.put("soon:A", due=-1), scene.store.signals.halt):
        Dispatcher(scene.bike.store, scene.bike.settings).dispatch()


def dispatch_what_is_there(scene: Scene) -> None:
    with scene.meanwhile(scene.store.signals.halt):
        Dispatcher(scene.bike.store, scene.bike.settings).dispatch()


LOST_AND_PAUSED = paused(lambda scene: scene.fly(JOB, ago=90), since=-80.0)
DISPATCHER = [
    Operation("archive", past, archive, steps=4, patches=SMALL),
    Operation("archive what others archive too", past, archive_with_another, steps=4, patches=SMALL),
    Operation("forget", spent, forget, by_hand=True),
    Operation("dispatch_due", due, one_pass),
    Operation("dispatch_due of a backfill", backfilling, one_pass),
    Operation("dispatch_due with an empty cache of scripts", without_scripts(due), one_pass),
    Operation("dispatch_due with lost runs", lost, one_pass),
    Operation("dispatch_due with lost runs that stop", lost, one_pass, settings={"on_lost": "stop"}),
    Operation("dispatch_due with a lost run of a limited queue", limited, one_pass),
    Operation("dispatch_due after pauses of queues", opened, one_pass),
    Operation("dispatch_due when blackouts begin", dark, one_pass, steps=4),
    Operation("pause again and again", waiting(JOB), black_out, by_hand=True, steps=2),
    Operation("group", nothing, gather, by_hand=True, steps=3),
    Operation("group again", grouped(waiting(JOB), "old:A"), gather, by_hand=True, steps=3),
    Operation("end blackouts that are on", dark_now, lighten, by_hand=True, steps=6),
    Operation("put off blackouts that are on", dark_now, put_off, by_hand=True, steps=6),
    Operation("dispatch_due with strays", strays, one_pass, mends=True),
    Operation("dispatch_due with pauses that are over", over, one_pass),
    Operation("dispatch_due with a lost run that is paused", LOST_AND_PAUSED, one_pass),
    Operation("dispatch", due, dispatch),
    Operation("dispatch with catchup = none", missed, dispatch_what_is_there, settings={"catchup": "none"}),
    Operation("dispatch_due of what is late", missed, one_pass, settings={"grace": 600.0}),
    Operation("dispatch_due of what has expired", expiring, one_pass),
]


def acting(jobid: str, act: Callable[[Scene], Any], prepare: Callable[[Scene], Any]) -> Callable[[Scene], None]:
    """`prepare`, and the work of `jobid` is `act`."""

    def prepared(scene: Scene) -> None:
        prepare(scene)
        scene.acts[jobid] = lambda: act(scene)

    return prepared


def outlive(scene: Scene) -> None:
    wait_until(lambda: JOB not in scene.flying() or (scene.faults.crashed and not scene.over))


def be_set(scene: Scene) -> None:
    if scene.runs()[JOB] == 1:
        set_job(scene.store, JOB, "NOW", "now", once=True)


def be_paused(scene: Scene) -> None:
    """Until a lost run of it would be recovered."""
    if not scene.over:
        scene.observer.pause(JOB, until=scene.now() + 5)


def be_cancelled(scene: Scene) -> None:
    if scene.runs()[JOB] == 1:
        scene.observer.cancel(JOB)


def fail_cancelled(scene: Scene) -> None:
    be_cancelled(scene)
    raise ValueError("it was cancelled")


def save(scene: Scene) -> None:
    """And ask for another try, later: what is saved is there then."""
    assert current_run().saved in (None, "half")
    current_run().save("half")
    raise Again(after=1000)


def tell_progress(scene: Scene) -> None:
    current_run().progress(0.5, "half")
    scene.waits(lambda: scene.store.questions.inspect([JOB])[0].progress)


def live_long(scene: Scene) -> None:
    lease = scene.store.questions.inspect([JOB])[0].lease or 0.0
    scene.waits(lambda: (scene.store.questions.inspect([JOB])[0].lease or 0.0) > lease)


def be_slow(scene: Scene) -> None:
    """Until all others that were taken together are ended or given back."""
    scene.waits(lambda: scene.flying() <= {"slow:A"})


def short_of_time(scene: Scene) -> None:
    scene.queue(JOB)
    scene.acts[JOB] = lambda: outlive(scene)
    scene.handler.seconds = scene.later.seconds = 0.03


def work_one(scene: Scene) -> None:
    with scene.worker() as worker:
        worker.work_one()


def work(scene: Scene, most: int = 1, concurrency: int = 1, late: tuple[str, ...] = (), known: bool = True) -> None:
    """Work until there is nothing left; then the jobs `late` are set, and when they are done too, it is halted.

    Unless the scripts are still `known`, the server has forgotten them each time.
    """

    def set_late(jobid: str) -> None:
        scene.queue(jobid)
        if not known:
            scene.observer.client.script_flush()

    steps = [lambda jobid=jobid: set_late(jobid) for jobid in late]
    with scene.meanwhile(*steps, scene.store.signals.halt), scene.worker(concurrency, most) as worker:
        worker.work()


def work_batches(scene: Scene) -> None:
    work(scene, most=MOST)


def stopped_halfway(scene: Scene) -> None:
    """Told to stop while it is in the second of the jobs that it has taken."""
    with scene.meanwhile(scene.store.signals.halt), scene.worker(most=MOST) as worker:
        scene.acts["b:A"] = worker.loop.stopping.set
        worker.work()


THREE = ("a:A", "b:A", "c:A")


def crowded(scene: Scene) -> None:
    """Of a queue that may have two in flight, and of another one."""
    scene.store.queue_limits.limit("work-A", at_once=2, rate=(1000, 1))
    scene.queue(*THREE, "d:A", "e:B")


SLOW = acting("slow:A", be_slow, waiting("a:A", "slow:A", "c:A", "d:A"))
FAILING = acting(JOB, raising(ValueError("no")), waiting(JOB))
RETURNING = acting(JOB, lambda scene: {"rows": 7}, waiting(JOB))
WORK_ONE = {
    "periodic": waiting(JOB),
    "with followers": followed(waiting(JOB)),
    "of a backfill": backfilled,
    "of a backfill of a chain": chained(backfilled),
    "of a backfill, that raises": acting(JOB, raising(ValueError("no")), backfilled),
    "the last of a group": grouped(waiting(JOB)),
    "NOW": waiting(JOB, schedule="NOW"),
    "that raises": FAILING,
    "that saves something": acting(JOB, save, waiting(JOB)),
    "that has saved something": acting(JOB, lambda scene: current_run().save(1), waiting(JOB)),
    "that unsets itself": acting(JOB, raising(UnsetJob("enough")), waiting(JOB)),
    "that is set meanwhile": acting(JOB, be_set, waiting(JOB)),
    "that is paused meanwhile": acting(JOB, be_paused, waiting(JOB)),
    "that is unset meanwhile": acting(JOB, lambda scene: scene.observer.unset(JOB), waiting(JOB)),
    "that is cancelled": acting(JOB, be_cancelled, waiting(JOB)),
    "that fails after it was cancelled": acting(JOB, fail_cancelled, waiting(JOB)),
    "without scripts": without_scripts(waiting(JOB)),
    "of none": nothing,
}
WORK = [
    ("work", waiting("a:A", "b:B", "c:A"), work),
    ("work without scripts", without_scripts(waiting("a:A", "b:A")), work),
    ("work, with concurrency", waiting(*THREE), lambda scene: work(scene, concurrency=2)),
    ("work that is woken", nothing, lambda scene: work(scene, late=("late:A", "later:B"))),
    ("work that is woken, without scripts", nothing, lambda scene: work(scene, late=("late:A", "l:B"), known=False)),
    ("work of several", waiting(*THREE), work_batches),
    ("work of several, which fail", acting("b:A", raising(ValueError("no")), waiting(*THREE)), work_batches),
    ("work of several, stopped halfway", waiting(*THREE, "d:A"), stopped_halfway),
    ("work of several, limited", crowded, work_batches),
    ("work of several with their followers", followed(waiting(JOB, "child:A", "other:A")), work_batches),
    ("work of several, one slow", SLOW, work_batches),
]
WORKER = [
    *(Operation(f"work_one {name}", prepare, work_one) for name, prepare in WORK_ONE.items()),
    Operation("work_one that lives long", acting(JOB, live_long, waiting(JOB)), work_one, patches=OFTEN),
    Operation("work_one that tells its progress", acting(JOB, tell_progress, waiting(JOB)), work_one, patches=OFTEN),
    Operation("work_one that returns something", RETURNING, work_one, settings={"keep_result": "yes"}),
    Operation("work_one that overruns", short_of_time, work_one),
    Operation("work_one that is rescheduled", short_of_time, work_one, settings={"on_timeout": "reschedule"}),
    Operation("work_one that is retried", FAILING, work_one, settings={"on_error": "retry", "backoff": 1000.0}),
    *(Operation(name, prepare, act, insists=True) for name, prepare, act in WORK),
    *(
        Operation(f"work of several, {name}", prepare, work_batches, insists=True, patches=patches)
        for name, prepare, patches in (
            ("suspended", waiting(*THREE), {"redbike.worker.source.STALE": -1.0}),
            ("each told", waiting(*THREE), EACH_TOLD),
            ("each told, without scripts", without_scripts(waiting(*THREE)), EACH_TOLD),
        )
    ),
]

LIMIT = steering(lambda limiter, _: limiter.limit("A", at_once=2, rate="5/s"))
OPERATIONS = [
    *(Operation(name, prepare, act, by_hand=True) for name, prepare, act in BY_HAND),
    Operation("limit a queue", lambda scene: scene.fly(JOB), LIMIT, by_hand=True, steps=2),
    Operation("resume a one-off that is late", late, resume, by_hand=True, settings={"grace": 600.0}),
    Operation("resume everything", held_all, steering(lambda limiter, _: limiter.resume("")), by_hand=True, steps=3),
    Operation("set what alerts", nothing, set_alerting, by_hand=True, steps=2),
    Operation("set many", elsewhere, load, by_hand=True, steps=4),
    Operation("sync", synced, sync, by_hand=True, steps=4),
    Operation("cancel several", waiting(JOB, "b:A", "c:B"), cancel, by_hand=True, steps=3),
    Operation("repair", damaged, repair, by_hand=True, steps=4),
    Operation("flush", crowd, flush, by_hand=True, steps=5),
    Operation("set for every host", on_hosts, set_everywhere, by_hand=True, steps=4),
    Operation("set for every host anew", everywhere, set_everywhere, by_hand=True, steps=4),
    Operation("unset for every host", everywhere, lambda scene: scene.bike.set(BASE, None), by_hand=True, steps=5),
    Operation("pause on every host", everywhere, pause_everywhere, by_hand=True, steps=3),
    *DISPATCHER,
    *WORKER,
]
