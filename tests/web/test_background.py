"""What is computed beside the requests."""

import threading

import pytest

from redbike.errors import BadConfig, Unreachable
from redbike.store.sharded.missing import note_missing
from redbike.web.background import MOST_RESULTS, MOST_WAITING, Background
from tests.loops import raising
from tests.waiting import wait_until


class Counted:
    """Something to compute: how often it was, and it waits until it may end."""

    def __init__(self, may_end=True):
        self.times = 0
        self.may_end = threading.Event()
        if may_end:
            self.may_end.set()

    def __call__(self, report):
        self.times += 1
        report(45, 100)
        assert self.may_end.wait(60)
        return f"result {self.times}"


def get(background, key, compute):
    """Ask for a task; return the one that goes on, in place of how it is now."""
    background.get(key, compute)
    return background._tasks[key]


def is_done(task):
    return lambda: task.progress is None


@pytest.fixture
def background():
    return Background()


def test_it_is_computed_once_for_all_who_ask(background):
    counted = Counted(may_end=False)
    tasks = [get(background, "day", counted) for _ in range(50)]
    wait_until(lambda: tasks[0].progress == 0.45)
    assert {id(task) for task in tasks} == {id(tasks[0])}
    assert tasks[0].age is None
    shown = background.get("day", counted)
    counted.may_end.set()
    wait_until(is_done(tasks[0]))
    # What is shown does not end while a page is written.
    assert (shown.result, shown.progress) == (None, 0.45)
    shown = background.get("day", counted)
    assert (shown.result, shown.progress, counted.times) == ("result 1", None, 1)


def test_it_is_computed_again_when_it_is_old_and_shown_meanwhile(background):
    counted = Counted()
    task = get(background, "day", counted)
    wait_until(is_done(task))
    # What took long is kept for long.
    task._took, task._ended = 100.0, task._ended - 900
    assert get(background, "day", counted).progress is None
    task._ended -= 200
    counted.may_end.clear()
    again = get(background, "day", counted)
    wait_until(lambda: again.progress == 0.45)
    assert (again.result, again.age > 1000) == ("result 1", True)
    counted.may_end.set()
    wait_until(is_done(again))
    assert again.result == "result 2"


@pytest.mark.parametrize(("missing", "times"), [({}, 1), ({"{app:01}": Unreachable("Redis is away")}, 2)])
def test_what_lacks_a_shard_is_not_kept_for_as_long_as_that_has_cost(background, missing, times):
    counted = Counted()

    def count(report):
        note_missing(missing)
        return counted(report)

    task = get(background, "day", count)
    wait_until(is_done(task))
    task._took, task._ended = 15.0, task._ended - 20
    task = get(background, "day", count)
    wait_until(is_done(task))
    assert (task.missing, counted.times) == (missing, times)


def test_an_old_result_lacks_what_it_lacked(background):
    def fail(report):
        note_missing({"{app:02}": Unreachable("Redis is away")})
        raise Unreachable("Redis is away")

    task = get(background, "day", Counted())
    wait_until(is_done(task))
    task._ended -= 60
    wait_until(is_done(get(background, "day", fail)))
    assert (task.result, task.problem, task.missing) == ("result 1", "Redis is away", {})


@pytest.mark.parametrize("error", [BadConfig("no such thing"), Unreachable("Redis is away"), ZeroDivisionError()])
def test_what_cannot_be_computed_says_why_and_is_tried_again(background, error):
    task = get(background, "day", raising(error))
    wait_until(is_done(task))
    assert task.problem in (str(error), "it cannot be computed; the log of this page says why")
    assert get(background, "day", raising(error)).progress is None  # not at once
    task._ended -= 60
    counted = Counted()
    wait_until(is_done(get(background, "day", counted)))
    assert (task.result, task.problem) == ("result 1", "")


def test_only_some_wait_and_only_some_are_kept(background):
    counted = Counted(may_end=False)
    tasks = [get(background, "first", counted)]
    wait_until(lambda: tasks[0].progress == 0.45)  # it does not wait any more
    tasks += [get(background, number, counted) for number in range(2 * MOST_RESULTS)]
    assert sum(task.progress is not None for task in tasks) <= MOST_WAITING + 1
    assert "too many other counts" in tasks[-1].problem
    counted.may_end.set()
    wait_until(lambda: all(task.progress is None for task in tasks))
    wait_until(is_done(get(background, "new", counted)))
    assert len(background._tasks) <= MOST_RESULTS


def test_it_ends_with_its_site_and_leaves_no_thread(background):
    has_begun, others = threading.Event(), threading.enumerate()

    def go_on(report):
        while True:
            has_begun.set()
            report(1, 2)

    with background.open():
        task = get(background, "day", go_on)
        assert has_begun.wait(60)
    wait_until(is_done(task))
    wait_until(lambda: set(threading.enumerate()) <= set(others))
