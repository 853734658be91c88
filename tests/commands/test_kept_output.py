"""``output`` of a command: the output of its last run, which is kept in Redis."""

from collections.abc import Callable
from pathlib import Path

import pytest

from redbike import Redbike, RoundRobin
from redbike.commands.worker import Commands
from redbike.config import Settings
from redbike.keeping.fsck import fsck
from redbike.state.inspected import JobState
from redbike.state.keys import Keys
from redbike.state.store import Store
from redbike.working.worker import Worker
from tests.verbs import set_job

Works = Callable[..., JobState]


@pytest.fixture
def works(client, prefix: str, tmp_path: Path) -> Works:
    """Works x:A once, by a command `line` with `options`, and says how it stands then."""

    def working(line: str, options: str = "output = 1000") -> JobState:
        (tmp_path / "commands.ini").write_text(f"[commands]\nx = {line}\n[x]\nshell = /bin/sh\n{options}\n")
        handler = Commands("A", str(tmp_path / "commands.ini"))
        store = Store(client, prefix, handler.queue_for)
        set_job(store, "x:A", "NOW", "now", once=True)
        assert Worker(store, handler, Settings()).work_one() == "x:A"
        return store.questions.inspect(["x:A"], with_data=True)[0]

    return working


def test_the_output_of_the_last_run_is_kept(works: Works) -> None:
    assert works("echo one; echo two >&2").output == "one\ntwo"
    assert works("echo three; exit 3").output == "three"
    assert works("echo four; sleep 300", "output = 9\ntimeout = 0.5").output == "four"
    assert works("true").output == ""


def test_only_its_end_is_kept(works: Works) -> None:
    assert works("echo 123456789", "output = 5").output == "6789"
    many = works("yes 123456789 | head -n 2000", "output = 10000").output
    assert many == "\n".join(["123456789"] * 1000)


def test_it_is_safe_to_show(works: Works) -> None:
    assert works("printf 'a\\033[2J\\377b'").output == "a\\x1b[2J\\xffb"


def test_a_job_without_it_costs_nothing(works: Works, client, prefix: str) -> None:
    assert works("echo one", "").output is None
    assert not client.exists(Keys(prefix).outputs)


def test_unset_forgets_it(works: Works, client, prefix: str) -> None:
    works("echo one")
    store = Store(client, prefix, lambda jobid: "work-A")
    assert client.hgetall(Keys(prefix).outputs) == {b"x:A": b"one"}
    store.jobs.unset("x:A")
    assert not client.exists(Keys(prefix).outputs)


def test_what_is_left_of_a_job_that_is_gone_is_found_and_removed(client, prefix: str) -> None:
    bike = Redbike(RoundRobin("A"), prefix, client)
    client.hset(bike.store.keys.outputs, "gone:A", "two")
    assert list(fsck(bike.store)) == ["'gone:A': it has no schedule, but options, data, output, a group or ended runs"]
    [(line, is_well)] = bike.repair()
    assert (is_well, "its output removed" in line) == (True, True)
    assert not client.exists(bike.store.keys.outputs)


def test_show_prints_it(works: Works, shell, prefix: str) -> None:
    works("echo one; echo two")
    (shell.folder / ".redbike.conf").write_text(f"[redbike]\nprefix: {prefix}\n")
    done = shell.run("show", "x:A")
    assert done.stdout.count("Last output\n  one\n  two\n") == 1
    assert '"output": "one\\ntwo"' in shell.run("tell", "x:A").stdout
