"""Processes that would damage each other's jobs do not work under one prefix: the number of the protocol is agreed."""

import pytest

from redbike import Redbike
from redbike.errors import OtherProtocol
from redbike.loop import registration as presence
from redbike.store import agreed
from redbike.store.agreed import PROTOCOL
from tests.commandline import make_module
from tests.loops import beside
from tests.verbs import Quiet
from tests.waiting import wait_until

WORKER = make_module()


@pytest.fixture
def bike(client, monkeypatch):
    monkeypatch.setattr(agreed, "REREAD", 0.0)
    return Redbike(Quiet("A"), "redbike", client)


def note(bike, number):
    bike.client.hset(bike.store.keys.agreed, "protocol", number)


def read(bike):
    return int(bike.client.hget(bike.store.keys.agreed, "protocol") or 0)


OLDER, NEWER = (-1, "an older version of redbike works"), (1, "a newer version")


@pytest.mark.parametrize(
    ("command", "step", "said"),
    [("dispatch", *NEWER), ("work jobs:Worker('A')", *OLDER), ("set a:A NOW", *OLDER), ("run a:A", *NEWER)],
)
def test_another_protocol_is_refused(bike, jobs, command, step, said):
    bike.set("a:A", "AT:4102444800")
    number = PROTOCOL + step
    with beside(bike.store, bike.dispatch):
        wait_until(bike.workers)
        note(bike, number)
        before = bike.client.hgetall(bike.store.keys.statuses)
        done = jobs.run(*command.split())
        assert (done.returncode, done.stderr.count("redbike: ")) == (1, 1), done.stderr
        assert said in done.stderr
        assert f"(protocol {number}, this one has {PROTOCOL})" in done.stderr
        assert bike.client.hgetall(bike.store.keys.statuses) == before
        assert read(bike) == number


def test_a_higher_one_is_agreed_on_when_nobody_works(bike):
    assert read(bike) == 0
    with beside(bike.store, bike.work):
        wait_until(lambda: read(bike) == PROTOCOL)
    note(bike, PROTOCOL - 1)
    with pytest.raises(OtherProtocol, match=r"then start a worker of this version$"):
        bike.set("a:A", "NOW")
    with beside(bike.store, bike.work):
        wait_until(lambda: read(bike) == PROTOCOL)
        bike.set("a:A", "NOW")
        wait_until(lambda: bike.runs())


def test_a_process_ends_that_was_suspended_while_others_were_upgraded(bike, caplog, monkeypatch):
    monkeypatch.setattr(presence, "INTERVAL", 0.6)
    with beside(bike.store, bike.work, bike.dispatch) as loops:
        wait_until(lambda: len(bike.workers()) == 2)
        note(bike, PROTOCOL + 1)
        wait_until(lambda: not any(loop.is_alive() for loop in loops))
    assert sum("this process ends: a newer version" in text for text in caplog.messages) >= 2


def test_an_idle_worker_ends_that_a_newer_version_has_forgotten(bike, caplog):
    """Its takes are answered more often than it would register by itself."""
    with beside(bike.store, bike.work) as (loop,):
        wait_until(bike.workers)
        # As `lua/register.lua` does when no process of an older one is alive.
        note(bike, PROTOCOL + 1)
        bike.client.delete(bike.store.keys.seen, bike.store.keys.workers)
        wait_until(lambda: not loop.is_alive())
    assert [text for text in caplog.messages if "this process ends: a newer version" in text]
