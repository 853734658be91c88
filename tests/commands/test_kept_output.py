"""``output`` of a command: the output of its last run, which is kept in Redis."""

import pytest

from redbike import Redbike, RoundRobin
from redbike.store.inspection.fsck import fsck
from redbike.store.keys import Keys
from redbike.store.store import Store


@pytest.fixture
def keeps(works):
    """What is kept of the output of x:A when it has run once, by a shell."""
    return lambda line, options="output = 1000": works(line, f"shell = /bin/sh\n{options}", "NOW").output


def test_the_end_of_the_output_of_the_last_run_is_kept_until_unset(keeps, client, prefix):
    assert keeps("echo one", "") is None
    assert not client.exists(Keys(prefix).outputs)
    assert keeps("echo one; echo two >&2") == "one\ntwo"
    assert keeps("echo three; exit 3") == "three"
    assert keeps("echo four; sleep 300", "output = 9\ntimeout = 0.5") == "four"
    assert keeps("true") == ""
    assert keeps("echo 123456789", "output = 5") == "6789"
    assert keeps("yes 123456789 | head -n 2000", "output = 10000") == "\n".join(["123456789"] * 1000)
    assert keeps("printf 'a\\033[2J\\377b'") == "a\\x1b[2J\\xffb", "it is safe to show"
    keeps("echo one")
    assert client.hgetall(Keys(prefix).outputs) == {b"x:A": b"one"}
    Store(client, prefix, lambda jobid: "work-A").jobs.unset("x:A")
    assert not client.exists(Keys(prefix).outputs)


def test_what_is_left_of_a_job_that_is_gone_is_found_and_removed(client, prefix):
    bike = Redbike(RoundRobin("A"), prefix, client)
    client.hset(bike.store.keys.outputs, "gone:A", "two")
    assert list(fsck(bike.store)) == ["'gone:A': it has no schedule, but options, data, output, a group or ended runs"]
    [(line, is_well)] = bike.repair()
    assert (is_well, "its output removed" in line) == (True, True)
    assert not client.exists(bike.store.keys.outputs)


def test_show_prints_it(keeps, shell, prefix):
    keeps("echo one; echo two")
    (shell.folder / ".redbike.conf").write_text(f"[redbike]\nprefix: {prefix}\n")
    done = shell.run("show", "x:A")
    assert done.stdout.count("Last output\n  one\n  two\n") == 1
    assert '"output": "one\\ntwo"' in shell.run("tell", "x:A").stdout
