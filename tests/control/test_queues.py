"""Pausing and limiting queues, in Python and on the command line."""

from types import SimpleNamespace

import pytest

from redbike import BadConfig, BadQueueName, Redbike
from redbike.store.queue_limits import QueueLimits
from tests.states import unchanged
from tests.verbs import Quiet

LATER = 4e9
BIKE = {"worker": Quiet, "queues": "A:B"}


def test_a_queue_is_paused_resumed_and_limited(bike):
    assert bike.pause_queue("A", until=LATER, reason="full disk")
    [limits] = bike.queue_limits()
    assert (limits.queue, limits.pause.until, limits.pause.reason) == ("work-A", LATER, "full disk")
    assert "@" in limits.pause.by
    assert not bike.pause_queue("work-A")
    assert bike.limit("B", at_once=5, rate="100/m") == QueueLimits("work-B", at_once=5, rate="100/m")
    assert bike.limit("B", rate=None) == QueueLimits("work-B", at_once=5)
    assert bike.limit("B") == QueueLimits("work-B", at_once=5)
    assert bike.resume_queue("A")
    assert not bike.resume_queue("A")
    assert bike.queue_limits() == [QueueLimits("work-B", at_once=5)]
    assert bike.pause_all()
    assert not bike.pause_all(reason="again")
    assert [limits.queue for limits in bike.queue_limits()] == ["", "work-B"]
    assert bike.resume_all()
    assert bike.limit("B", at_once=None).is_open
    assert bike.queue_limits() == []


@pytest.mark.parametrize(
    ("name", "full"),
    [("A", "work-A"), ("work-A", "work-A"), ("work-new", "work-new"), ("new", "work-new"), ("é", "work-é")],
)
def test_a_queue_has_a_full_name_and_with_stock_workers_a_short_one(bike, name, full):
    assert bike.find_queue(name) == full


def test_other_workers_have_full_names_alone(client, prefix):
    nothing = {"work": lambda jobid: None, "timeout": lambda queue_name: None}
    plain = SimpleNamespace(queue_for=lambda jobid: "mine", queue_names=lambda: ["mine"], **nothing)
    bike = Redbike(plain, prefix, client)
    assert bike.find_queue("mine") == "mine"
    assert bike.find_queue("A") == "A"


@pytest.mark.parametrize("name", ["", "a\nb", "schedules", "wake-A", 7, None])
def test_a_name_that_no_queue_can_have_is_quoted(bike, name):
    for act in (bike.limit, bike.resume_queue, bike.pause_queue):
        with unchanged(bike.store), pytest.raises(BadQueueName) as refused:
            act(name)
        assert repr(name) in str(refused.value)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"until": 1000.0}, "bad until 1000.0"),
        ({"reason": "two\nlines"}, "bad reason 'two\\nlines'"),
    ],
)
def test_a_pause_that_cannot_be_is_refused(bike, more, said):
    for act in (lambda: bike.pause_queue("A", **more), lambda: bike.pause_all(**more)):
        with pytest.raises(BadConfig) as refused:
            act()
        assert said in str(refused.value)
    assert bike.queue_limits() == []


def test_an_unknown_limit_is_refused(bike):
    with pytest.raises(TypeError, match="no limit 'atonce'"):
        bike.limit("A", atonce=5)


def test_the_command_line_pauses_and_limits_queues(shell, server_url):
    bike = Redbike(Quiet(), redis_config=server_url)
    bike.set("job:A", "EVERY:1h")
    bike.set("now:A", "NOW")
    assert shell.run("limit", "A", "--at-once=2", "--rate=5/s").stdout == ""
    assert shell.run("limit", "work-A").stdout == "work-A: at once 2, rate 5/s\n"
    assert shell.run("limit", "A", "--rate=None").stdout == ""
    assert shell.run("limit", "A").stdout == "work-A: at once 2, rate none\n"
    assert shell.run("pause", "--queue=A", "--dry-run").stdout == "work-A\n"
    assert bike.queue_limits() == [QueueLimits("work-A", at_once=2)]
    paused = shell.run("pause", "--queue=A", "--until=2100-01-01", "--reason=full disk")
    assert (paused.returncode, paused.stdout, paused.stderr) == (0, "", "")
    assert bike.work_one() is None
    [limits] = bike.queue_limits()
    assert (limits.pause.until, limits.pause.reason) == (4102444800.0, "full disk")
    assert "redbike: work-A: it was paused already" in shell.run("pause", "--queue=A", "--until=2101-01-01").stderr
    assert bike.queue_limits() == [limits]
    assert shell.run("resume", "--queue=work-A").stderr == ""
    assert shell.run("resume", "--queue=work-A").stderr == "redbike: work-A: it was not paused\n"
    assert shell.run("pause", "--all", "--dry-run").returncode == 0
    assert shell.run("pause", "--all").stderr == ""
    assert "redbike: everything: it was paused already" in shell.run("pause", "--all").stderr
    assert bike.work_one() is None
    assert list(bike.fsck()) == []
    assert shell.run("resume", "--all").stderr == ""
    assert shell.run("resume", "--all").stderr == "redbike: everything: it was not paused\n"
    assert bike.work_one() == "now:A"
    done = shell.run("pause", "--queue=B")
    assert (done.returncode, done.stderr) == (0, "redbike: the queue 'work-B' was never used\n")
