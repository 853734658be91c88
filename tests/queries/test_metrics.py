"""The metrics for Prometheus: they are what was done, and name no job."""

import math
import re

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from redbike import Unreachable, __version__
from redbike.queries import metrics
from redbike.queries.metrics import OTHERS, Metrics
from redbike.store.enums import Outcome, Skip
from redbike.store.store import Store
from redbike.store.tally import BUCKETS
from tests import states
from tests.commandline import ROOT
from tests.queries import kept
from tests.queries.kept import register
from tests.states import DUE, JOB, NOW, OLD, QUEUE, START
from tests.verbs import set_job

LABELS = ("version", "queue", "kind", "state", "outcome", "reason", "le")


def read(store, now=NOW):
    """The samples, by name and labels."""
    text = Metrics(lambda: store.at(now)).format()
    return {
        (sample.name, *(sample.labels[name] for name in LABELS if name in sample.labels)): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def remember(store, outcome=Outcome.OK, took=1.0, queue=QUEUE, jobid=JOB, waited=0.0, attempt=1):
    store.client.sadd(store.keys.queues, queue)
    kept.remember(store, 900.0, waited, took, outcome, "", jobid, queue, attempt)


def test_an_empty_server(store):
    found = read(store)
    assert found.pop(("redbike_up",)) == 1
    assert found.pop(("redbike_build_info", __version__)) == 1
    names = """jobs timeline_jobs due_jobs dispatch_lag_seconds paused_jobs failing_jobs dead_jobs late_jobs
        unarchived_entries missing_shards skipped_total forgotten_jobs_total rewinds_total unacknowledged_rewinds
        processes server_refuses_changes"""
    assert {name for name, *_ in found} == {f"redbike_{name}" for name in names.split()}
    assert set(found.values()) == {0}


def test_jobs_queues_and_processes(store):
    states.queue(store)
    set_job(store.at(START), "next:A", OLD, DUE)
    set_job(store.at(START), "last:A", OLD, NOW + 1)
    set_job(store.at(START), "run:B", OLD, START)
    states.take(store, now=NOW, queues=[("work-B", 500.0)])
    store.at(START).pauses.pause(["last:A"], None, "me", "")
    store.queue_limits.pause("work-B")
    for number in (1, 2):
        register(store, "worker", number)
    register(store, "dispatcher", now=NOW - 20)
    found = read(store)
    assert found["redbike_jobs",] == 4
    assert (found["redbike_timeline_jobs",], found["redbike_due_jobs",]) == (1, 1)
    assert found["redbike_dispatch_lag_seconds",] == NOW - DUE
    assert found["redbike_paused_jobs",] == 1
    names = ("waiting_jobs", "lag_seconds", "in_flight_jobs")
    assert [found[f"redbike_queue_{name}", QUEUE] for name in names] == [1, NOW - START, 0]
    assert found["redbike_queue_in_flight_jobs", "work-B"] == 1
    assert (found["redbike_queue_paused", QUEUE], found["redbike_queue_paused", "work-B"]) == (0, 1)
    assert [found["redbike_processes", *labels] for labels in (("worker", "alive"), ("dispatcher", "lost"))] == [2, 1]
    assert found["redbike_processes", "dispatcher", "alive"] == 0


def test_due_jobs_are_no_lag_while_everything_is_paused(store):
    set_job(store.at(START), JOB, OLD, DUE)
    for until, lag in ((None, 0), (NOW + 1, 0), (NOW - 1, NOW - DUE)):
        store.at(START).queue_limits.pause("", until, replaces=True)
        found = read(store)
        assert (found["redbike_due_jobs",], found["redbike_dispatch_lag_seconds",]) == (1, lag)


def read_histogram(found, name):
    """The counts of a histogram by their bounds."""
    bounds = [*map(str, BUCKETS), "+Inf"]
    return [found[f"redbike_{name}_seconds_bucket", QUEUE, bound] for bound in bounds]


def count_within(values):
    return [sum(value <= bound for value in values) for bound in (*BUCKETS, math.inf)]


def test_how_late_the_first_tries_of_occurrences_began(store):
    delays = [0.0, 0.004, 0.3, 5.0, 5.1, 90000.0]
    for waited in delays:
        remember(store, waited=waited)
    delays.append(0.3)
    remember(store, Outcome.LOST, waited=0.3)
    remember(store, waited=700.0, attempt=2)  # it waited for the first try
    for _ in range(2):
        found = read(store)
        assert read_histogram(found, "start_delay") == count_within(delays)
        assert math.isclose(found["redbike_start_delay_seconds_sum", QUEUE], sum(delays), rel_tol=1e-6)
        list(store.archiver.archive())


def test_each_figure_has_its_prefix_so_that_those_of_two_can_be_told_apart(store, client, prefix):
    other = Store(client, f"{prefix}other", states.queue_for)
    for each in (store, other):
        states.queue(each)
        remember(each)
    for given, shown in ((None, prefix), ("mine", "mine")):
        for family in text_string_to_metric_families(Metrics(lambda: store, given).format()):
            assert {sample.labels["prefix"] for sample in family.samples} == {shown}, family
    both = CollectorRegistry()
    registered = [Metrics(lambda: store), Metrics(lambda: other)]
    for figures in registered:
        both.register(figures)
    assert generate_latest(both).decode().count("\nredbike_jobs{") == 2


def test_a_server_that_answers_may_refuse_changes(node, prefix):
    store = Store(node.client, prefix, states.queue_for)
    for number in (0, 1):
        node.client.config_set("min-replicas-to-write", number)
        found = read(store)
        assert (found["redbike_up",], found["redbike_server_refuses_changes",]) == (1, number)


def test_runs_by_outcome_and_how_long_they_took(store):
    took = [0.001, 0.02, 1.0, 1.5, 1e5]
    for seconds in took:
        remember(store, took=seconds)
    took.append(0.02)
    remember(store, Outcome.FAILED, 0.02)
    remember(store, Outcome.LOST, 1e6)  # nobody knows how long it took
    for _ in range(2):
        found = read(store)
        runs = {outcome: found["redbike_runs_total", QUEUE, outcome] for outcome in Outcome}
        assert runs == dict.fromkeys(Outcome, 0) | {Outcome.OK: 5, Outcome.FAILED: 1, Outcome.LOST: 1}
        assert read_histogram(found, "run_duration") == count_within(took)
        assert found["redbike_run_duration_seconds_count", QUEUE] == 6
        assert math.isclose(found["redbike_run_duration_seconds_sum", QUEUE], sum(took), rel_tol=1e-6)
        list(store.archiver.archive())
    assert found["redbike_unarchived_entries",] == 0


def test_what_was_skipped_by_reason(store):
    store.client.hset(store.keys.skipped, mapping={f"missed:{JOB}": 3, "missed:": 3, "late:": 2})
    found = read(store)
    skipped = {reason: found["redbike_skipped_total", reason] for reason in Skip}
    assert skipped == dict.fromkeys(Skip, 0) | {Skip.MISSED: 3, Skip.LATE: 2}


def test_a_counter_keeps_what_a_job_has_counted_that_was_unset(bike, store):
    """``tell`` knows only what the job that there is has skipped."""
    bike.set(JOB, "EVERY:1h")
    bike.run(JOB)
    bike.cancel(JOB)
    assert bike.tell(JOB)["skipped"] == {"cancelled": 1}
    bike.unset(JOB)
    bike.set(JOB, "EVERY:1h")
    assert "skipped" not in bike.tell(JOB)
    assert read(store)["redbike_skipped_total", "cancelled"] == 1


def test_no_job_is_named_and_many_queues_share_figures(store, monkeypatch):
    monkeypatch.setattr(metrics, "MOST_QUEUES", 3)
    for letter in "ABCDE":
        moment = START - 200 + ord(letter)
        set_job(store.at(moment), f"secret.{letter}:{letter}", OLD, moment)
        remember(store, queue=f"work-{letter}", jobid=f"secret.{letter}:{letter}")
    store.queue_limits.pause("work-D")
    text = Metrics(lambda: store.at(NOW)).format()
    assert "secret" not in text
    assert "work-D" not in text
    found = read(store)
    shown = {name: found["redbike_queue_waiting_jobs", name] for name in ("work-A", "work-B", "work-C", OTHERS)}
    assert list(shown.values()) == [1, 1, 1, 2]
    assert found["redbike_queue_lag_seconds", OTHERS] == NOW - START + 200 - ord("D"), "the first of both"
    assert found["redbike_queue_paused", OTHERS] == 0, "one of them is not"
    assert found["redbike_runs_total", OTHERS, "ok"] == 2
    assert found["redbike_run_duration_seconds_count", OTHERS] == 2


def test_the_number_of_figures_does_not_grow_with_that_of_jobs(store):
    states.queue(store)
    before = read(store).keys()
    for number in range(50):
        set_job(store.at(START), f"{number}:A", OLD, DUE)
        remember(store, jobid=f"{number}:A")
    assert read(store).keys() == before


def test_hostile_names_of_queues(store):
    name = 'work-"a\\b|ü:c'
    store.client.sadd(store.keys.queues, name)
    store.client.lpush(store.keys.queue(name), "x")
    remember(store, queue=name)
    found = read(store)
    assert found["redbike_queue_waiting_jobs", name] == 1
    assert found["redbike_runs_total", name, "ok"] == 1


def test_a_server_that_goes_away_and_comes_back(store, caplog):
    answers = [Unreachable("it is away"), Unreachable("it is away"), store]

    def open_store():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    figures = Metrics(open_store)
    for _ in range(2):
        assert figures.format().splitlines()[-1] == 'redbike_up{prefix=""} 0.0'
    assert caplog.messages == ["there are no metrics: it is away"], "said once"
    assert f'redbike_up{{prefix="{store.keys.prefix}"}} 1.0' in figures.format()
    assert figures.problem == ""
    store.client.xadd(store.keys.schedules, {"wrong": "type"})
    assert f'redbike_up{{prefix="{store.keys.prefix}"}} 0.0' in figures.format()
    assert "is a stream, not a hash" in figures.problem
    store.client.delete(store.keys.schedules)
    assert f'redbike_up{{prefix="{store.keys.prefix}"}} 1.0' in figures.format()
    assert answers == []


def test_the_facade_gives_the_text(bike, prefix):
    bike.set(JOB, "EVERY:1h")
    assert f'\nredbike_jobs{{prefix="{prefix}"}} 1.0\n' in bike.metrics()


def test_the_page_has_every_figure(store):
    states.queue(store)
    page = (ROOT / "docs" / "monitoring.rst").read_text()
    shown = set(re.findall(r"^``(redbike_\w+)", page, re.MULTILINE))
    exported = set(re.findall(r"^# TYPE (\w+)", Metrics(lambda: store).format(), re.MULTILINE))
    assert shown == exported
