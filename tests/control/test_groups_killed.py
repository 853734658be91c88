"""A group of a thousand jobs in real processes, which are killed meanwhile: what follows it runs once, at last."""

import itertools

import pytest

from redbike.store.inspection.fsck import fsck
from tests.test_faults import Farm, all_at_rest
from tests.waiting import wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(120)]

JOBS = 1000
OPTIONS = {"on_lost": "requeue"}


@pytest.fixture
def farm(tmp_path):
    farm = Farm(tmp_path)
    yield farm
    farm.close()
    farm.server.stop()


def test_the_follower_of_a_thousand_jobs_runs_once_after_the_last(farm):
    work = ("work", "jobs:Worker('A')", "--concurrency=4")
    workers, dispatchers = [farm.start(*work) for _ in range(2)], [farm.start("dispatch")]
    farm.wait_for_blocked([*workers, *dispatchers])
    jobs = [(f"{'slow' if number % 10 == 0 else 'fast'}{number}:A", "NOW", OPTIONS) for number in range(JOBS)]
    farm.bike.group("import-7", jobs, then="report:A")
    for killed, share in itertools.product(("worker", "dispatcher"), (0.2, 0.5)):
        wait_until(lambda share=share: len(farm.ran()) > share * JOBS, timeout=60)
        victims, command = (workers, work) if killed == "worker" else (dispatchers, ("dispatch",))
        victims[0].kill()
        victims.pop(0).wait()
        victims.append(farm.start(*command))
    wait_until(lambda: "report:A" in farm.ran() and all_at_rest(farm), timeout=90)
    ran = [line.split()[0] for line in farm.lines()]
    assert ran.count("report:A") == 1
    assert ran[-1] == "report:A"
    assert {jobid for jobid, *_ in jobs} == {*ran} - {"report:A"}
    assert farm.bike.client.hlen(farm.bike.store.keys.following) == 0
    assert farm.bike.client.zcard(farm.bike.store.keys.followers) == 0
    assert list(fsck(farm.bike.store)) == []
