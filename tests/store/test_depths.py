"""The queues as an operator sees them."""

from collections import Counter
from dataclasses import replace

import pytest

from redbike.store.sharded.merging import add_queues
from redbike.store.tally import MOST_RECENT, PART, RECENT, format_recent, parse_recent
from redbike.store.totals import TOGETHER, Queue
from tests.queries.kept import add_runs, make_run
from tests.states import NOW, QUEUE, START
from tests.verbs import set_job, take_many


def fill(store, number, name="A", began=START):
    for each in range(number):
        set_job(store.at(began + each), f"{each}:{name}", "EVERY:100@0.0", began + each)


def the_queue(store, now=NOW, name=QUEUE):
    return {each.queue: each for each in store.at(now).depths.list_all()}[name]


def test_what_waits_and_what_runs_is_counted_by_queue(store):
    fill(store, 5)
    fill(store, 2, "B")
    assert store.at(NOW).depths.list_all() == [
        Queue(QUEUE, waiting=5, oldest_due=START, in_flight=0, paused=None, at_once=None, rate=0),
        Queue("work-B", waiting=2, oldest_due=START, in_flight=0, paused=None, at_once=None, rate=0),
    ]
    take_many(store.at(NOW), [(QUEUE, 100.0)], [1], "tag", 3)
    assert the_queue(store) == Queue(QUEUE, 2, START + 3, 3, None, None, 0)
    take_many(store.at(NOW), [(QUEUE, 100.0)], [1], "other", 3)
    assert the_queue(store) == Queue(QUEUE, 0, None, 5, None, None, 0)


def test_of_several_shards_that_job_is_the_first_that_waits_longest(store):
    set_job(store.at(START), "first:A", "EVERY:100@0.0", START)
    set_job(store.at(START + 9), "second:B", "EVERY:100@0.0", START - 500)
    shards = [[replace(the_queue(store, name=name), queue=QUEUE)] for name in (QUEUE, "work-B")]
    for lists in (shards, shards[::-1]):
        [found] = add_queues(lists)
        assert (found.first, found.oldest_due, found.since, found.waiting) == ("first:A", START, START, 2)


def test_each_job_that_is_late_is_counted_once_on_several_pages(store):
    fill(store, 250)
    [found] = store.at(START + 250).depths.list_all(late_since=START + 230.5)
    assert (found.waiting, found.late) == (250, 231)


@pytest.mark.parametrize("number", [1, 99, 100, 101])
def test_withdrawn_jobs_do_not_count_and_hide_none(store, number):
    fill(store, number + 2)
    for each in range(number):
        set_job(store, f"{each}:A", "STOP", None)
    assert the_queue(store) == Queue(QUEUE, 2, START + number, 0, None, None, 0)
    for each in range(number, number + 2):
        store.jobs.unset(f"{each}:A")
    assert the_queue(store) == Queue(QUEUE, 0, None, 0, None, None, 0)


def test_a_queue_is_paused_by_itself_or_with_everything_and_until_then(store):
    fill(store, 1)
    store.at(NOW).queue_limits.pause(QUEUE, NOW + 10)
    assert the_queue(store, NOW + 5).paused == NOW
    assert the_queue(store, NOW + 10).paused is None
    store.at(NOW + 2).queue_limits.pause("")
    assert the_queue(store, NOW + 5).paused == NOW
    assert the_queue(store, NOW + 10).paused == NOW + 2
    store.queue_limits.limit(QUEUE, at_once=3)
    assert the_queue(store).at_once == 3


def end(store, ended, queue=QUEUE, number=1):
    add_runs(store, *[make_run(ended - 5, 2.0, 3.0, queue=queue)] * number)


@pytest.mark.parametrize("archived", [False, True])
def test_the_rate_is_what_has_ended_in_the_last_minute(store, archived):
    fill(store, 1)
    fill(store, 1, "B")
    moment = NOW
    for ago, number in ((100, 1), (71, 2), (50, 4), (30, 8), (0.5, 16)):
        end(store, moment - ago, number=number)
        if archived:
            assert len(list(store.archiver.archive())) == 1
    end(store, moment - 1, "work-B", number=7)
    assert the_queue(store, moment).rate == 4 + 8 + 16
    assert the_queue(store, moment, "work-B").rate == 7
    assert the_queue(store, moment + 40).rate in (16, 24)
    assert the_queue(store, moment + 100).rate == 0


def test_what_is_kept_of_the_last_minute_is_bounded_and_may_be_damaged(store):
    before, added = parse_recent(""), parse_recent("")
    for number in range(MOST_RECENT + 100):
        before[50, f"work-{number}"] = before[300, f"work-{number}"] = added[100, f"work-{number}"] = 1
    kept = parse_recent(format_recent(before, added))
    assert ({part for part, _ in kept}, len(kept)) == ({100}, MOST_RECENT)
    before, added = (Counter({(part, "a"): 1 for part in parts}) for parts in (range(100), [100]))
    assert min(parse_recent(format_recent(before, added))) == (100 - RECENT // PART, "a")
    for damaged in ("", "x", "7", "[1]", '{"a": 7}', '{"a": {"x": 1}}', '{"a": {"1": []}}', "[" * 10_000):
        assert not parse_recent(damaged)
    store.client.hset(store.keys.counts, "recent", "damaged")
    fill(store, 1)
    end(store, NOW)
    assert the_queue(store).rate == 1


@pytest.mark.parametrize("archived", [True, False])
def test_the_runs_of_each_minute_of_the_last_hour_are_counted(store, archived):
    fill(store, 1)
    begin = NOW // 60 * 60
    for minute, number in ((-61, 1), (-59, 2), (-1, 4), (0, 8)):
        end(store, begin + 60 * minute, number=number)
        end(store, begin + 60 * minute + 59.9, "work-B", number=1)
        if archived:
            assert len(list(store.archiver.archive())) == 1
    counted = store.journal.count_hour(begin + 1)
    assert counted == {"work-A": [2, *[0] * 57, 4, 8], "work-B": [1, *[0] * 57, 1, 1]}
    assert store.journal.count_hour(begin + 60)["work-A"] == [*[0] * 57, 4, 8, 0]
    assert store.journal.count_hour(begin + 3600) == {}
    store.client.hset(store.keys.counts, "hour", "damaged")
    assert store.journal.count_hour(begin + 1) == ({} if archived else counted)


def test_a_clock_that_was_ahead_hides_no_run_for_long(store):
    fill(store, 1)
    for moment in (NOW + 3600, NOW, NOW + 1):
        end(store, moment)
        list(store.archiver.archive())
    assert the_queue(store, NOW + 2).rate == 2


def test_a_queue_that_was_never_used_is_there_if_it_is_paused_or_limited(store):
    store.queue_limits.pause("work-held", reason="a reason")
    store.queue_limits.limit("work-few", at_once=2)
    store.queue_limits.pause("work-past")
    store.queue_limits.open("work-past", resume=True)
    found = {queue.queue: (queue.waiting, queue.paused is not None, queue.at_once) for queue in store.depths.list_all()}
    assert found == {"work-few": (0, False, 2), "work-held": (0, True, None)}


def test_more_queues_than_one_script_looks_at(store):
    for number in range(2 * TOGETHER + 1):
        fill(store, 1, f"{number:03}")
    found = store.depths.list_all()
    assert [each.queue for each in found] == [f"work-{number:03}" for number in range(2 * TOGETHER + 1)]
    assert all(each.waiting == 1 for each in found)
