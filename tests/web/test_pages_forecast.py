"""The forecast: counted in the background, once for all viewers."""

import threading
from datetime import UTC, datetime

import pytest

from redbike.facade.redbike import Redbike
from tests.waiting import wait_until
from tests.web.html import listed, read

# Far from now: what comes due before it is counted is overdue, and counts besides.
NIGHTLY = f"0 {(datetime.now(UTC).hour + 12) % 24} * * *"


@pytest.fixture
def jobs(bike):
    for number in range(40):
        bike.set(f"night{number}:A", NIGHTLY)
    # It is never due together with the others, either.
    bike.set("hourly:B", f"{15 if 20 <= datetime.now(UTC).minute < 40 else 30} * * * *")
    return bike


def show(page, query="", words="Counted", path="agenda"):
    """The forecast, or another page, as soon as it is counted."""
    found = []

    def is_counted():
        found.append(read(page.get(f"/{path}{query}")))
        return words in found[-1].words

    wait_until(is_counted, timeout=60)
    return found[-1]


def test_a_day_has_its_heat_its_densest_minutes_and_its_relief(page, jobs):
    found = show(page)
    columns, minute = ":00 :15 :30 :45", f"40 runs: 40 × {NIGHTLY} (night"
    assert found.lacks("64 runs of 41 jobs", columns, minute, "--spread=60m", f"H{NIGHTLY[1:]}") == []
    labels = [a["aria-label"] for tag, a in found.tags if tag == "svg"]
    assert len(labels) == 3
    assert labels[0].startswith("64 runs, at most 40")
    assert [a["class"] for tag, a in found.tags if tag == "td" and "heat8" in a.get("class", "")] == ["heat8"]


def test_a_week_has_a_row_for_each_day_and_a_pattern_without_a_job_says_so(page, jobs):
    found = show(page, "?span=week")
    assert found.lacks(f"{40 * 7 + 168:,} runs of 41 jobs", "Runs in each hour") == []
    show(page, "?pattern=nothing", "No such job will run in this time.")


@pytest.mark.parametrize("span", ["day", "week"])
def test_a_cell_leads_to_what_runs_then(page, jobs, span):
    found = show(page, f"?span={span}&pattern=night1")
    cells = [link for link in found.links if link.startswith("timeline?") and "at=" in link]
    assert len(cells) == (1 if span == "day" else 7)
    for cell in cells:
        led = show(page, path=cell)
        assert "11 planned, " in led.words
        assert {each.partition(":")[0] for each in listed(led)} == {"night1", *(f"night1{n}" for n in range(10))}


def test_it_may_be_of_one_queue_or_of_a_pattern(page, jobs):
    jobs.run("night0:A")
    for jobid in ("held:A", "held:B"):
        jobs.set(jobid, "0 4 * * *")
        jobs.pause(jobid)
    found = show(page, "?queue=B")
    assert "heat8" in {a.get("class") for _, a in found.tags}
    # Not the heat alone: the sum, the strips, the densest minutes, the plans and what is paused.
    assert found.lacks("The next day, work-B", "24 runs of 1 job,", "Paused: 1.", "night") == ["night"]
    assert "jobs?queue=work-B&paused=1" in found.links
    assert listed(read(page.get("/jobs?queue=work-B&paused=1"))) == ["held:B"]
    assert {"work-A", "work-B"} <= set(found.words.split()), "one may still choose another one"
    assert "Paused: 2." in show(page, "?pattern=held:*").words
    found = show(page, "?pattern=hour")
    assert "24 runs of 1 job" in found.words
    assert "pattern=hour" in next(link for link in found.links if "queue=" in link)


def test_jobs_that_run_often_may_be_left_out(page, jobs):
    jobs.set("fast:A", "EVERY:1m")
    found = show(page, "?every=15m")
    assert found.lacks("64 runs of 41 jobs", "Left out: 1 job that runs more often than every 15m.") == []
    assert all("every=15m" in link for link in found.links if link.startswith("timeline?"))
    assert "bad every" in read(page.get("/agenda?every=2m"), 400).words


def test_it_says_how_far_it_is(page, jobs, monkeypatch):
    may_go_on, whole = threading.Event(), Redbike.agenda

    def count(self, *patterns, report, **given):
        report(45, 100)
        assert may_go_on.wait(60)
        return whole(self, *patterns, report=report, **given)

    monkeypatch.setattr(Redbike, "agenda", count)
    found = show(page, words="Counting: 45 %")
    assert "Refresh" in found.words
    assert [a["content"] for tag, a in found.tags if a.get("http-equiv") == "refresh"] == ["1"]
    assert [a["data-again"] for _, a in found.tags if "data-again" in a] == ["1"]
    may_go_on.set()
    found = show(page)
    assert not [a for _, a in found.tags if "http-equiv" in a or "data-again" in a]
    assert "bad span" in read(page.get("/agenda?span=year"), 400).words
