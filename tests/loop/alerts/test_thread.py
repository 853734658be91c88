"""What people are told, on a real server: by dispatchers that look in turns. Time is an argument."""

import json

import pytest

from redbike.config.settings import Settings
from redbike.connection.client import connect
from redbike.control.jobs import cancel_jobs
from redbike.loop.alerts.conditions import MOST_FAILING, Condition, find_conditions
from redbike.loop.alerts.sender import format_alert
from redbike.loop.alerts.thread import CLAIM_TIMEOUT, GATHER, PAUSES, SPACING, Alerting
from redbike.store.alerts import MOST_LINES, Change, Message
from redbike.store.enums import Alert, Skip
from redbike.store.inspection.fsck import fsck
from redbike.store.next_state import NextState
from redbike.store.store import Store
from tests.queries.kept import register
from tests.servers import free_ports
from tests.verbs import dispatch, set_job, take_one
from tests.waiting import wait_until

DAY = 86400.0
NOON = 20_000 * DAY + DAY / 2
EVERY = 3600.0
QUEUE = "work-A"


class World:
    """Two dispatchers that look in turns, and a worker, at instants that are given."""

    def __init__(self, store, url):
        self.store, self.url = store, url
        self._made = [self._make(is_dispatcher) for is_dispatcher in (True, True, False)]
        self.worker = self._made[2]

    def _make(self, is_dispatcher=True):
        return Alerting(self.store, Settings(prefix=self.store.keys.prefix, alert=self.url), is_dispatcher)

    def at(self, now, number):
        each = self._made[number]
        each._store = each._missed._store = self.store.at(now)
        return each

    def look(self, now, wait=GATHER):
        """All look at an instant, and once more when what is told then is sent."""
        register(self.store, "dispatcher", now=now)
        for moment in (now, now + wait):
            for number in (0, 1):
                self.at(moment, number).look()

    def restart(self, number):
        self._made[number] = self._make()


@pytest.fixture
def world(store, pinged):
    return World(store, f"{pinged.url}/alert")


def told(pinged):
    """What each message says: the alert, and the job."""
    found = [[json.loads(line) for line in body.decode().splitlines()] for _, body in pinged.posted]
    pinged.posted.clear()
    return [[(each["alert"], each.get("jobid", "")) for each in message] for message in found]


def fail(bike, *jobids, now=NOON, place="next"):
    """Let a run of each job fail, which is set if it is not there yet."""
    for jobid in jobids:
        if not bike.store.questions.read_schedule(jobid):
            bike.set(jobid, "EVERY:1h")
        bike.run(jobid)
        run = take_one(bike.store.at(now), [(QUEUE, 1e6)], f"tag{jobid}")
        failure = {"jobid": run.jobid, "due": now, "error": "disk full"}
        bike.store.at(now).runs.end(run, NextState(place, NOON * 2, failure=failure, outcome="failed"))


def test_a_job_that_fails_stops_and_is_well_again(world, bike, pinged):
    fail(bike, "a:A")
    world.look(NOON)
    world.look(NOON + 100)
    assert told(pinged) == [[("failed", "a:A")]]
    fail(bike, "a:A", now=NOON + 200, place="die")
    world.look(NOON + 210)
    assert told(pinged) == [[("stopped", "a:A")]]
    bike.run("a:A")
    world.look(NOON + 300)
    assert told(pinged) == [], "it is asked for, but has not run"
    end_well(bike, "a:A", NOON + 310)
    world.look(NOON + 320)
    assert told(pinged) == [[("recovered", "a:A")]]
    fail(bike, "a:A", now=NOON + 400)
    world.look(NOON + 500)
    assert told(pinged) == [], "too soon"
    world.look(NOON + EVERY + 500)
    world.look(NOON + EVERY + 600)
    assert told(pinged) == [[("failed", "a:A")]]
    bike.unset("a:A")
    world.look(NOON + EVERY + 700)
    assert (told(pinged), list(fsck(world.store))) == ([], [])


def end_well(bike, jobid, now):
    run = take_one(bike.store.at(now), [(QUEUE, 1e6)], f"tag{jobid}")
    bike.store.at(now).runs.end(run, NextState("next", NOON * 2))


@pytest.mark.parametrize("archives", [False, True])
def test_a_job_of_which_no_run_is_kept_is_well_again(world, bike, pinged, archives):
    bike.set("a:A", "EVERY:1h", history=0)
    fail(bike, "a:A")
    world.look(NOON)
    bike.run("a:A")
    world.look(NOON + 100)
    assert told(pinged) == [[("failed", "a:A")]], "it only waits in its queue"
    end_well(bike, "a:A", NOON + 200)
    if archives:
        list(bike.store.archiver.archive())
    world.look(NOON + 300)
    assert told(pinged) == [[("recovered", "a:A")]]


def test_a_failure_that_is_one_too_many_is_not_well_again(world, bike, pinged):
    bike.set("a:A", "EVERY:1h", history=0)
    fail(bike, "a:A", "b:A")
    world.look(NOON)
    fail(bike, "a:A", now=NOON + 50)
    limit = Settings().failures_limit
    others = {f"{number}:B": NOON + 60 + number for number in range(limit)}
    bike.client.zadd(bike.store.keys.failure_times, others)
    bike.client.zrem(bike.store.keys.failure_times, "a:A", "b:A")
    bike.client.hdel(bike.store.keys.failures, "a:A", "b:A")
    list(bike.store.archiver.archive())
    found, _ = find_conditions(bike.store, bike.store.alerts.read(), Settings(), of_processes=False)
    assert found["job:b:A"] == {Alert.FAILED: Condition(Alert.FAILED, NOON)}, "its last run failed"
    pinged.posted.clear()
    world.look(NOON + 2 * limit)
    assert not [jobid for message in told(pinged) for alert, jobid in message if alert == "recovered"]


@pytest.mark.parametrize(("is_run", "schedule"), [(True, ""), (False, "0 11 * * *"), (False, "STOP")])
@pytest.mark.parametrize("history", [0, 10])
def test_a_job_that_is_not_late_any_more_is_well_again_if_it_has_run(world, bike, pinged, is_run, schedule, history):
    """Also one of which no run is kept."""
    bike.set("a:A", "0 12 * * *", start_within="10m", history=history)
    bike.store.client.zadd(bike.store.keys.timeline, {"a:A": NOON})
    world.look(NOON + 700)
    assert told(pinged) == [[("late", "a:A")]]
    if is_run:
        dispatch(bike.store.at(NOON + 750), [("a:A", repr(NOON), QUEUE)])
        end_well(bike, "a:A", NOON + 760)
    else:
        bike.set("a:A", schedule)
    world.look(NOON + 800)
    assert told(pinged) == ([[("recovered", "a:A")]] if is_run else [])


def test_a_late_occurrence_that_is_cancelled_is_recovered_from_by_a_later_run(world, bike, pinged):
    """Or never, if the job is stopped."""
    for jobid in ("a:A", "b:A"):
        bike.set(jobid, "0 12 * * *", start_within="10m")
        bike.store.client.zadd(bike.store.keys.timeline, {jobid: NOON})
        dispatch(bike.store.at(NOON), [(jobid, repr(NOON), QUEUE)])
    world.look(NOON + 700)
    cancel_jobs(bike.store.at(NOON + 750), ["a:A", "b:A"], Settings())
    world.look(NOON + 751)
    set_job(bike.store.at(NOON + 760), "b:A", "STOP", None)
    world.look(NOON + 770)
    assert told(pinged) == [[("late", "a:A"), ("late", "b:A")]]
    kept = bike.store.client.hmget(bike.store.keys.alerts, "job:a:A", "job:b:A")
    assert [b"active" in record for record in kept] == [True, False]
    dispatch(bike.store.at(NOON + DAY), [("a:A", repr(NOON + DAY), QUEUE)])
    run = take_one(bike.store.at(NOON + DAY), [(QUEUE, 1e6)], "tag")
    world.look(NOON + DAY + 1)
    assert told(pinged) == [], "it runs, but has not run well"
    bike.store.at(NOON + DAY + 20).runs.end(run, NextState("next", NOON + 2 * DAY))
    world.look(NOON + DAY + 21)
    assert told(pinged) == [[("recovered", "a:A")]]


def test_a_dead_job_is_told_whatever_else_has_failed_since(world, bike, pinged):
    fail(bike, "a:A", place="die")
    newer = {f"{number}:B": NOON + 1 + number for number in range(MOST_FAILING)}
    bike.client.zadd(bike.store.keys.failure_times, newer)
    world.look(NOON + 2 * MOST_FAILING)
    [message] = told(pinged)
    assert {alert for alert, jobid in message if jobid == "a:A"} == {"failed", "stopped"}


def test_what_people_say_of_a_job_comes_with_its_alerts(world, bike, pinged):
    bike.set("a:A", "EVERY:1h", tags="night,billing", owner="Ann, 4711", note="Call her first")
    bike.set("b:A", "EVERY:1h", tags="night")
    bike.set("c:A", "EVERY:1h")
    fail(bike, "a:A", "b:A", "c:A")
    world.look(NOON)
    [(_, body)] = pinged.posted
    lines = {line["jobid"]: line for line in map(json.loads, body.decode().splitlines())}
    said = {"tags": ["billing", "night"], "owner": "Ann, 4711", "note": "Call her first"}
    assert lines["a:A"].items() >= said.items()
    assert lines["a:A"]["text"].endswith("disk full (owner: Ann, 4711; note: Call her first)")
    assert (lines["b:A"]["tags"], lines["b:A"]["text"]) == (["night"], "b:A has failed: disk full")
    line = {"alert": "failed", "jobid": "c:A", "due": NOON, "since": NOON, "text": "c:A has failed: disk full"}
    assert lines["c:A"] == line


def test_a_job_is_late_once_for_each_time(world, bike, pinged):
    bike.set("a:A", "0 12 * * *", start_within="10m")
    bike.store.client.zadd(bike.store.keys.timeline, {"a:A": NOON})
    world.look(NOON + 599, wait=0.5)
    assert told(pinged) == []
    dispatch(bike.store.at(NOON), [("a:A", repr(NOON), QUEUE)])
    for moment in (600, 700, 5000):
        world.look(NOON + moment)
    [(_, body)] = pinged.posted
    line = json.loads(body)
    text = "a:A was to begin by 2024-10-04 12:10:00 UTC, was due at 2024-10-04 12:00:00, and waits in the queue work-A"
    assert line == {"alert": "late", "jobid": "a:A", "due": NOON, "since": NOON + 600, "text": text}
    pinged.posted.clear()
    run = take_one(bike.store.at(NOON + 6000), [(QUEUE, 1e6)], "tag")
    world.look(NOON + 6010)
    assert told(pinged) == [[("recovered", "a:A")]]
    bike.store.at(NOON + 6020).runs.end(run, NextState("next", NOON + DAY))
    world.look(NOON + DAY + 601)
    assert told(pinged) == [[("late", "a:A")]]


def test_a_storm_is_one_message_and_what_follows_another(world, bike, pinged):
    jobs = [f"{number:03}:A" for number in range(120)]
    fail(bike, *jobs[:60])
    register(bike.store, "dispatcher", now=NOON)
    world.at(NOON, 0).look()
    fail(bike, *jobs[60:100], now=NOON + 1)
    world.at(NOON + 2, 1).look()
    world.look(NOON + GATHER)
    fail(bike, *jobs[100:], now=NOON + GATHER + 1)
    world.look(NOON + GATHER + 2, wait=SPACING)
    messages = told(pinged)
    assert [len(message) for message in messages] == [100, 20]
    assert sorted(jobid for message in messages for _, jobid in message) == jobs


def test_of_too_many_the_rest_is_counted(world, bike, pinged):
    register(bike.store, "dispatcher", now=NOON)
    line = json.dumps({"alert": "late", "text": "x"})
    world.store.at(NOON).alerts.alert([Change(f"job:{n}", None, '{"told":{}}', [line] * 10) for n in range(150)])
    world.look(NOON)
    assert "and 500 more alerts" in pinged.posted[0][1].decode()
    [message] = told(pinged)
    assert (len(message), message[-1]) == (MOST_LINES + 1, ("more", ""))


def test_what_was_missed_is_told_but_not_what_was_before_anybody_was_told(world, bike, pinged):
    def miss(jobid, number, reason=Skip.MISSED):
        bike.store.client.hincrby(bike.store.keys.skipped, f"{reason}:{jobid}", number)
        bike.store.client.hincrby(bike.store.keys.skipped, f"{reason}:", number)

    for jobid in ("a:A", "b:A"):
        bike.set(jobid, "EVERY:1h")
    miss("a:A", 5)
    world.look(NOON)
    assert told(pinged) == []
    miss("a:A", 2)
    miss("b:A", 1, Skip.EXPIRED)
    miss("b:A", 1, Skip.RUNNING)
    world.restart(0)
    world.look(NOON + 100)
    world.look(NOON + 200)
    [(_, body)] = pinged.posted
    texts = sorted(json.loads(line)["text"] for line in body.decode().splitlines())
    assert texts == ["a:A has missed 2 occurrences", "b:A has missed an occurrence"]
    assert world.store.alerts.read_missed_total() == ("8", "8")
    pinged.posted.clear()
    miss("a:A", 3)
    world.look(NOON + 300)
    assert told(pinged) == [], "too soon"
    world.restart(1)
    world.look(NOON + 200 + EVERY)
    assert told(pinged) == [[("missed", "a:A")]]


def test_what_was_missed_is_found_again_until_it_is_noted(world, bike, pinged):
    world.look(NOON)
    bike.set("a:A", "EVERY:1h")
    bike.store.client.hset(bike.store.keys.skipped, mapping={"missed:": 1, "missed:a:A": 1})
    watch = world.at(NOON + 100, 0)._missed

    def look():
        watch._read_at = float("-inf")
        return [change.field for change in watch.look(NOON + 100)]

    assert (look(), look()) == (["missed:a:A"],) * 2
    watch.confirm()
    assert look() == []


def test_of_a_job_that_is_unset_before_that_is_noted_nothing_missed_is_kept_or_told(world, bike, pinged):
    bike.set("a:A", "EVERY:1h")
    world.look(NOON)
    bike.store.client.hset(bike.store.keys.skipped, mapping={"missed:": 1, "missed:a:A": 1})
    watch = world.at(NOON + 100, 0)._missed
    watch._read_at = float("-inf")
    [change] = watch.look(NOON + 100)
    bike.unset("a:A")
    assert bike.store.alerts.alert([change]) == [False]
    assert bike.store.client.hkeys(bike.store.keys.alerts) == [b"missed:"]


def test_of_the_installation(world, store, pinged):
    register(store, "worker", now=NOON)
    store.at(NOON).timeline.advance(NOON)
    world.look(NOON + 10)
    store.client.hset(store.keys.rewinds, f"{NOON - 50:.6f}", f"{NOON:.6f} {NOON:.6f}")
    for moment in (16, 100, 500):
        world.look(NOON + moment)
    assert sorted(pair for message in told(pinged) for pair in message) == [("rewound", ""), ("worker lost", "")]
    world.look(NOON + 5000)
    assert told(pinged) == []


def test_a_lost_worker_is_told_when_it_is_found_if_nothing_was_away(world, store, pinged):
    register(store, "worker", now=NOON)
    for moment in (1, 7, 13, 19):
        world.look(NOON + moment, wait=GATHER)
    assert told(pinged) == [[("worker lost", "")]]


def test_a_worker_tells_that_no_dispatcher_is_running_and_a_dispatcher_that_one_is(world, store, pinged):
    store.at(NOON).timeline.advance(NOON)
    for moment in (10, 59):
        world.at(NOON + moment, 2).look()
    register(store, "dispatcher", number=1, now=NOON + 60)
    world.at(NOON + 61, 2).look()
    assert store.client.exists(store.keys.alerts) == 0, "nothing is told"
    for moment in (100, 100 + GATHER, 200, 300):
        world.at(NOON + moment, 2).look()
    assert told(pinged) == [[("no dispatcher", "")]]
    world.look(NOON + 400)
    assert told(pinged) == [[("recovered", "")]]


@pytest.fixture
def nowhere(prefix):
    """A store on a server that does not answer."""
    [port] = free_ports(1)
    with connect(f"redis://127.0.0.1:{port}") as client:
        yield Store(client, prefix, lambda jobid: QUEUE)


def test_after_an_outage_processes_may_be_seen_before_anybody_is_told(world, store, pinged, nowhere):
    register(store, "worker", now=NOON)
    world.look(NOON + 5)
    for moment in (40, 44, 48):
        # They have been away for longer than it takes to be lost, and have not come yet.
        world.look(NOON + moment, wait=0.5)
    register(store, "worker", now=NOON + 49)
    world.look(NOON + 60, wait=0.5)
    for moment in (80, 94, 108):
        for number in (0, 1):
            if moment == 94:
                # It goes away again.
                world._made[number]._store = nowhere
                world._made[number]._try_to_look()
        world.look(NOON + moment, wait=0.5)
    assert store.alerts.read().told == {}, "nothing is told"
    for moment in (210, 216):
        world.look(NOON + moment)
    assert told(pinged) == [[("worker lost", "")]], "it is lost indeed"


def test_after_an_outage_a_dispatcher_may_be_seen_before_anybody_is_told(world, store, nowhere):
    store.at(NOON).timeline.advance(NOON)
    world.at(NOON + 20, 2).look()
    world.worker._store = nowhere
    world.worker._try_to_look()
    world.at(NOON + 78, 2).look()
    register(store, "dispatcher", now=NOON + 80)
    for moment in (88, 94):
        world.at(NOON + moment, 2).look()
    assert store.alerts.read().told == {}, "nothing is told"


def test_a_message_that_is_not_sent_is_tried_again_by_anybody_until_it_is(world, bike, pinged, caplog):
    pinged.answers = [500] * (len(PAUSES) + 1)
    fail(bike, "a:A")
    world.look(NOON)
    moment = NOON + GATHER
    for number, pause in enumerate((*PAUSES, PAUSES[-1])):
        assert len(pinged.called) == number + 1
        world.at(moment + pause - 1, number % 2).look()
        assert len(pinged.called) == number + 1
        moment += pause
        world.at(moment, (number + 1) % 2).look()
    assert [record.levelname for record in caplog.records] == ["WARNING"] * (len(PAUSES) + 1)
    assert "/alert" not in caplog.text
    assert told(pinged) == [[("failed", "a:A")]] * (len(PAUSES) + 2)
    world.look(moment + DAY)
    assert told(pinged) == []


def test_what_was_not_sent_for_long_waits_with_what_is_new_and_only_so_much_of_it(world, bike, pinged):
    line = format_alert(Alert.LATE, "x", NOON)
    changes = [
        Change(f"sending:{number}", None, Message(NOON + number, [line] * MOST_LINES, 7, len(PAUSES)).format())
        for number in (0, 1)
    ]
    assert all(world.store.alerts.alert(changes))
    pinged.answers = [500, 500]
    world.at(NOON + 1, 0).look()
    world.at(NOON + 1, 0).look()
    fail(bike, "a:A", now=NOON + 1)
    pinged.posted.clear()
    world.look(NOON + 2)
    [(_, body)] = pinged.posted
    assert body.decode().count("\n") == MOST_LINES + 1
    assert "and 1,015 more alerts" in body.decode()
    assert world.store.alerts.read().told.keys() == {"job:a:A", "sent:"}


def test_a_message_of_a_process_that_died_is_sent_by_another(world, bike, pinged):
    fail(bike, "a:A")
    register(bike.store, "dispatcher", now=NOON)
    dying = world.at(NOON, 0)
    dying.look()
    record = world.store.alerts.read().told["waiting:"]
    claimed = json.dumps(json.loads(record) | {"at": NOON + CLAIM_TIMEOUT})
    claim = [Change("waiting:", record, None), Change("sending:x", None, claimed)]
    assert all(world.store.alerts.alert(claim, together=True))
    world.at(NOON + CLAIM_TIMEOUT - 1, 1).look()
    assert told(pinged) == []
    world.at(NOON + CLAIM_TIMEOUT, 1).look()
    world.at(NOON + CLAIM_TIMEOUT + 100, 1).look()
    assert told(pinged) == [[("failed", "a:A")]]


def test_a_message_that_another_process_claims_first_is_sent_once(world, bike, pinged, monkeypatch):
    fail(bike, "a:A")
    register(bike.store, "dispatcher", now=NOON)
    world.at(NOON, 0).look()
    first, second = (world.at(NOON + GATHER, number) for number in (0, 1))
    claim = second._send_one
    monkeypatch.setattr(second, "_send_one", lambda *given: first.look() or claim(*given))
    second.look()
    world.at(NOON + GATHER + 2 * CLAIM_TIMEOUT, 0).look()
    assert told(pinged) == [[("failed", "a:A")]]


@pytest.fixture
def slow(world, monkeypatch):
    """A dispatcher that has three messages to send, to a receiver that takes 29 s; `slow.then` are called meanwhile."""
    dispatcher, clock = world._made[0], [NOON]
    dispatcher._store = dispatcher._missed._store = world.store.follow(lambda: clock[0])
    dispatcher.then = []
    send = dispatcher._sender.send

    def send_slowly(lines):
        clock[0] += 29
        if dispatcher.then:
            dispatcher.then.pop(0)(clock[0])
        return send(lines)

    monkeypatch.setattr(dispatcher._sender, "send", send_slowly)
    messages = [
        Message(NOON - number, [format_alert(Alert.LATE, "x", NOON, jobid=f"{number}:B")]) for number in (3, 2, 1)
    ]
    changes = [Change(f"sending:{number}", None, message.format()) for number, message in enumerate(messages)]
    assert all(world.store.alerts.alert(changes))
    return dispatcher


def test_a_message_that_waits_for_a_slow_receiver_is_sent_once(world, pinged, slow):
    slow.then = [lambda now: None, lambda now: None, lambda now: world.at(now, 1).look()]
    for _ in range(3):
        slow.look()
    assert told(pinged) == [[("late", f"{number}:B")] for number in (3, 2, 1)]


def test_a_job_that_fails_and_is_well_again_while_a_slow_receiver_is_told_is_told(world, bike, pinged, slow):

    def end(now):
        bike.run("a:A")
        end_well(bike, "a:A", now)

    slow.then = [lambda now: fail(bike, "a:A", now=now), end]
    for _ in range(5):
        slow.look()
    assert ("failed", "a:A") in [each for message in told(pinged) for each in message]


def test_a_message_that_a_slow_receiver_refuses_is_tried_again_a_while_after_that(pinged, slow, world):
    pinged.answers = [500]
    slow.look()
    assert Message.parse(world.store.alerts.read().told["sending:0"]).at == NOON + 29 + PAUSES[0]


def test_a_change_is_made_by_one_of_those_who_ask_for_it(store):
    changes = [Change("job:a", None, "{1}", ["x"]), Change("job:b", "{2}", "{3}", ["y"])]
    assert store.alerts.alert(changes, together=True) == [False, False]
    assert store.client.exists(store.keys.alerts) == 0
    assert store.alerts.alert(changes) == [True, False]
    assert store.alerts.alert(changes) == [False, False]
    [waiting] = [json.loads(text) for field, text in store.alerts.read().told.items() if field == "waiting:"]
    assert waiting["lines"] == ["x"]


@pytest.mark.parametrize("damage", ["x", "{}", "[]", '{"at":"x","lines":[]}', '{"at":1,"lines":5}'])
def test_damaged_records_hold_up_nobody(world, bike, pinged, damage):
    fields = ("waiting:", "sending:x", "job:gone:A", "process:x", "missed:a:A", "missed:", "sent:", "other")
    bike.store.client.hset(bike.store.keys.alerts, mapping=dict.fromkeys(fields, damage))
    fail(bike, "a:A")
    bike.store.client.hset(bike.store.keys.skipped, mapping={"missed:": 1, "missed:a:A": 1})
    world.look(NOON, wait=SPACING)
    assert told(pinged) == [[("failed", "a:A"), ("missed", "a:A")]]


def test_a_look_that_waits_for_a_server_is_followed_by_the_next_one_soon(nowhere, monkeypatch):
    monkeypatch.setattr("redbike.loop.alerts.thread.LOOK", 0.01)
    monkeypatch.setattr("redbike.loop.alerts.thread.SHARE", 10**9)
    alerting = Alerting(nowhere, Settings(alert="true"), is_dispatcher=True)
    look, looks = alerting.look, []
    monkeypatch.setattr(alerting, "look", lambda: looks.append(1) or look())
    alerting.start()
    wait_until(lambda: len(looks) > 2)
    alerting.stop()


def test_while_and_after_a_message_is_sent_slowly_nothing_is_put_off(bike, tmp_path, monkeypatch):
    for name, seconds in (("LOOK", 0.01), ("GATHER", 0.0), ("SPACING", 0.0), ("SHARE", 60)):
        monkeypatch.setattr(f"redbike.loop.alerts.thread.{name}", seconds)
    heard = tmp_path / "heard"
    alerting = Alerting(bike.store, Settings(alert=f"sh -c 'cat >> {heard}; sleep 1'"), is_dispatcher=True)
    alerting.start()
    for jobid in ("a:A", "b:A"):
        fail(bike, jobid, now=bike.store.timeline.read_clock())
        wait_until(lambda jobid=jobid: heard.exists() and f'"{jobid}"' in heard.read_text())
    alerting.stop()


def test_without_the_setting_there_is_no_thread_and_no_key(store, bike):
    quiet = Alerting(store, Settings(), is_dispatcher=True)
    quiet.start()
    fail(bike, "a:A")
    assert (quiet._thread, store.client.exists(store.keys.alerts)) == (None, 0)
    quiet.stop()
