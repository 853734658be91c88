"""The charts of the last hour show what was counted elsewhere: the calls of `work`."""

import pytest

from tests.web.html import read

CHARTED = ("/", "/queues")


@pytest.fixture
def minutes(monkeypatch):
    """A sample is taken each time that somebody looks."""
    monkeypatch.setattr("redbike.web.samples.STEP", 0.0)
    monkeypatch.setattr("redbike.web.samples.EARLY", 0.0)
    monkeypatch.setattr("redbike.web.snapshot.FRESH", 0.0)


def work(bike, *jobids):
    for jobid in jobids:
        bike.run(jobid)
        assert bike.work_one()


@pytest.mark.parametrize("path", CHARTED)
def test_a_chart_shows_the_runs_that_have_ended(bike, page, minutes, path):
    site = page.app.routes[0].endpoint.args[0]
    for jobid in ("good:A", "more:A", "other:B"):
        bike.set(jobid, "EVERY:1d@0")
    bike.set("bad:A", "EVERY:1d@0", data={"error": "no"}, on_error="reschedule")
    work(bike, "good:A", "other:B")
    read(page.get(path))
    before = len(bike.worker.worked)
    work(bike, "good:A", "bad:A", "more:A", "good:A", "other:B")
    site.drop_seen()
    labels = [attributes["aria-label"] for tag, attributes in read(page.get(path)).tags if tag == "svg"]
    worked = bike.worker.worked[before:]
    for queue in "AB":
        number = sum(jobid.endswith(f":{queue}") for jobid in worked)
        assert [
            label for label in labels if label.startswith((f"{number} runs in less than", f"{number} run in less than"))
        ], labels
    assert len(worked) == 5
