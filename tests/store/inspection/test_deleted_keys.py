"""What the reference of keys says about keys that somebody deletes."""

import re

import pytest

from redbike import Redbike, RoundRobin
from redbike.store.keys import FIXED
from tests.commandline import ROOT
from tests.store.inspection.mending import repaired
from tests.verbs import take_many

QUEUE = "work-A"
LATER = 4e9
PAGE = (ROOT / "docs" / "reference-keys.rst").read_text()


def read_names(title):
    """Return the names of the keys that the page lists under `title`."""
    found = re.search(rf"^- \*\*{title}:\*\*(.*?)(?=^- )", PAGE, re.MULTILINE | re.DOTALL)
    return re.findall("``-([a-z-]+)``", found[1])


PLACES, REPORTS = read_names("Places of jobs"), read_names("Reports")


class Worker(RoundRobin):
    def work(self, jobid):
        if jobid.startswith("fails"):
            raise OSError("no luck")


@pytest.fixture
def bike(client, prefix, server_url):
    """A job in each place, and something in each report."""
    bike = Redbike(Worker("A"), prefix, server_url, noted_as="ops@example.org")
    for jobid in ("ran:A", "fails:A", "fails-too:A"):
        bike.set(jobid, "NOW")
    while bike.work_one():
        pass
    bike.run("fails-too:A")
    bike.limit("A", at_once=5)
    bike.set("flies:A", "NOW")
    take_many(bike.store, [(QUEUE, 500.0)], [1], "tag", 9)
    bike.set("waits:A", "NOW")
    bike.set("later:A", "EVERY:1h")
    bike.set("paused:A", "EVERY:1h")
    bike.pause("paused:A", until=LATER)
    assert list(bike.fsck()) == []
    return bike


def read_jobs(bike):
    return {job.jobid: (job.status, job.next_run, job.paused, job.is_running) for job in bike.jobs()}


def test_the_page_names_keys_that_there_are():
    assert {*PLACES, *REPORTS} <= {*FIXED}
    assert len({*PLACES, *REPORTS}) == len(PLACES) + len(REPORTS) == 18


@pytest.mark.parametrize("name", [*PLACES, QUEUE])
def test_a_repair_makes_the_places_of_jobs_again(bike, client, name):
    before = read_jobs(bike)
    assert client.delete(f"{bike.prefix}-{name}") == 1
    assert list(bike.fsck()) != []
    repaired(bike)
    after = read_jobs(bike)
    assert after.keys() == before.keys()
    going = ("later:A", "paused:A", "flies:A", "waits:A")
    assert {jobid: after[jobid][0] for jobid in going} == {jobid: before[jobid][0] for jobid in going}
    assert after["later:A"][1] is not None


@pytest.mark.parametrize("name", REPORTS)
def test_no_job_changes_if_a_report_is_deleted(bike, client, name):
    before = read_jobs(bike)
    names = ("failures", "failure-times") if name.startswith("failure") else (name,)
    client.delete(*(f"{bike.prefix}-{each}" for each in names))
    assert list(bike.fsck()) == []
    assert read_jobs(bike) == before
