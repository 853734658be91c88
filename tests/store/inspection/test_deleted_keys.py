"""What the reference of keys says about keys that somebody deletes."""

import re

import pytest

from redbike.store.keys import FIXED
from tests.commandline import ROOT
from tests.verbs import Telling, take_many

QUEUE = "work-A"
PAGE = (ROOT / "docs" / "reference-keys.rst").read_text()


def read_names(title):
    """Return the names of the keys that the page lists under `title`."""
    found = re.search(rf"^- \*\*{title}:\*\*(.*?)(?=^- )", PAGE, re.MULTILINE | re.DOTALL)
    return re.findall("``-([a-z-]+)``", found[1])


PLACES, REPORTS = read_names("Places of jobs"), read_names("Reports")
BIKE = {"worker": Telling, "noted_as": "ops@example.org"}


@pytest.fixture
def bike(bike):
    """A job in each place, and something in each report."""
    for jobid in ("ran:A", "bad:A", "bad-too:A"):
        bike.set(jobid, "NOW")
    while bike.work_one():
        pass
    bike.run("bad-too:A")
    bike.limit("A", at_once=5)
    bike.set("flies:A", "NOW")
    take_many(bike.store, [(QUEUE, 500.0)], [1], "tag", 9)
    bike.set("waits:A", "NOW")
    bike.set("later:A", "EVERY:1h")
    assert list(bike.fsck()) == []
    return bike


def read_jobs(bike):
    return {job.jobid: (job.status, job.next_run, job.paused, job.is_running) for job in bike.jobs()}


def test_the_page_names_keys_that_there_are():
    assert {*PLACES, *REPORTS} <= {*FIXED}
    assert len({*PLACES, *REPORTS}) == len(PLACES) + len(REPORTS) == 18


def test_no_job_changes_if_a_report_is_deleted(bike, client):
    """What happens if the place of a job is deleted is in test_repair.py."""
    before = read_jobs(bike)
    for name in REPORTS:
        names = ("failures", "failure-times") if name.startswith("failure") else (name,)
        client.delete(*(f"{bike.prefix}-{each}" for each in names))
        assert list(bike.fsck()) == [], name
        assert read_jobs(bike) == before, name
