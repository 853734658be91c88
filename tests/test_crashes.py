"""Every operation, and at each of its round trips: the process dies, the reply is lost, the request is sent twice.

The round trips are counted while the operation is done, so none is left out. Afterwards things go on: by hand, if it
was a command, else after a restart. Then all must be as if nothing had happened.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import pytest

from redbike.errors import Unreachable
from redbike.schedule.moments import AWAITED
from redbike.store.enums import Outcome
from redbike.store.records import RetryState
from redbike.worker.worker import Worker
from tests.crashing import AFTER, BEFORE, LOST, TWICE, Crash
from tests.operations import JOB, MANY, OPERATIONS, Operation, Scene, expiring, one_pass, set_meanwhile
from tests.states import dump, list_problems
from tests.waiting import wait_until

# Shorter than usual, so that little waiting is needed; PAGE and LOOK so that a few jobs are several pages. The server
# is always the same one, so it need not be asked for its version a thousand times.
SHORT = {
    "redbike.facade.redbike.check_any": lambda clients, durable: [],
    "redbike.worker.heartbeat.INTERVAL": 0.2,
    "redbike.loop.loop.FIRST_PAUSE": 0.002,
    "redbike.loop.wakeup.BLOCK": 0.2,
    "redbike.loop.wakeup.SILENCE": 10,
    "redbike.store.questions.PAGE": 4,
    "redbike.store.timeline.PAGE": 4,
    "redbike.store.timeline.MOST_DUE": 6,
    "redbike.store.upkeep.PAGE": 4,
    "redbike.dispatcher.dispatcher.PAGE": 4,
    "redbike.dispatcher.missed.PAGE": 2,
    "redbike.dispatcher.dispatcher.STEP": 2,
    "redbike.dispatcher.dispatcher.AHEAD": 1,
}
TIME = re.compile(r"\d{9,}(?:\.\d+)?")
# A failure after a loss is a later attempt, raised by way of other functions; a timeout may end in other digits. The
# revision of a job for every host is made of its schedule, which has a time.
ATTEMPT = re.compile(
    r'"revision":"\w+"|"attempt": \d+|"traceback": ".*?"\}|timeout of [0-9.]+ s|(?<=\d \d )\d+(?= [T-])'
)
# What wakes and stops processes, who is there, until when all is dispatched, and how far a run was that is lost, may
# differ after a crash.
PASSING = re.compile("-(wakeup|wake-.*|halt|control|dispatched|workers|seen|agreed|progress)$|^runs$")

FAR_AWAY = 1e8  # seconds

# Round trips of an operation: up to FEW each has every fault in the first tier, up to LONG every fifth one.
FEW, LONG = 3, 14
FAULTS = [BEFORE, AFTER, LOST, pytest.param(TWICE, marks=pytest.mark.acceptance)]

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


@dataclass
class Story:
    """What became of the jobs: where it broke off, after the operation, and when things have gone on."""

    before: dict[str, str]
    broken: dict[str, str]
    result: str
    done: dict[str, str]
    ended: dict[str, str]
    remembered: Counter[tuple[str, str]]  # ended runs, by job and outcome
    runs: Counter[str]
    cut_short: Counter[str]
    left: set[str]  # in flight when the process was at its end
    requests: list[str]
    struck: bool  # whether it came as far as the fault


def told(client: Any, prefix: str, operation: Operation, fault: str = "", at: int = 0) -> Story:
    """Do the operation, with `fault` at the request number `at`, and go on.

    The invariants are checked where nothing else is known of the state: others are compared with one that was checked.
    """
    scene = Scene(client, prefix, operation.settings)
    operation.prepare(scene)
    before = {} if fault else likeness(scene)
    scene.faults.arm(fault, at)
    try:
        result, broken = done(scene, operation, fault)
    finally:
        scene.close()
    assert ((operation.by_hand or operation.mends) and fault) or list_problems(scene.store) == []
    found = likeness(scene) if operation.by_hand else {}
    untold = Counter[str](), scene.cut_short(), scene.flying()
    requests = list(scene.faults.requests)
    story = Story(before, broken, as_text(scene, result), found, {}, Counter(), *untold, requests, scene.faults.struck)
    scene.goes_on()
    assert fault or list_problems(scene.store) == []
    story.ended, story.runs = lasting(likeness(scene)), scene.runs()
    story.remembered = Counter((run.jobid, run.outcome) for run in scene.store.journal.list_runs())
    client.flushdb()
    return story


def done(scene: Scene, operation: Operation, fault: str) -> tuple[Any, dict[str, str]]:
    """The result of the operation, and what it left behind where it failed; what is done by hand is then done again."""
    try:
        return operation.act(scene), {}
    except Crash:
        assert fault in (BEFORE, AFTER)
    except Unreachable:
        assert fault == LOST
    if not operation.by_hand:
        return None, {}
    broken = likeness(scene)
    if scene.faults.crashed:
        scene.bike = scene.observer
    return operation.act(scene), broken


def likeness(scene: Scene) -> dict[str, str]:
    """Everything under the prefix, with times as so many minutes and a half from the beginning.

    Ended runs are told by what they were: they may be archived or not, and each took its own time.
    """
    keys = scene.store.keys
    state = {key.removeprefix(keys.prefix): as_text(scene, value) for key, value in dump(scene.store).items()}
    past = [
        f"{run.jobid} {run.due} {run.outcome} {run.attempt} {run.stored_result}"
        for run in scene.store.journal.list_runs()
    ]
    for key in (keys.journal, keys.history, keys.counts):
        state.pop(key.removeprefix(keys.prefix), None)
    return state | {"runs": as_text(scene, sorted(past))}


def as_text(scene: Scene, value: Any) -> str:
    if isinstance(value, dict):
        value = sorted(value.items())
    elif isinstance(value, set) or (isinstance(value, list) and value and isinstance(value[0], tuple)):
        value = sorted(value)

    def name(found: re.Match[str]) -> str:
        time = float(found.group())
        if time >= AWAITED:
            return "AWAITED"
        distance = time - scene.began
        # What is far away is no time of the story, but one of a backfill: it does not move with the beginning.
        return found.group() if abs(distance) > FAR_AWAY else f"T{round(distance / 100):+d}"

    return ATTEMPT.sub("…", TIME.sub(name, repr(value)))


def lasting(state: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in state.items() if not PASSING.search(key)}


@pytest.fixture
def short(monkeypatch):
    for name, value in SHORT.items():
        monkeypatch.setattr(name, value)


def positions(operation: Operation, requests: int, fault: str, tier: int) -> Iterable[int]:
    """The numbers of the requests at which the fault strikes.

    In the first tier a long operation has the faults by turns, and in the second with others between them: at each
    request one of three. The third has the rest.
    """
    if fault == BEFORE:
        # A crash before a later request is one after the request before it. By hand the first is just given again.
        return [1] if tier == 1 and not operation.by_hand else []
    if fault == TWICE and tier == 1:
        return []
    # With threads there may be more requests than there were without a fault.
    numbers = count(1) if operation.insists else range(1, requests + 1)
    step = 1 if requests <= FEW and not operation.insists else 5 if requests <= LONG else 9
    if step < 9 and tier == 3:
        return []
    turn = {AFTER: 0, LOST: step // 2, TWICE: -1}[fault]
    return (at for at in numbers if tier == find_tier(at, step, turn, fault))


def find_tier(at: int, step: int, turn: int, fault: str) -> int:
    """Return the tier that has this fault at this request."""
    if at % step == turn % step and fault != TWICE:
        return 1
    return 2 if step < 9 or at % 3 == turn % 3 else 3


@pytest.mark.parametrize(
    "tier", [1, pytest.param(2, marks=pytest.mark.acceptance), pytest.param(3, marks=pytest.mark.nightly)]
)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_a_fault_at_any_round_trip_changes_nothing_in_the_end(client, prefix, short, monkeypatch, operation, tier):
    for name, value in operation.patches.items():
        monkeypatch.setattr(name, value)
    expected = told(client, prefix, operation)
    assert expected.cut_short == Counter()
    for fault in (BEFORE, AFTER, LOST, TWICE):
        for at in positions(operation, len(expected.requests), fault, tier):
            try:
                story = told(client, f"{prefix}n{at}", operation, fault, at)
                compare(story, expected, operation)
                assert not (operation.insists and fault == LOST and story.left)
            except Exception as error:
                error.add_note(f"{operation.name}: {fault}, at request {at} of {expected.requests}")
                raise
            if not story.struck:
                break


def compare(story: Story, expected: Story, operation: Operation) -> None:
    if operation.by_hand:
        # What is one step is done or not done.
        assert operation.steps > 1 or story.broken in ({}, expected.before, expected.done)
        assert (story.result, story.done) == (expected.result, expected.done)
    assert story.ended == expected.ended
    assert story.runs == expected.runs + story.cut_short
    # A run that was in flight when its process died, or was cut off, is remembered as that, even if it was just over.
    more, less = story.remembered - expected.remembered, expected.remembered - story.remembered
    assert {outcome for _, outcome in more} <= {Outcome.LOST, Outcome.CANCELLED}
    assert max(more.values(), default=0) <= 1
    assert {jobid for jobid, _ in more} <= story.left
    assert set(less) <= {(jobid, outcome) for jobid, outcome in less if jobid in story.left - set(story.cut_short)}
    assert max(less.values(), default=0) <= 1


def break_off_anywhere(client: Any, prefix: str, fault: str) -> Iterator[tuple[Scene, str, Callable[[], None]]]:
    """Yield a scene for each request at which the fault strikes, and a last one in which it does not strike any more.

    With the place, in words, and what arms the fault. In the end the invariants hold.
    """
    for at in count(1):
        scene = Scene(client, f"{prefix}n{at}", {})
        yield scene, f"{fault}, at request {at}", partial(scene.faults.arm, fault, at)
        assert list_problems(scene.store) == []
        client.flushdb()
        if not scene.faults.struck:
            return


@pytest.mark.parametrize(
    ("fault", "ready"),
    [
        *((fault, True) for fault in (BEFORE, AFTER, LOST)),
        *(pytest.param(fault, False, marks=pytest.mark.acceptance) for fault in (BEFORE, AFTER, LOST, TWICE)),
    ],
)
def test_no_loss_is_counted_for_those_that_were_lost_together(client, prefix, short, ready, fault):
    """Wherever the dispatcher dies, the next one must not take what is left for a run that had been taken alone."""
    for scene, where, arm in break_off_anywhere(client, prefix, fault):
        scene.fly(*MANY, ago=80)
        set_meanwhile(scene)
        if not ready:
            client.script_flush()
        arm()
        with suppress(Crash, Unreachable):
            one_pass(scene)
        scene.close()
        one_pass(scene, scene.observer)
        states = {state.jobid: state for state in scene.store.questions.inspect(MANY)}
        kept = {jobid: RetryState.parse(state.retry_state) for jobid, state in states.items()}
        queued = ["left:A", "asked:A", "missed:A", "once:A", "last:A"]
        assert [jobid for jobid in MANY if kept[jobid].losses] == [], where
        assert [jobid for jobid in MANY if kept[jobid].alone] == ["left:A", "asked:A", "once:A", "last:A"], where
        assert [jobid for jobid in MANY if states[jobid].queued] == queued, where
        assert scene.flying() == set()
        assert list(scene.store.past.list_failures()) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_what_has_expired_at_a_worker_that_dies_is_skipped_or_run_once(client, prefix, short, fault):
    """A lost run counts as one that has begun: so it is not skipped any more."""
    for scene, where, arm in break_off_anywhere(client, prefix, fault):
        expiring(scene)
        arm()
        with suppress(Crash, Unreachable), scene.worker() as worker:
            for _ in range(5):
                worker.work_one()
        scene.close()
        scene.goes_on()
        states = {state.jobid: state for state in scene.store.questions.inspect([JOB, "b:B", "once:A"])}
        fates = {jobid: scene.runs()[jobid] + state.skipped.get("expired", 0) for jobid, state in states.items()}
        assert fates == dict.fromkeys(states, 1), where
        assert scene.faults.struck or scene.runs() == Counter()


@pytest.mark.parametrize("fault", FAULTS)
def test_each_run_is_told_at_least_once_wherever_its_worker_dies(client, prefix, short, fault):
    """And once only, if nothing happens to it while it is at it."""
    jobids = ["a:A", "b:A", "c:A", "set:A"]
    for scene, where, arm in break_off_anywhere(client, prefix, fault):
        told: Counter[str] = Counter()
        for handler in (scene.handler, scene.later):
            handler.ended = lambda run, end, told=told: told.update([f"{run.jobid} {end.event}"])
        scene.acts["set:A"] = lambda scene=scene: scene.store.jobs.run(["set:A"]) if not scene.over else None
        scene.queue(*jobids)
        arm()
        with suppress(Crash, Unreachable), scene.worker(most=3) as worker:
            for _ in range(5):
                worker.work_one()
        scene.close()
        scene.goes_on()
        later = Worker(scene.store.at(scene.now() + 1000), scene.later, scene.observer.settings)
        next(later.queues.polls())
        later.notifier.notify_others()
        ended = Counter(f"{run.jobid} {run.outcome}" for run in scene.store.journal.list_runs())
        assert ended.total() >= len(jobids)
        assert ended - told == Counter(), where
        # What was being told when its worker died is told once more.
        assert (told - ended).total() <= scene.faults.struck, where
        assert client.exists(scene.store.keys.untold) == 0


def test_a_thread_that_is_cut_off_leaves_the_waiting_one_alone(client, prefix):
    """With several jobs at once it is another thread that waits for the next, on a connection of its own."""
    scene = Scene(client, prefix, {})
    waiting = []

    def cut_off():
        wait_until(scene.blocked)
        waiting.extend(scene.blocked())
        scene.faults.arm(LOST, 1)

    def after_that():
        wait_until(lambda: "STP" in scene.store.questions.inspect(["cut:A"])[0].status)
        waiting.extend(scene.blocked())
        scene.store.signals.halt()

    scene.acts["cut:A"] = cut_off
    scene.queue("cut:A", schedule="NOW")
    with scene.meanwhile(after_that), scene.worker(concurrency=2) as worker:
        worker.work()
    scene.close()
    assert scene.faults.struck
    assert len(waiting) == 2
    assert waiting[0] == waiting[1]
