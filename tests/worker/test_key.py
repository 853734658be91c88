"""The key of a run: no other occurrence has it, and each try of the same one does."""

import pytest

from redbike import Again, CommandFailed, Redbike, RoundRobin, StopWork, current_run
from tests.commandline import Shell
from tests.verbs import run_job
from tests.waiting import wait_until


class Noting(RoundRobin):
    """Notes the keys of its runs; raises what comes next in `acts`, which may be None."""

    def __init__(self, *acts):
        super().__init__("A")
        self.keys, self.acts = [], list(acts)

    def work(self, jobid):
        self.keys.append(current_run().key)
        act = self.acts.pop(0) if self.acts else None
        if act is not None:
            raise act


@pytest.fixture
def make(client, prefix):
    return lambda *acts, **settings: Redbike(Noting(*acts), prefix, client, **settings)


def work_off(bike):
    while bike.dispatch_due() or bike.work_one():
        pass
    return bike.worker.keys


def test_now_set_again_and_again_has_another_key_each_time(make):
    bike = make()
    for _ in range(20):
        bike.set("a:A", "NOW")
        work_off(bike)
    assert len(set(bike.worker.keys)) == len(bike.worker.keys) == 20


def test_each_run_of_continue_has_another_key(make):
    keys = work_off(bike := make(*[None] * 9, StopWork()))
    assert keys == []
    bike.set("a:A", "CONTINUE")
    assert len(set(work_off(bike))) == 10


def test_each_try_of_an_occurrence_has_the_same_key(make):
    bike = make(ValueError(), Again(), ValueError(), CommandFailed("no"), on_error="retry", retries=2, backoff=0.001)
    bike.set("a:A", "NOW")
    wait_until(lambda: len(work_off(bike)) == 4)
    assert bike.tell("a:A")["status"].startswith("DIE")
    run_job(bike.store, "a:A")
    assert len(work_off(bike)) == 5
    assert len(set(bike.worker.keys)) == 1
    run_job(bike.store, "a:A")
    assert len(set(work_off(bike))) == 2, "what has succeeded is over"


@pytest.mark.parametrize(
    ("jobid", "start"), [("a:A", "a:A@"), ("50% of ü:A", "50%25%20of%20%C3%BC:A@"), ("~/x@1:A", "~/x@1:A@")]
)
def test_a_key_is_ascii_and_begins_with_the_job_id(make, jobid, start):
    bike = make()
    bike.set(jobid, "AT:1000.25")
    (key,) = work_off(bike)
    assert key == f"{start}1000.25"


def test_a_command_finds_its_key(shell: Shell, server_url):
    (shell.folder / "commands.ini").write_text("[commands]\nx: printenv REDBIKE_KEY\n")
    bike = Redbike(RoundRobin("A"), redis_config=server_url)
    bike.set("x:A", "AT:1000.25")
    shell.start("up", "redbike.commands:Commands('A', 'commands.ini')")
    wait_until(lambda: "x:A: x:A@1000.25" in shell.log())
