"""The dispatcher: it moves what is due, brings back what is lost, keeps the time, and sleeps."""

import time
from functools import partial

import pytest

from redbike.config.settings import Settings
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.dispatcher.missed import skip_late
from redbike.errors import Unreachable
from redbike.loop.timefile import Timefile
from redbike.loop.worker_class import RoundRobin
from redbike.schedule.jitter import add_jitter
from redbike.schedule.parser import parse
from redbike.store.inspection.fsck import fsck
from redbike.store.jobs import JobToSet
from redbike.store.lease import LEASE
from redbike.store.next_state import NextState
from redbike.store.records import RetryState, parse_batch
from redbike.store.run import Run
from redbike.store.scripts import SCRIPTS, Pipeline
from redbike.store.store import Store
from tests.loops import beside, blocked, join, start
from tests.states import dump
from tests.verbs import run_job, set_job, set_one, survey, take_many, take_one
from tests.waiting import wait_until


@pytest.fixture
def running(store):
    """Starts dispatchers in threads, and halts them."""
    threads = []
    yield lambda settings=None, **more: threads.append(
        start(partial(Dispatcher(store, settings or Settings()).dispatch, **more))
    )
    store.signals.halt()
    join(*threads)


@pytest.fixture
def now(store):
    return store.timeline.read_dispatched()[0]


@pytest.fixture
def small_pages(monkeypatch):
    """Two jobs on a page, four in a survey."""
    sizes = {"store.timeline.PAGE": 2, "store.timeline.MOST_DUE": 4, "dispatcher.dispatcher.PAGE": 2}
    for name, size in sizes.items():
        monkeypatch.setattr(f"redbike.{name}", size)


def place(store, jobid):
    return (store.questions.inspect([jobid])[0].status or "").partition(":")[0]


def test_a_pass_moves_all_that_is_due_and_nothing_else(store, now, dispatcher, small_pages, monkeypatch):
    for name, size in {"STEP": 1, "AHEAD": 2}.items():  # the last steps are moved while the survey is read
        monkeypatch.setattr(f"redbike.dispatcher.dispatcher.{name}", size)
    jobids = [f"{n}:A" for n in range(11)]
    for n, jobid in enumerate(jobids):
        set_job(store.at(now), jobid, "EVERY:10@0.0", now + 1 + n / 1000)
    set_job(store, "later:A", "EVERY:10@0.0", now + 1000)
    assert [dispatcher.dispatch_due(now + seconds) for seconds in (1, 100, 100)] == [1, 10, 0]
    assert place(store, "later:A") == "TML"
    queue = store.client.lrange(store.keys.queue("work-A"), 0, -1)
    assert list(map(bytes.decode, queue[::-1])) == jobids


@pytest.mark.timeout(30)
def test_a_pass_for_an_instant_between_two_microseconds_ends(store, dispatcher):
    instant = 1_900_000_000.7106836
    set_job(store, "j:A", f"AT:{instant}", instant)
    assert dispatcher.dispatch_due(instant) == 1


@pytest.fixture
def sent(monkeypatch):
    """The requests that dispatchers send, by the verbs in them."""
    verbs, run = [], Pipeline.run

    def record(self, calls):
        calls = list(calls)
        if calls:
            verbs.append(" ".join(call.verb for call in calls))
        return run(self, calls)

    monkeypatch.setattr(Pipeline, "run", record)
    return verbs


def take_together(store, jobids, tag="tag", now=1000.0, queues=(("work-A", 1000.0),)):
    """Set jobs, and take them all in one step."""
    entries = [JobToSet(jobid, "EVERY:1000@0.0", now, False, store.queue_for(jobid)) for jobid in jobids]
    store.at(now).jobs.set(entries)
    runs = take_many(store.at(now), queues, range(1, len(queues) + 1), tag, len(jobids))
    assert {run.jobid for run in runs} == set(jobids)
    return runs


def retry_states(store, jobids):
    return [RetryState.parse(state.retry_state) for state in store.questions.inspect(jobids)]


def test_runs_of_one_tag_are_lost_together_on_all_pages_whatever_their_deadlines(
    client, prefix, small_pages, sent, dispatcher
):
    """Also after the deadline of some, as a worker that is dead ends none of them."""
    store = Store(client, prefix, RoundRobin("A:B").queue_for)
    jobids = ["slow:A", "quick:B", "third:A"]
    take_together(store, ["first:A"], "one", 999.0)
    runs = take_together(store, jobids, queues=(("work-A", 100.0), ("work-B", 1.0)))
    dispatcher.dispatch_due(999.0 + LEASE - 0.1)
    assert {place(store, jobid) for jobid in ("first:A", *jobids)} == {"WRK"}
    sent.clear()
    dispatcher.dispatch_due(1000.0 + LEASE)
    assert sent[:3] == ["survey", "end", "end"]
    assert retry_states(store, jobids) == [RetryState(alone=True)] * 3
    assert retry_states(store, ["first:A"])[0].losses == 1
    assert {state.waiting.due for state in store.questions.inspect(jobids)} == {run.due for run in runs}
    assert list(store.past.list_failures()) == []
    assert list(fsck(store)) == []


def test_a_run_that_something_was_set_for_once_more_meanwhile_is_ended_all_the_same(store, dispatcher):
    """While the places are computed again."""
    jobids = ["0:A", "1:A", "2:A"]
    take_together(store, jobids)
    run_job(store.at(1001.0), "0:A")
    end_whole, later = dispatcher._end_whole, [lambda: run_job(store.at(1002.0), "1:A")]
    later.append(lambda: set_job(store.at(1003.0), "0:A", "EVERY:7@0.0", 1500.0))

    def meanwhile(*given):
        answers = end_whole(*given)
        if later:
            later.pop(0)()
        return answers

    dispatcher._end_whole = meanwhile
    dispatcher.dispatch_due(1000.0 + LEASE)
    assert [place(store, jobid) for jobid in jobids] == ["TML", "ENQ", "ENQ"]
    assert retry_states(store, jobids) == [RetryState(), RetryState(alone=True), RetryState(alone=True)]
    assert list(fsck(store)) == []


@pytest.mark.parametrize(("policy", "event"), [("reschedule", "TML"), ("stop", "DIE")])
def test_runs_that_must_not_be_repeated_are_ended_by_one_script_too(store, sent, pass_at, policy, event):
    """Another worker, with other settings, may have taken them together."""
    jobids = ["0:A", "1:A", "2:A"]
    take_together(store, jobids)
    set_job(store.at(1001.0), "1:A", "EVERY:7@0.0", 5000.0)
    sent.clear()
    pass_at(1000.0 + LEASE, on_lost=policy)
    assert sent == ["survey", "end", "end"]
    assert [place(store, jobid) for jobid in jobids] == [event, "TML", event]
    assert len(list(store.past.list_failures())) == 3
    assert list(fsck(store)) == []


@pytest.mark.parametrize(("policy", "level"), [("requeue", "WARNING"), ("reschedule", "ERROR"), ("stop", "ERROR")])
def test_a_lost_run_has_a_line_with_the_fields_of_one_that_ended(store, caplog, pass_at, policy, level):
    [run] = take_together(store, ["0:A"])
    pass_at(1000.0 + LEASE, on_lost=policy)
    [record] = [each for each in caplog.records if hasattr(each, "fields")]
    assert (record.levelname, "run tag was lost, loss 1 in a row" in record.getMessage()) == (level, True)
    late = record.fields.pop("late")
    assert late == pytest.approx(run.start - run.due, abs=1e-5)
    assert record.fields == {
        "event": "ended", "job": "0:A", "queue": "work-A", "worker": "", "key": run.key, "due": run.due,
        "took": pytest.approx(LEASE, abs=5.0), "outcome": "lost", "attempt": 1, "runs": 1
    }  # fmt: skip


def move_to_another_tag(store, jobid):
    """Its list and its lease know nothing of that."""
    record = store.questions.inspect([jobid])[0].running
    store.client.hset(store.keys.running, jobid, record.replace("tag ", "another ", 1))


STRAYS = {
    "of another tag": move_to_another_tag,
    "not in flight": lambda store, jobid: store.client.hdel(store.keys.running, jobid),
    "damaged": lambda store, jobid: store.client.hset(store.keys.running, jobid, "garbage"),
}


@pytest.mark.parametrize(
    ("stray", "number"), [*((stray, 1) for stray in STRAYS), ("of another tag", 2), ("not in flight", 3)]
)
def test_a_tag_that_lists_jobs_which_are_not_in_flight_under_it_is_cleaned(store, sent, stray, number, dispatcher):
    jobids = ["0:A", "1:A", "2:A"]
    take_together(store, jobids)
    for jobid in jobids[:number]:
        STRAYS[stray](store, jobid)
    strays = [store.questions.inspect([jobid])[0].running for jobid in jobids[:number]]
    dispatcher.dispatch_due(1000.0 + LEASE)
    keys = store.keys
    assert not store.client.hexists(keys.batches, "tag")
    assert store.client.zscore(keys.leases, "tag") is None
    assert not store.client.exists(keys.inflight("tag"))
    # Those whose place is elsewhere are left alone.
    assert [store.questions.inspect([jobid])[0].running for jobid in jobids[:number]] == strays
    assert [place(store, jobid) for jobid in jobids[number:]] == ["ENQ"] * (3 - number)
    # There is nothing left to do.
    sent.clear()
    dispatcher.dispatch_due(1000.0 + LEASE)
    assert sent == ["survey"]


def test_tags_with_nothing_but_strays_do_not_keep_it_busy(store, small_pages, sent, dispatcher):
    """More of them than one survey tells of, and behind them a run that is really lost."""
    for n in range(5):
        take_together(store, [f"{n}:A", f"{n}b:A"], tag=f"tag{n}", now=1000.0 + n)
    take_together(store, ["lost:A"], tag="tag9", now=1010.0)
    store.client.hdel(store.keys.running, *(jobid for n in range(5) for jobid in (f"{n}:A", f"{n}b:A")))
    for _ in range(6):
        sent.clear()
        dispatcher.dispatch_due(1010.0 + LEASE)
        assert len(sent) < 5, "a pass is no endless loop"
    assert place(store, "lost:A") == "ENQ"
    assert store.client.zcard(store.keys.leases) == store.client.hlen(store.keys.batches) == 0


def test_a_tag_that_is_alive_is_not_touched_because_of_its_strays(store, dispatcher):
    """As soon as its worker is not heard of any more, it is cleaned."""
    _, run = take_together(store, ["0:A", "1:A"])
    move_to_another_tag(store, "0:A")
    before = dump(store)
    found = survey(store.at(1000.0 + LEASE))
    assert (list(found.strays), [lost.jobid for lost in found.lost]) == (["tag"], ["1:A"])
    assert store.at(1000.0 + LEASE).runs.heartbeat([run]) == ["ok"]
    dispatcher._recover(store.at(1000.0 + LEASE), found)
    after = dump(store)
    assert parse_batch(after[store.keys.batches][b"tag"].decode()) == ["1:A"]
    assert after[store.keys.running] == before[store.keys.running]
    assert after[store.keys.leases] == [(b"tag", 1000.0 + 2 * LEASE)]


def test_it_sleeps_until_the_next_due_time_and_is_never_early(store, running):
    running()
    due = {f"{n}:A": store.timeline.read_dispatched()[0] + 0.2 + n * 0.05 for n in range(10)}
    for jobid, moment in due.items():
        set_job(store, jobid, f"AT:{moment}", moment, once=True)
    moved = {}
    while len(moved) < len(due):
        run = take_one(store, [("work-A", 1000.0)], f"t{len(moved)}")
        if isinstance(run, Run):
            moved[run.jobid] = run.start - run.due
    assert all(late >= 0 for late in moved.values())


def test_it_wakes_for_what_is_set_earlier_than_all_before(store, running, monkeypatch):
    # Otherwise it would look after a while anyway.
    for name in ("NAP", "LONGEST_SLEEP"):
        monkeypatch.setattr(f"redbike.dispatcher.dispatcher.{name}", 600.0)
    set_job(store, "later:A", "EVERY:10@0.0", store.timeline.read_dispatched()[0] + 1000)
    running()
    wait_until(lambda: blocked(store.client))
    set_job(store, "soon:A", "EVERY:10@0.0", store.timeline.read_dispatched()[0] + 0.05)
    wait_until(lambda: place(store, "soon:A") == "ENQ")


def test_the_first_pass_moves_what_is_due_by_after(store, now, running):
    set_job(store, "job:A", "EVERY:10@0.0", now + 1000)
    running(after=now + 1000)
    wait_until(lambda: place(store, "job:A") == "ENQ")


def test_the_time_is_kept_in_the_file_and_in_redis(store, running, tmp_path, monkeypatch, caplog):
    for module in ("dispatcher", "missed"):
        monkeypatch.setattr(f"redbike.dispatcher.{module}.NAP", 0.1)
    path = tmp_path / "timefile"
    path.write_text("garbage")
    running(Settings(timefile=str(path)))
    wait_until(lambda: path.read_text() != "garbage")
    assert "garbage" in caplog.text
    first = Timefile(path).read(store.timeline.read_dispatched()[0])
    wait_until(lambda: Timefile(path).read(store.timeline.read_dispatched()[0]) > first)
    now, kept = store.timeline.read_dispatched()
    assert Timefile(path).read(now) == pytest.approx(kept, abs=30)


def test_the_file_is_written_once_a_nap_however_many_jobs_come_due_and_at_exit(store, tmp_path, monkeypatch):
    for name, seconds in {"NAP": 0.1, "KEEPING": 0.005}.items():
        monkeypatch.setattr(f"redbike.dispatcher.missed.{name}", seconds)
    written, write = [], Timefile.write
    monkeypatch.setattr(Timefile, "write", lambda *given: written.append(time.monotonic()) or write(*given))
    path, now, began = tmp_path / "timefile", store.timeline.read_clock(), time.monotonic()
    for number in range(40):
        set_job(store, f"{number}:A", "EVERY:1h@0", now + 0.2 + number / 50)
    with beside(store, Dispatcher(store, Settings(timefile=str(path))).dispatch):
        wait_until(lambda: store.client.llen(store.keys.queue("work-A")) == 40)
        monkeypatch.setattr("redbike.dispatcher.missed.NAP", 1000.0)
        wait_until(lambda: blocked(store.client))
        assert 1 <= len(written) <= (time.monotonic() - began) / 0.1 + 1
        path.unlink()
        halted = time.monotonic()
    assert written[-1] > halted > written[-2]
    assert Timefile(path).read(store.timeline.read_clock()) > now + 0.2


@pytest.mark.parametrize("kept", ["file", "redis", "after"])
def test_catchup_none_skips_what_was_missed(store, now, tmp_path, kept):
    base = now - now % 1000
    path = tmp_path / "timefile"
    settings = Settings(catchup="none", timefile=str(path))
    set_job(store.at(base - 5500), "job:A", "EVERY:1000@0.0", base - 5000)
    set_job(store.at(base - 5500), "once:A", f"AT:{base - 5000}", base - 5000, once=True)
    since = base - 5500
    if kept == "file":
        Timefile(path).write(since)
    elif kept == "redis":
        store.timeline.advance(since)
    Dispatcher(store.at(now), settings).timekeeper.skip_missed(since if kept == "after" else None)
    state = store.questions.inspect(["job:A"])[0]
    assert (state.timeline, state.skipped) == (base + 1000, {"missed": 6})
    # A one-off has no next occurrence: it is run, late.
    assert place(store, "once:A") == "TML"
    assert store.questions.inspect(["once:A"])[0].timeline < now


@pytest.mark.parametrize(
    ("gap", "file", "is_skipped"),
    # The timefile of this host is a day old in the fourth row, as it was on standby, and newer than Redis after that.
    # In the last one, a copy of the server was restored: the job came due before the instant in the file.
    [(0.5, None, False), (50, None, False), (65, None, True), (50, 86400, False), (65, 1, False), (200, 70, True)],
)
def test_catchup_none_gives_nothing_up_because_of_a_restart(store, now, tmp_path, gap, file, is_skipped):
    settings = Settings(catchup="none", timefile=file and str(tmp_path / "timefile"))
    if file:
        Timefile(settings.timefile).write(now - file)
    store.timeline.advance(now - gap)
    set_job(store.at(now - gap - 1), "job:A", f"EVERY:1000@{now - gap / 2:.6f}", now - gap / 2)
    Dispatcher(store.at(now), settings).timekeeper.skip_missed()
    state = store.questions.inspect(["job:A"])[0]
    assert (state.timeline > now, state.skipped) == (is_skipped, {"missed": 1} if is_skipped else {})


def test_catchup_none_leaves_alone_what_waits_to_be_tried_again(store, now):
    set_job(store.at(now - 6000), "job:A", "EVERY:1000@0.0", now - 6000)
    run = take_one(store.at(now - 6000), [("work-A", 100.0)], "tag")
    store.at(now - 6000).runs.end(run, NextState("due", "+50", retry_state=f"1 0 1 {run.due:.6f} -"))
    Dispatcher(store, Settings(catchup="none")).timekeeper.skip_missed(now - 6500)
    Dispatcher(store, Settings()).dispatch_due()
    again = take_one(store, [("work-A", 100.0)], "again")
    assert (again.due, again.attempt) == (run.due, 2)


def test_what_was_missed_is_skipped_a_page_at_a_time_until_it_is_to_stop(store, now, monkeypatch):
    """What is left stays as it is: the dispatcher that runs next skips it."""
    monkeypatch.setattr("redbike.dispatcher.missed.PAGE", 2)
    for n in range(3):
        set_job(store.at(now - 6000), f"{n}:A", "EVERY:1000@0.0", now - 5000 + n)
    dispatcher, sent, run_all = Dispatcher(store, Settings(catchup="none")), [], store.scripts.run_all
    monkeypatch.setattr(store.scripts, "run_all", lambda calls: sent.append([*calls]) or run_all(sent[-1]))
    dispatcher.loop.stopping.set()
    dispatcher.dispatch(now - 6500)
    assert [len(calls) for calls in sent if calls[0].verb == "skip"] == [2]
    assert [state.timeline > now for state in store.questions.inspect(["0:A", "1:A", "2:A"])] == [True, True, False]


def test_what_is_late_is_skipped_in_one_request(store, now, monkeypatch):
    late = [(f"{n}:A", repr(now - 5000 + n)) for n in range(3)]
    for jobid, due in late:
        job = JobToSet(jobid, "EVERY:1000@0.0", float(due), False, "work-A", options='{"spread":900}')
        set_one(store.at(now - 6000), job)
    sent, run_all = [], store.scripts.run_all
    monkeypatch.setattr(store.scripts, "run_all", lambda calls: sent.append([*calls]) or run_all(sent[-1]))
    assert skip_late(store, Settings(grace=60), late, now) == []
    assert [len(calls) for calls in sent] == [3]
    dues = [state.timeline for state in store.questions.inspect([jobid for jobid, _ in late])]
    assert dues == [add_jitter(parse("EVERY:1000@0.0"), jobid, 900).next(now - 60) for jobid, _ in late]


def test_a_survey_costs_the_same_however_many_jobs_are_not_due(store):
    """By the commands that the script makes, which do not grow, and not by the clock."""

    def commands():
        survey(store)
        before = store.client.info("stats")["total_commands_processed"]
        survey(store)
        return store.client.info("stats")["total_commands_processed"] - before

    few = commands()
    far = store.timeline.read_dispatched()[0] + 10**6
    store.jobs.set([JobToSet(f"{n}:A", "EVERY:10@0.0", far + n, False, "work-A") for n in range(2000)])
    assert commands() == few
    assert "no-writes" in SCRIPTS["survey"].text.partition("\n")[0]


def test_after_an_outage_a_pass_ends_however_many_runs_look_lost(store, small_pages, monkeypatch, dispatcher):
    """They wait until workers have had time for a heartbeat. What comes due must not wait for that."""
    now = store.timeline.read_clock()
    lost = [f"{n}:A" for n in range(5)]
    for jobid in lost:
        set_job(store.at(now - 100), jobid, "EVERY:1000@0.0", now - 100)
        take_one(store.at(now - 100), [("work-A", 10.0)], f"tag-{jobid}")
    moved = []

    def fail_once(repeated):
        if not repeated:
            raise Unreachable("it is away")
        moved.append(dispatcher.dispatch_due())

    monkeypatch.setattr("redbike.dispatcher.dispatcher.SETTLING", 600.0)
    # In a thread, because it would go on for ever.
    join(start(lambda: dispatcher.loop.retry_until_up(fail_once)))
    assert moved == [0]
    assert dispatcher.dispatch_due() == 0, "nor soon after that"
    assert {place(store, jobid) for jobid in lost} == {"WRK"}
    monkeypatch.setattr("redbike.dispatcher.dispatcher.SETTLING", 0.0)
    dispatcher.dispatch_due()
    assert {place(store, jobid) for jobid in lost} == {"ENQ"}


def test_a_dispatcher_that_starts_lets_live_workers_send_their_heartbeats_first(store, now, monkeypatch, running):
    """The server may have been away until just now: nothing tells that it was."""
    monkeypatch.setattr("redbike.dispatcher.dispatcher.SETTLING", 600.0)
    for jobid in ("live:A", "lost:A"):
        set_job(store.at(now - 100), jobid, "EVERY:1000@0.0", now - 100)
    live = take_one(store.at(now - 100), [("work-A", 1000.0)], "live")
    take_one(store.at(now - 100), [("work-A", 1000.0)], "lost")
    running()
    wait_until(lambda: (store.timeline.read_dispatched()[1] or 0.0) > now)
    assert {place(store, jobid) for jobid in ("live:A", "lost:A")} == {"WRK"}
    assert store.runs.heartbeat([live]) == ["ok"]
    monkeypatch.setattr("redbike.dispatcher.dispatcher.SETTLING", 0.0)
    monkeypatch.setattr("redbike.dispatcher.dispatcher.LONGEST_SLEEP", 600.0)  # it looks soon all the same
    wait_until(lambda: not store.questions.inspect(["lost:A"])[0].running)
    assert [place(store, jobid) for jobid in ("live:A", "lost:A")] == ["WRK", "ENQ"]


def test_the_time_that_is_kept_is_never_after_a_job_that_is_still_due(store, dispatcher):
    due = store.timeline.read_dispatched()[0] + 0.05
    set_job(store.at(due - 0.05), "job:A", f"AT:{due}", due, once=True)
    dispatcher.store = store.at(due - 0.01)
    dispatcher.dispatch_due()
    wait_until(lambda: store.timeline.read_dispatched()[0] > due + 0.05)
    dispatcher.timekeeper.keep_at_exit()
    assert store.timeline.read_dispatched()[1] == pytest.approx(due, abs=1e-5)


def test_a_dispatcher_that_no_token_reaches_sees_a_halt_all_the_same(store, dispatcher):
    store.signals.halt()
    store.client.delete(store.keys.halt)
    dispatcher.dispatch()


def test_keeping_the_time_reads_twice_and_writes_once(store):
    store.timeline.advance(1000.0, owner="OwnerOf1")
    store.client.config_resetstat()
    store.timeline.advance(2000.0, known=1000.0, owner="OwnerOf1", mine=1000.0)
    found = store.client.info("commandstats")
    calls = {name.removeprefix("cmdstat_"): found[name]["calls"] for name in found}
    assert {name: calls[name] for name in calls.keys() - {"config|resetstat", "info"}} == dict.fromkeys(
        ("evalsha", "time", "zmscore", "zadd"), 1
    )


@pytest.mark.parametrize("earlier", [0.0, -1000.0, 1000.0])
def test_what_is_known_of_redis_clock_follows_it(store, earlier, dispatcher):
    """Also if it has gone back or on in one step: here by what a pass was told of it."""
    dispatcher.dispatch_due(store.timeline.read_dispatched()[0] + earlier)
    for _ in range(5):
        dispatcher.dispatch_due()
    asked = time.monotonic()
    clock = store.timeline.read_dispatched()[0]
    received = time.monotonic()
    assert clock - received - 0.5 < dispatcher._offset < clock - asked + 0.5


def test_a_job_that_is_due_wakes_its_worker_before_the_next_survey(store, now, sent, dispatcher):
    """The server is not kept busy with the survey until whoever is woken has taken the job."""
    set_job(store.at(now - 1), "job:A", "EVERY:10@0.0", now)
    sent.clear()
    assert dispatcher.dispatch_due() == 1
    assert sent == ["survey", "dispatch", "survey"]
