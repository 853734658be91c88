"""Every state × every verb, straight at the scripts: malformed data first, then the moves, then each move repeated."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from redbike.config.settings import Settings
from redbike.connection.client import aim_at, connect
from redbike.control.jobs import cancel_jobs
from redbike.dispatcher.due_timers import skip_expired
from redbike.errors import LostRun, NoSuchJob, ServerError
from redbike.loop.blackouts import begin_named
from redbike.loop.resuming import resume
from redbike.store.alerts import Change
from redbike.store.backfill import NewBackfill
from redbike.store.blackouts import Blackout
from redbike.store.entries import pack_entry, read_entry
from redbike.store.inspection.fsck import fsck
from redbike.store.jobs import JobToSet, SetMode
from redbike.store.keys import NOTIFIES
from redbike.store.lease import GRACE, LEASE
from redbike.store.links import Message
from redbike.store.lua_loader import load_all
from redbike.store.moving.shard import OLD as ASIDE
from redbike.store.moving.shard import Shard
from redbike.store.next_state import NextState
from redbike.store.quotas import Quota, Whole
from redbike.store.records import Progress
from redbike.store.run import Run
from redbike.store.scripts import Call
from redbike.store.store import Store
from redbike.store.tokens import Token
from redbike.store.upkeep import Rewind
from tests.queries.kept import make_run
from tests.states import (
    DUE,
    JOB,
    LATER,
    NEW,
    NOW,
    OLD,
    QUEUE,
    START,
    STATES,
    TIMEOUT,
    dump,
    end,
    inspect,
    list_problems,
    pause,
    place,
    queue_for,
    take,
)
from tests.verbs import dispatch, run_job, set_job, set_one, skip, survey, take_many

ENTRY = '{"kind": "worker", "host": "web1", "pid": 4711, "queues": ["work-A"], "version": "1"}'
NOBODY = Run(JOB, START, "nobody", START, START + TIMEOUT, 0, 0, OLD, QUEUE)

ENDED = pack_entry("web1:4711:OwnerOf1", [make_run(START)])

ME = "me@here"

Verb = Callable[[Store, Run], Any]


def due_jobs(store: Store) -> list[tuple[str, str, str]]:
    return [(jobid, due, queue_for(jobid)) for jobid, due in survey(store.at(NOW)).due]


def move_due(store: Store, run: Run) -> int:
    # What was seen a moment ago may have changed: a job that is no longer due then must be passed over.
    return dispatch(store.at(NOW), due_jobs(store) or [(JOB, "1050", QUEUE)])


def divide(store: Store) -> None:
    store.quotas.hold(QUEUE, 1, at_once=True)
    store.queue_limits.count_flying(QUEUE)
    held = store.quotas.look(QUEUE, 1)
    whole = Whole(5, (100, 60.0))
    store.quotas.give(QUEUE, 1, Quota(2, 9, 8.0), whole, flying=held.flying, parts="", wanted=True, detail="")


def leave_and_return(store: Store) -> None:
    shard = Shard(store.client, store.keys, store.keys, store.scripts)
    shard.agree("", "1>2 x")
    shard.leave("1>2 x", "they have left")
    shard.enter("1>2 x", ASIDE)
    shard.agree("1>2 x", "1")


def mend(store: Store) -> bool:
    # As it is; what it does to jobs that are not well is in test_repair.py.
    state = store.questions.inspect([JOB], {JOB: [QUEUE]})[0]
    return store.at(NOW).upkeep.repair([(state, state)])[0]


def note(store: Store, run: Run) -> None:
    with store.at(NOW).log.note_when_done("load", "jobs.csv: ") as tally:
        tally.add("added", True)


def archive(store: Store, run: Run) -> None:
    # As `end` marks the run of a job that was unset meanwhile.
    store.client.rpush(store.keys.journal, ENDED if store.questions.read_schedule(JOB) else b"Pu\n" + ENDED)
    list(store.at(NOW).archiver.archive())


def claim(store: Store, run: Run) -> None:
    store.client.hset(store.keys.untold, f"tag{NOTIFIES} {JOB}", f"{START:.6f} 0\n".encode() + ENDED)
    assert len(list(store.at(NOW).outbox.claim_all(["work-A"]))) == 1


def expire(store: Store, run: Run) -> None:
    store.client.zadd(store.keys.timers, {f"expires:{JOB}": START + 50})
    skip_expired(store.at(NOW), Settings(expires=50.0), [f"expires:{JOB}"])


def save(store: Store, run: Run) -> None:
    with suppress(LostRun):
        store.at(NOW).runs.save(run, "5")


def progress(store: Store, run: Run) -> None:
    store.at(NOW).runs.heartbeat([replace(run, reported=Progress(0.5))])


def black_out(store: Store, name: str, begins: bool = False) -> None:
    """Set a blackout from 1080 on, for 100 s, which a dispatcher begins; or only for later."""
    store.at(NOW).blackouts.set([name], Blackout("EVERY:1080@0.0", 100.0, START, "me"), NOW if begins else LATER, "")
    if begins:
        begin_named(store.at(NOW).noted_as(None), [name])


def own_and_unset(store: Store, own: str, group: str) -> None:
    store.jobs.set_groups({JOB: own})
    store.at(NOW).jobs.unset_rows([JOB], group)


def backfill(store: Store) -> None:
    """Begin a backfill of an occurrence that is past."""
    text = store.questions.read_schedule(JOB) or ""
    store.at(NOW).backfills.begin(NewBackfill(JOB, text, "", 0.0, START, [START - 10.0], token="token"))


def end_backfill(store: Store) -> None:
    backfill(store.noted_as(None))
    store.at(NOW).backfills.end(JOB)


TOLD = '{"told":{"late":1.0}}'

VERBS: dict[str, Verb] = {
    "set now": lambda store, run: set_job(store.at(NOW), JOB, "NOW", "now", once=True),
    "set later": lambda store, run: set_job(store.at(NOW), JOB, NEW, LATER),
    "set past": lambda store, run: set_job(store.at(NOW), JOB, NEW, START),
    "set again": lambda store, run: set_job(store.at(NOW), JOB, OLD, LATER),
    "set same": lambda store, run: set_one(store.at(NOW), JobToSet(JOB, OLD, LATER, False, QUEUE, SetMode.KEEP_PLACE)),
    "set stays": lambda store, run: set_one(
        store.at(NOW), JobToSet(JOB, NEW, LATER, False, QUEUE, SetMode.KEEP_SCHEDULE)
    ),
    "set stop": lambda store, run: set_job(store.at(NOW), JOB, "STOP", None),
    "bad": lambda store, run: store.at(NOW).jobs.reject(JOB),
    "backfill": lambda store, run: backfill(store),
    "end backfill": lambda store, run: end_backfill(store),
    "repair backfill": lambda store, run: store.at(NOW).backfills.check(JOB, [], repairs=True),
    "unset": lambda store, run: store.jobs.unset(JOB),
    "set_groups": lambda store, run: store.at(NOW).jobs.set_groups({JOB: "a.csv"}),
    "unset row": lambda store, run: own_and_unset(store, "a.csv", "a.csv"),
    "leave other": lambda store, run: own_and_unset(store, "a.csv", "b.csv"),
    "run": lambda store, run: run_job(store.at(NOW), JOB),
    "cancel": lambda store, run: cancel_jobs(store.at(NOW), [JOB], Settings()),
    "dispatch": move_due,
    "skip": lambda store, run: skip(store.at(NOW), JOB, "1050", OLD, LATER, 1),
    "expire": expire,
    "take": lambda store, run: take(store, "other", now=NOW),
    "heartbeat": lambda store, run: store.at(NOW).runs.heartbeat([run]),
    "save": save,
    "progress": progress,
    "end": lambda store, run: end(store, run, NextState("next", LATER), now=NOW),
    "end ran out": lambda store, run: end(store, run, NextState("next", None), now=NOW),
    "end at once": lambda store, run: end(store, run, NextState("next", "+0"), now=NOW),
    "end stop": lambda store, run: end(store, run, NextState("stop"), now=NOW),
    "end die": lambda store, run: end(store, run, NextState("die", failure={"jobid": JOB}), now=NOW),
    "end unset": lambda store, run: end(store, run, NextState("unset"), now=NOW),
    "end late": lambda store, run: end(store, run, NextState("next", LATER), now=START + TIMEOUT),
    "end overrun": lambda store, run: end(store, run, NextState("die", why="overrun"), now=START + TIMEOUT),
    "end lost": lambda store, run: end(store, run, NextState("due", START, "lost", "0 1"), now=START + LEASE),
    "end stale": lambda store, run: end(store, NOBODY, NextState("unset"), now=NOW),
    "release": lambda store, run: store.at(NOW).runs.release([run]),
    "halt": lambda store, run: store.at(NOW).signals.halt(),
    "probe": lambda store, run: store.questions.find_refusal(),
    "acknowledge": lambda store, run: store.rewinds.acknowledge([Rewind(1.0, 2.0, 3.0)]),
    "token": lambda store, run: store.at(NOW).tokens.add(Token("ci", "read", (), None, NOW, "me", "")),
    "forget": lambda store, run: store.timeline.forget(),
    "advance": lambda store, run: store.timeline.advance(NOW),
    "pause queue": lambda store, run: store.at(NOW).queue_limits.pause(QUEUE, LATER),
    "pause all": lambda store, run: store.at(NOW).queue_limits.pause(""),
    "open": lambda store, run: store.at(NOW).queue_limits.open(QUEUE),
    "limit": lambda store, run: store.at(NOW).queue_limits.limit(QUEUE, at_once=1, rate=(1, 60)),
    "quota": lambda store, run: divide(store.at(NOW)),
    "rebuild_slots": lambda store, run: store.at(NOW).queue_limits.rebuild_slots(QUEUE, [JOB]),
    "reserve": lambda store, run: store.at(NOW).queue_limits.reserve(QUEUE, run.tag, JOB, 10.0),
    "move": lambda store, run: store.at(NOW).misplaced.move(QUEUE, {JOB: "work-B"}),
    "repair": lambda store, run: mend(store),
    "hold": lambda store, run: store.at(NOW).upkeep.repair_tag(run.tag, [JOB]),
    "pause": lambda store, run: pause(store, NOW),
    "pause until": lambda store, run: pause(store, NOW, LATER),
    "pause every": lambda store, run: black_out(store, f"job:{JOB}"),
    "pause queue every": lambda store, run: black_out(store, f"queue:{QUEUE}"),
    "begin": lambda store, run: black_out(store, f"job:{JOB}", begins=True),
    "begin of all": lambda store, run: black_out(store, "queue:", begins=True),
    "resume every": lambda store, run: store.at(NOW).blackouts.end([f"job:{JOB}"], ""),
    "resume": lambda store, run: resume(store.at(NOW), Settings(), [JOB]),
    "resume late": lambda store, run: resume(store.at(NOW + 50), Settings(grace=10.0), [JOB]),
    "open_group": lambda store, run: store.at(NOW).groups.open("import-7"),
    "relocate": lambda store, run: leave_and_return(store),
    "subscribe": lambda store, run: store.at(NOW).links.subscribe(1, [JOB]),
    "deliver": lambda store, run: store.at(NOW).links.deliver(1, [Message("1", "ok", "1.0", "far:A")]),
    "confirm": lambda store, run: store.at(NOW).links.confirm(1, "1", [JOB]),
    "note": note,
    "register": lambda store, run: store.at(NOW).workers.register("OwnerOf1", ENTRY),
    "renew": lambda store, run: store.at(NOW).workers.renew("OwnerOf1"),
    "unregister": lambda store, run: store.at(NOW).workers.unregister("OwnerOf1"),
    "archive": archive,
    "claim": claim,
    "watch": lambda store, run: list(store.alerts.watch_all()),
    "note hosts": lambda store, run: store.at(NOW).hosts.note("job:A@all", {"web1": NOW}),
    "alert": lambda store, run: store.at(NOW).alerts.alert([Change(f"job:{JOB}", None, TOLD, ["a line"])]),
}
# What people do with these is noted in the log.
NOTED = {name: name.partition(" ")[0] for name in VERBS if name.partition(" ")[0] in ("set", "unset", "run", "cancel")}
NOTED |= {name: name.partition(" ")[0] for name in ("halt", "pause", "pause until", "pause queue", "pause all")}
NOTED |= dict.fromkeys(("pause every", "pause queue every", "begin", "begin of all"), "pause --every")
NOTED |= {"backfill": "backfill", "end backfill": "cancel"}
NOTED |= {
    "token": "token",
    "resume": "resume",
    "resume late": "resume",
    "limit": "limit",
    "note": "load",
    "quota": "limit",
}
OF_NO_JOB = ("halt", "token", "pause queue", "pause all", "pause queue every", "begin of all", "limit", "note", "quota")
# What was asked for explicitly is noted also where it changes nothing: the job has that run already.
NO_CHANGE = {("run", "queue"), ("run", "queue_and_paused")}
NO_CHANGE |= {("set again", state) for state in ("queue", "flight", "flight_and_paused")}

# For each verb: where the job is afterwards, in the order of STATES. "=" is where it was, "!" that there is no such job.
# fmt: off
TABLE = {
    "set now":     ("queue",    "queue",    "queue",    "queue",    "flight+owed",     "flight+owed",     "flight+owed",     "flight+owed",     "flight+owed",     "queue",    "queue", "queue", "held", "flight+held", "flight+held", "queue"),
    "set later":   ("timeline", "timeline", "timeline", "timeline", "flight+timeline", "flight+timeline", "flight+timeline", "flight+timeline", "flight+timeline", "timeline", "timeline", "timeline", "held", "flight+held", "flight+held", "held"),
    "set past":    ("queue",    "queue",    "queue",    "queue",    "flight+missed",   "flight+missed",   "flight+missed",   "flight+missed",   "flight+missed",   "queue",    "queue", "queue", "held", "flight+missed", "flight+missed", "queue"),
    "set again":   ("timeline", "timeline", "timeline", "queue",    "flight",          "flight+timeline", "flight+timeline", "flight+timeline", "flight+timeline", "timeline", "timeline", "timeline", "held", "flight", "flight+held", "queue"),
    "set same":    ("timeline", "timeline", "=",        "=",        "=",               "flight+timeline", "flight+timeline", "flight+timeline", "flight+timeline", "timeline", "timeline", "=", "=", "=", "flight+held", "="),
    "set stays":   ("timeline", "timeline", "=",        "=",        "=",               "=",               "=",               "=",               "flight+timeline", "=",        "=", "=", "=", "=", "=", "="),
    "set stop":    ("STP",      "STP",      "STP",      "STP",      "flight",          "flight",          "flight",          "flight",          "flight",          "STP",      "STP", "STP", "STP", "flight", "flight", "STP"),
    "bad":         ("BAD",      "BAD",      "=",        "=",        "=",               "=",               "=",               "=",               "=",               "=",        "=", "=", "=", "=", "=", "="),
    "unset":       ("!",        "nothing",  "nothing",  "nothing",  "flight",          "flight",          "flight",          "flight",          "!",               "nothing",  "nothing", "nothing", "nothing", "flight", "flight", "nothing"),
    "unset row":   ("=",        "=",        "nothing",  "nothing",  "flight",          "flight",          "flight",          "flight",          "=",               "nothing",  "nothing", "nothing", "nothing", "flight", "flight", "nothing"),
    "run":         ("!",        "!",        "queue",    "queue",    "flight+owed",     "flight+owed",     "flight+owed",     "flight+owed",     "!",               "queue",    "queue", "queue", "queue", "flight+owed", "flight+owed", "queue"),
    "cancel":      ("=",        "=",        "timeline", "timeline", "flight",          "flight+timeline", "flight+timeline", "flight+owed",     "=",               "=",        "=", "timeline", "=", "=", "=", "held"),
    "dispatch":    ("=",        "=",        "queue",    "=",        "=",               "flight",          "flight+owed",     "=",               "=",               "=",        "=", "queue", "=", "=", "=", "="),
    "skip":        ("=",        "=",        "timeline", "=",        "=",               "=",               "=",               "=",               "=",               "=",        "=", "=", "=", "=", "=", "="),
    "expire":      ("=",        "=",        "=",        "timeline", "=",               "=",               "=",               "=",               "=",               "=",        "=", "=", "=", "=", "=", "held"),
    "take":        ("=",        "=",        "=",        "flight",   "=",               "=",               "=",               "=",               "=",               "=",        "=", "=", "=", "=", "=", "flight"),
    "end":         ("=",        "=",        "=",        "=",        "timeline",        "timeline",        "timeline",        "queue",           "nothing",         "=",        "=", "=", "=", "held", "held", "="),
    "end ran out": ("=",        "=",        "=",        "=",        "STP",             "timeline",        "timeline",        "queue",           "nothing",         "=",        "=", "=", "=", "held", "held", "="),
    "end at once": ("=",        "=",        "=",        "=",        "queue",           "timeline",        "timeline",        "queue",           "nothing",         "=",        "=", "=", "=", "held", "held", "="),
    "end stop":    ("=",        "=",        "=",        "=",        "STP",             "timeline",        "timeline",        "queue",           "nothing",         "=",        "=", "=", "=", "STP", "held", "="),
    "end die":     ("=",        "=",        "=",        "=",        "DIE",             "timeline",        "timeline",        "queue",           "nothing",         "=",        "=", "=", "=", "DIE", "held", "="),
    "end unset":   ("=",        "=",        "=",        "=",        "nothing",         "timeline",        "timeline",        "queue",           "nothing",         "=",        "=", "=", "=", "nothing", "held", "="),
    "end overrun": ("=",        "=",        "=",        "=",        "DIE",             "timeline",        "timeline",        "queue",           "nothing",         "=",        "=", "=", "=", "DIE", "held", "="),
    "end lost":    ("=",        "=",        "=",        "=",        "queue",           "timeline",        "timeline",        "queue",           "nothing",         "=",        "=", "=", "=", "held", "held", "="),
    "release":     ("=",        "=",        "=",        "=",        "queue",           "=",               "=",               "=",               "nothing",         "=",        "=", "=", "=", "held", "=", "="),
    "pause":       ("=",        "=",        "held",     "held",     "=",               "flight+held",     "flight+held",     "=",               "=",               "=",        "=", "held", "=", "=", "=", "="),
    "pause until": ("=",        "=",        "held",     "held",     "=",               "flight+held",     "flight+held",     "=",               "=",               "=",        "=", "held", "=", "=", "=", "="),
    "begin":       ("=",        "=",        "held",     "held",     "=",               "flight+held",     "flight+held",     "=",               "=",               "=",        "=", "held", "=", "=", "=", "="),
    "resume":      ("=",        "=",        "=",        "=",        "=",               "=",               "=",               "=",               "=",               "=",        "=", "=", "queue", "=", "flight", "="),
    "resume late": ("=",        "=",        "=",        "=",        "=",               "=",               "=",               "=",               "=",               "=",        "=", "=", "timeline", "=", "flight", "="),
}
# fmt: on
# All other verbs leave every job where it is.
TABLE |= {verb: ("=",) * len(STATES) for verb in VERBS if verb not in TABLE}
# Cells that move a job; those that do not are tried verb by verb.
MOVES = [
    pytest.param(state, verb, expected, id=f"{state}-{verb}")
    for verb, row in TABLE.items()
    for state, expected in zip(STATES, row, strict=True)
    if expected != "="
]
PLAIN = ["timeline", "queue", "flight", "held"]
# The states in which a verb is tried where it depends on little else than the verb.
TRIED = {verb: PLAIN if len({*row}) > 1 else ["flight", "held"] for verb, row in TABLE.items()}
# A verb that moves no job at all is tried in a few states.
STAYS = {
    verb: [state for state, to in zip(STATES, row, strict=True) if to == "="]
    if len({*row}) > 1
    else [*PLAIN, "dead", "flight_and_held"]
    for verb, row in TABLE.items()
}


@pytest.fixture
def prefix(prefix):
    return f"{{{prefix}}}"


@pytest.fixture(params=["server", pytest.param("cluster", marks=pytest.mark.nightly)])
def client(request, client, prefix):
    """All is tried on a server, and at night on the master of the slot in a cluster."""
    if request.param == "server":
        yield client
        return
    with connect(request.getfixturevalue("cluster").url) as master:
        aim_at(master, prefix)
        master.flushall()
        yield master


@pytest.fixture
def sent(store):
    """Every script that is sent."""
    calls: list[Call] = []
    run_meanwhile = store.scripts.run_meanwhile

    def record(given: Iterable[Call]) -> Any:
        given = list(given)
        calls.extend(call for call in given if call.verb != "inspect")
        return run_meanwhile(given)

    store.scripts.run_meanwhile = record
    yield calls
    store.scripts.run_meanwhile = run_meanwhile


@contextmanager
def cell(store: Store, state: str, verb: str) -> Iterator[Run]:
    """An empty server with a job in `state`; a failure in the block names the cell."""
    store.client.flushdb()
    try:
        yield STATES[state](store) or NOBODY
    except Exception as error:
        error.add_note(f"state {state}, verb {verb}")
        raise


def test_the_table_has_every_verb_and_every_script_a_verb(store, sent):
    assert set(TABLE) == set(VERBS)
    for verb in VERBS.values():
        queued = STATES["queue"](store)
        verb(store.noted_as(ME), queued or NOBODY)
    changing = {verb for verb, script in load_all().items() if "no-writes" not in script.text.partition("\n")[0]}
    assert {call.verb for call in sent} & changing == changing


@pytest.mark.parametrize(("state", "verb", "expected"), MOVES)
def test_a_verb_moves_a_job_where_the_table_says(store, sent, state, verb, expected):
    move(store, sent, state, verb, expected)


@pytest.mark.parametrize("verb", STAYS)
def test_a_verb_moves_no_job_of_which_the_table_says_nothing(store, sent, verb):
    for state in STAYS[verb]:
        move(store, sent, state, verb, "=")


@pytest.mark.acceptance
@pytest.mark.parametrize("client", ["cluster"], indirect=True)
def test_each_verb_does_all_that_it_can_do_on_a_cluster(store, sent):
    for verb, row in TABLE.items():
        for expected, state in dict(zip(row, STATES, strict=True)).items():
            move(store, sent, state, verb, expected)


def move(store: Store, sent: list[Call], state: str, verb: str, expected: str) -> None:
    with cell(store, state, verb) as run:
        before, untouched = place(inspect(store)), dump(store)
        sent.clear()
        if expected == "!":
            with pytest.raises(NoSuchJob):
                VERBS[verb](store, run)
            assert dump(store) == untouched
            return
        VERBS[verb](store, run)
        assert place(inspect(store)) == (before if expected == "=" else expected)
        settled = dump(store)
        assert settled == untouched or list_problems(store) == []

        # The same request again, as after a lost reply, moves nothing.
        for call in list(sent):
            if call.verb != "take":
                repeat(store, call)
        assert dump(store) == settled


def repeat(store: Store, call: Call) -> None:
    try:
        store.scripts.run(call)
    except NoSuchJob:
        # It was unset by the first.
        assert call.verb == "unset"


@pytest.mark.parametrize("state", STATES)
def test_each_state_from_which_a_verb_moves_is_sound(store, state):
    STATES[state](store)
    assert list(fsck(store)) == []


@pytest.mark.parametrize("verb", NOTED)
def test_what_a_person_changes_is_noted_once_in_the_same_step(store, sent, verb):
    for state in [state for state, to in zip(STATES, TABLE[verb], strict=True) if to != "=" or state in PLAIN]:
        with cell(store, state, verb) as run:
            before = dump(store)
            sent.clear()
            with suppress(NoSuchJob):
                VERBS[verb](store.noted_as(ME), run)
            calls, after, noted = list(sent), dump(store), list(store.log.list_entries())
            after.pop(store.keys.log, None)
            subject = "" if verb in OF_NO_JOB else JOB
            is_noted = after != before or verb == "note" or (verb, state) in NO_CHANGE
            assert [(entry.who, entry.action, entry.jobid) for entry in noted] == (
                [(ME, NOTED[verb], subject)] if is_noted else []
            )
            for call in calls:
                repeat(store, call)
            assert list(store.log.list_entries()) == noted
        # All else is as if a program had done it, and that is not noted.
        with cell(store, state, verb) as run:
            with suppress(NoSuchJob):
                VERBS[verb](store, run)
            assert without_real_times(dump(store)) == without_real_times(after)


def without_real_times(state: dict[str, Any]) -> str:
    """`unset` reads the clock of the server, and what a run took is measured."""
    known = {key: list(map(read_entry, value)) if key.endswith("-journal") else value for key, value in state.items()}
    return re.sub(r"\b\d{10}(\.\d+)?\b|packed=b(['\"]).*?\2(?=, worker=)", "now", repr(known))


@pytest.mark.parametrize("verb", sorted(VERBS.keys() - NOTED.keys()))
def test_what_a_loop_or_fsck_does_is_never_noted(store, verb):
    for state in TRIED[verb]:
        with cell(store, state, verb) as run:
            VERBS[verb](store.noted_as(ME), run)
            assert list(store.log.list_entries()) == []


@pytest.mark.parametrize("verb", VERBS)
def test_a_key_of_a_wrong_type_is_refused_before_anything_is_written(store, sent, verb, client):
    for state in TRIED[verb]:
        with cell(store, state, verb) as run:
            kept = dump_all(store)
            sent.clear()
            VERBS[verb](store.noted_as(ME), run)
            for call in [call for call in sent if call.verb not in ("survey", "inspect")]:
                for key in call.keys:
                    restore_all(store, kept, key)
                    is_refused = outcome_of(store, call) == "WRONGTYPE"
                    # What it does not need to look at is none of its business.
                    assert client.type(key) == b"stream", key
                    assert not is_refused or dump_all(store, key) == without(kept, key), key


def outcome_of(store: Store, call: Call) -> str:
    try:
        return str(store.scripts.run(call)[0])
    except ServerError as error:
        return "WRONGTYPE" if "WRONGTYPE" in str(error) else str(error)


def dump_all(store: Store, wrong: str = "") -> dict[str, bytes]:
    """All keys but `wrong`, as the server packs them."""
    keys = [key.decode() for key in store.client.scan_iter(match=f"{store.keys.prefix}-*", count=1000)]
    with store.client.pipeline(transaction=False) as pipeline:
        for key in keys:
            pipeline.dump(key)
        return without(dict(zip(keys, pipeline.execute(), strict=True)), wrong)


def without(kept: dict[str, bytes], wrong: str) -> dict[str, bytes]:
    return {key: value for key, value in kept.items() if key != wrong}


def restore_all(store: Store, kept: dict[str, bytes], wrong: str) -> None:
    """Bring back what was dumped, but for the key `wrong`, which is a stream then: no script expects one."""
    with store.client.pipeline(transaction=False) as pipeline:
        pipeline.flushdb()
        for key, value in without(kept, wrong).items():
            expires = key.startswith(store.keys.inflight_base)
            pipeline.restore(key, int(TIMEOUT * 1000) if expires else 0, value)
        pipeline.xadd(wrong, {"wrong": "type"})
        pipeline.execute()


def test_a_run_carries_everything_that_its_worker_needs_also_if_it_is_taken_again(store, client):
    set_job(store.at(START), JOB, OLD, DUE - 100)
    set_job(store.at(START), "second:A", OLD, START)
    before = store.timeline.read_clock()
    run = take(store, "mine")
    assert run == Run(JOB, DUE - 100, "mine", START, START + TIMEOUT, 0, 0, OLD, QUEUE)
    assert run.attempt == 1
    assert take(store, "mine", repeated=True) == run
    assert take(store, "other").jobid == "second:A"
    key = store.keys.inflight(run.tag)
    assert client.get(key).split() == [JOB.encode()]
    assert before - 0.1 < client.pexpiretime(key) / 1000 - TIMEOUT < store.timeline.read_clock()
    client.delete(key)
    assert end(store, run, NextState("next", LATER), now=NOW)[:2] == ("overrun", ""), "without it the run is over"


def test_a_live_run_is_not_taken_for_lost(store):
    run = STATES["flight"](store)
    almost = START + LEASE - 0.001
    assert end(store, run, NextState("due", START, "lost"), now=almost)[:2] == ("alive", "")
    assert store.at(almost).runs.heartbeat([run]) == ["ok"]
    assert end(store, run, NextState("due", START, "lost"), now=START + LEASE)[:2] == ("alive", "")
    assert survey(store.at(almost + LEASE - 0.001)).lost == []
    assert [lost.tag for lost in survey(store.at(almost + LEASE)).lost] == [run.tag]


def test_no_heartbeat_carries_a_run_past_its_deadline(store):
    run = STATES["flight"](store)
    for now, word in ((START + TIMEOUT - 0.001, "ok"), (START + TIMEOUT, "overrun")):
        assert store.at(now).runs.heartbeat([run]) == [word]
        assert inspect(store).lease == START + TIMEOUT + GRACE


def test_a_place_computed_from_an_old_schedule_is_refused(store):
    run = STATES["flight"](store)
    set_job(store.at(NOW), JOB, NEW, START)
    first = store.at(NOW).runs.end(run, NextState("next", LATER))
    assert first[:2] == store.at(NOW).runs.end(run, NextState("stop"))[:2] == ("changed", NEW)
    assert place(inspect(store)) == "flight+missed"
    set_job(store.at(NOW), JOB, "EVERY:9@0.0", START)
    again = store.at(NOW).runs.end(replace(run, schedule=first.detail), NextState("next", LATER, left=first.left))
    assert again == ("changed", "EVERY:9@0.0", first.left, "")


@pytest.mark.parametrize(
    ("state", "verb", "reason"),
    [
        ("queue", "set later", "withdrawn"),
        ("queue", "set stop", "withdrawn"),
        ("flight_and_owed", "set later", "withdrawn"),
        ("flight_and_timeline", "dispatch", "running"),
        ("timeline", "skip", "missed"),
        ("flight", "cancel", "cancelled"),
    ],
)
def test_an_occurrence_that_is_not_run_is_counted_and_a_count_that_is_none_changes_nothing(
    store, client, state, verb, reason
):
    with cell(store, state, verb) as run:
        VERBS[verb](store, run)
        assert inspect(store).skipped == {reason: 1}
        assert store.counts.read()[f"skipped:{reason}:"] == 1
    with cell(store, state, verb) as run:
        client.hset(store.keys.skipped, f"{reason}:{JOB}", "many")
        before = dump(store)
        with pytest.raises(ServerError):
            VERBS[verb](store, run)
        assert dump(store) == before


def test_a_queue_whose_turn_it_is_not_is_left_alone(store, client):
    STATES["queue"](store)
    set_job(store.at(START), "other:B", OLD, START)
    queues = [("work-B", 5.0), (QUEUE, TIMEOUT)]
    [run] = take_many(store.at(NOW), queues, [2, 2], "mine", 9)
    assert (run.jobid, run.queue, run.deadline) == (JOB, QUEUE, NOW + TIMEOUT)
    assert client.llen(store.keys.queue("work-B")) == 1


def test_batches_are_moved_in_order_of_due_time(store):
    due = {f"{n}:A": START + (7 * n) % 100 for n in range(100)}
    for jobid, moment in due.items():
        set_job(store.at(START - 1), jobid, OLD, moment)
    assert dispatch(store.at(NOW), due_jobs(store)) == 100
    taken = [take(store, f"t{n}", now=NOW).jobid for n in range(100)]
    assert taken == sorted(due, key=due.get)
    assert take(store, "none", now=NOW) == "empty"


def test_entries_of_an_older_version_are_adopted_once_and_those_of_no_job_thrown_away(store, client):
    # redbike 0.13.1 pushed ids without a record of them.
    client.hset(store.keys.schedules, JOB, "CONTINUE")
    client.hset(store.keys.statuses, mapping={JOB: "ENQ:1381720578", "nobody:A": "ENQ:1381720578"})
    client.lpush(store.keys.queue(QUEUE), JOB, JOB, "gone:A", "nobody:A")
    run = take(store, "mine", now=NOW)
    assert (run.jobid, run.due) == (JOB, NOW)
    assert take(store, "other", now=NOW) == "empty"
    assert [place(state) for state in store.questions.inspect([JOB, "nobody:A"])] == ["flight", "nothing"]


def test_an_entry_that_is_adopted_is_the_run_for_which_the_job_was_on_the_timeline(store, client):
    STATES["timeline"](store)
    client.lpush(store.keys.queue(QUEUE), JOB)
    assert take(store).jobid == JOB
    assert place(inspect(store)) == "flight"


def test_a_halt_is_seen_by_those_that_were_there_before_it(store):
    STATES["queue"](store)
    control = store.signals.read().text
    store.at(NOW).signals.halt()
    assert take(store, "old", control=control) == "halted"
    assert isinstance(take(store, "new", control=store.signals.read().text), Run)


def test_failures_are_bounded_and_the_oldest_go_first(client, prefix):
    store = Store(client, prefix, queue_for, failures_limit=3)
    for n in range(5):
        jobid = f"{n}:A"
        set_job(store.at(NOW + n), jobid, "NOW", "now", once=True)
        run = take(store, f"t{n}", now=NOW + n)
        store.at(NOW + n).runs.end(run, NextState("die", failure={"jobid": jobid}))
        assert client.hlen(store.keys.failures) == client.zcard(store.keys.failure_times) == min(n + 1, 3)
    assert [failure["jobid"] for failure in store.past.list_failures()] == ["2:A", "3:A", "4:A"]


def test_requests_that_are_remembered_are_bounded(client, store):
    client.zadd(store.keys.requests, {f"r{n}": n for n in range(10_500)})
    STATES["queue"](store)
    assert client.zcard(store.keys.requests) == 10_000


def test_a_job_whose_first_occurrence_has_passed_on_the_way_is_not_set(store):
    """How long a client takes is no reason to run for an instant before the job was set."""
    job = JobToSet(JOB, OLD, START + 1, False, QUEUE)
    [refused] = store.at(START + 2).jobs.set([job], from_now=True)
    assert (refused.why, store.questions.read_schedule(JOB)) == ("due", None)
    assert store.at(START + 2).jobs.set([job]) == [], "it counts from an earlier instant, as a file of times may say"


@pytest.mark.timeout(20, func_only=True)
@pytest.mark.parametrize("record", ["garbage", "soon work-A", "1050", "", " "])
def test_a_damaged_record_of_a_queue_holds_nobody_up(store, client, record):
    STATES["queue"](store)
    for key in (store.keys.queued, store.keys.retry_states):
        client.hset(key, JOB, record)
    run = take(store, "other", now=NOW)
    assert (run.jobid, run.due, run.failures, run.losses) == (JOB, NOW, 0, 0)
    assert end(store, run, NextState("next", LATER), now=NOW)[:2] == ("ok", "timeline")
    assert list_problems(store) == []
    client.hset(store.keys.queued, JOB, record)
    set_job(store.at(NOW), JOB, NEW, LATER)
    assert inspect(store).timeline == LATER
    client.hset(store.keys.queued, JOB, record)
    store.jobs.unset(JOB)
    assert place(inspect(store)) == "nothing"


@pytest.mark.timeout(20, func_only=True)
@pytest.mark.parametrize("record", ["garbage", "a b c d e f", "1 2 3 4 5 6 7 8", ""])
def test_a_damaged_record_of_a_run_holds_nobody_up(store, client, record):
    STATES["flight"](store)
    client.hset(store.keys.running, JOB, record)
    assert survey(store.at(LATER)).lost in ([], [Run(JOB, 4.0, "1", 2.0, 3.0, 5, 6, OLD, "8")])
    set_job(store.at(NOW), JOB, NEW, LATER)
    run_job(store.at(NOW), JOB)
    store.jobs.unset(JOB)
    assert inspect(store).schedule is None


@pytest.mark.parametrize("verb", ["set now", "run"])
def test_a_request_that_comes_once_more_after_its_run_starts_no_other(store, sent, verb):
    STATES["stopped"](store)
    sent.clear()
    VERBS[verb](store, NOBODY)
    store.at(NOW).runs.end(take(store, now=NOW), NextState("next", None))
    settled = dump(store)
    repeat(store, sent[0])
    assert dump(store) == settled


# A job that is set again


@pytest.mark.parametrize("state", ["timeline", "queue", "flight", "waiting_to_retry"])
def test_a_job_that_is_set_again_unchanged_is_not_touched(store, state):
    STATES[state](store)
    settled = dump(store)
    for due in (NOW, LATER, None):
        set_one(store.at(NOW), JobToSet(JOB, OLD, due, False, QUEUE, SetMode.KEEP_PLACE))
    set_one(store.at(NOW), JobToSet(JOB, "EVERY:100@7.5", NOW, False, QUEUE, SetMode.KEEP_PLACE, anchor_span=(10, 0)))
    assert dump(store) == settled


def test_an_unchanged_job_that_has_failed_for_good_rests_if_it_is_to(store):
    STATES["dead"](store)
    settled = dump(store)
    set_one(store.at(NOW), JobToSet(JOB, OLD, LATER, False, QUEUE, SetMode.KEEP))
    assert dump(store) == settled
    set_one(store.at(NOW), JobToSet(JOB, OLD, LATER, False, QUEUE, SetMode.KEEP_PLACE))
    assert place(inspect(store)) == "timeline"


@pytest.mark.parametrize(
    ("text", "span", "before"),
    [
        ("EVERY:7@0.0", (8, 0), OLD),
        ("EVERY:100@0.0x", (10, 1), OLD),
        ("EVERY:1000@0.0", (11, 0), OLD),
        ("DTSTART:9\nRRULE:1", (8, 8), "DTSTART:0\nRRULE:2\nRRULE:1"),
    ],
)
def test_what_differs_in_more_than_its_anchor_has_changed(store, text, span, before):
    STATES["timeline"](store)
    store.client.hset(store.keys.schedules, JOB, before)
    set_one(store.at(NOW), JobToSet(JOB, text, LATER, False, QUEUE, SetMode.KEEP_PLACE, anchor_span=span))
    assert (inspect(store).schedule, inspect(store).timeline) == (text, LATER)


def test_more_jobs_than_a_command_has_arguments_are_set_in_one_step(store, client):
    jobids = [f"{n}:A" for n in range(4050)]
    for due, places in ((LATER, (4050, 0)), (NOW, (0, 4050))):
        store.at(NOW).jobs.set([JobToSet(jobid, OLD, due, False, QUEUE) for jobid in jobids], step=len(jobids))
        queue = client.lrange(store.keys.queue(QUEUE), 0, -1)
        assert (client.zcount(store.keys.timeline, LATER, LATER), len(queue)) == places
    assert list(fsck(store)) == []
    assert [each.decode() for each in reversed(queue)] == jobids


# Failures


@pytest.mark.parametrize(
    ("kept", "due", "attempt"),
    [
        *((kept, NOW, 1) for kept in ("garbage", "[]", '{"due": "soon"}', '{"due": -5}', '{"due": 1e300}')),
        *((f'{{"due": {START}, "attempt": {tries}}}', START, 2) for tries in ("1e300", "0", "null", '"many"')),
    ],
)
def test_a_failure_that_cannot_be_read_does_not_matter_to_an_explicit_run(store, client, kept, due, attempt):
    STATES["dead"](store)
    client.hset(store.keys.failures, JOB, kept)
    run_job(store.at(NOW), JOB)
    assert list_problems(store) == []
    run = take(store, "mine", now=NOW)
    assert (run.due, run.attempt) == (due, attempt)


# What has changed since a dispatcher looked


def test_a_skip_of_the_last_occurrence_stops_the_job(store):
    STATES["timeline"](store)
    assert skip(store.at(NOW), JOB, "1050", OLD, None, 1)
    assert place(inspect(store)) == "STP"
    assert list_problems(store) == []


@pytest.mark.parametrize("state", ["timeline", "flight_and_timeline"])
def test_a_skip_computed_from_an_old_schedule_changes_nothing(store, state):
    STATES[state](store)
    set_job(store.at(START), JOB, NEW, DUE)
    before = dump(store)
    assert not skip(store.at(NOW), JOB, f"{DUE:g}", OLD, LATER, 1)
    assert dump(store) == before


def test_a_job_that_was_postponed_since_the_survey_is_not_moved(store):
    STATES["timeline"](store)
    due = due_jobs(store)
    set_job(store.at(NOW), JOB, OLD, LATER)
    assert dispatch(store.at(NOW), due) == 0
    assert place(inspect(store)) == "timeline"


def test_a_queued_job_that_another_hand_put_on_the_timeline_is_not_queued_twice(store, client):
    STATES["queue"](store)
    client.zadd(store.keys.timeline, {JOB: DUE})
    assert dispatch(store.at(NOW), due_jobs(store)) == 0
    assert list_problems(store) == []


# Who is woken


@pytest.mark.parametrize(
    ("state", "verb"),
    [
        ("unknown", "set now"),
        ("timeline", "run"),
        ("timeline", "dispatch"),
        ("flight", "end at once"),
        ("flight", "end lost"),
        ("flight", "release"),
    ],
)
def test_whatever_puts_a_job_into_a_queue_wakes_a_worker(store, client, state, verb):
    run = STATES[state](store)
    client.delete(store.keys.wake(QUEUE))
    VERBS[verb](store, run or NOBODY)
    assert client.llen(store.keys.wake(QUEUE)) == 1


def test_a_worker_that_leaves_jobs_behind_wakes_the_next_one(store, client):
    for n in range(2):
        set_job(store.at(START), f"{n}:A", OLD, START)
    for left in (1, 0):
        client.delete(store.keys.wake(QUEUE))
        take(store, f"tag{left}", now=NOW)
        assert client.llen(store.keys.wake(QUEUE)) == left


@pytest.mark.parametrize(("state", "verb"), [("unknown", "set later"), ("flight", "end")])
@pytest.mark.parametrize("other", [LATER + 1, LATER - 1])
def test_a_job_that_is_due_before_all_others_wakes_a_dispatcher(store, client, state, verb, other):
    run = STATES[state](store)
    set_job(store.at(START), "other:A", OLD, other)
    client.delete(store.keys.wakeup)
    VERBS[verb](store, run or NOBODY)
    assert client.llen(store.keys.wakeup) == (other > LATER)


def test_the_soonest_of_several_that_are_set_together_wakes_a_dispatcher(store, client):
    set_job(store.at(START), "other:A", OLD, LATER)
    client.delete(store.keys.wakeup)
    dues = {"first:A": LATER + 1, "second:A": LATER - 1, "third:A": LATER + 2}
    store.at(NOW).jobs.set([JobToSet(jobid, OLD, due, False, QUEUE) for jobid, due in dues.items()])
    assert client.llen(store.keys.wakeup) == 1


def test_there_is_one_token_however_much_there_is_to_wake_for(store, client):
    for n in range(3):
        set_job(store.at(START), f"{n}:A", OLD, START)
        set_job(store.at(START), f"later{n}:A", OLD, LATER - n)
        store.at(START).signals.halt()
    assert [client.llen(key) for key in (store.keys.wake(QUEUE), store.keys.wakeup, store.keys.halt)] == [1, 1, 1]
