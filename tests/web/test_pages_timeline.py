"""The timeline: looked at in the background, once for all viewers; it works without a script."""

import functools
import re
import time
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from redbike import Redbike
from redbike.web import app
from tests.waiting import SLOWNESS
from tests.web import test_pages_forecast as forecast
from tests.web.conftest import BASE, Failing, TestClient
from tests.web.html import listed, read


@pytest.fixture
def jobs(bike):
    """One job that has run twice, one that has failed, one that is planned."""
    bike = Redbike(Failing("A:B"), bike.prefix, bike.client, on_error="stop", noted_as="ann@example.org")
    for jobid in ("good:A", "bad:B", "later:A"):
        bike.set(jobid, "EVERY:1h", on_error="reschedule", data={"error": "no luck"} if jobid == "bad:B" else None)
    for jobid in ("good:A", "good:A", "bad:B"):
        bike.run(jobid)
        bike.work_one()
    return bike


show = functools.partial(forecast.show, path="timeline")


def test_each_queue_and_each_job_has_a_lane(page, jobs):
    found = show(page, "?span=30m")
    lanes = "In words changes, lost 6 changes 6 changes work-A 2 ok 2 ok work-B 1 failed"
    assert found.lacks("1 failed, 2 ok,", lanes) == []
    labels = [a["aria-label"] for tag, a in found.tags if tag == "svg" and "lane" in a["class"]]
    assert labels == ["6 changes", "2 ok", "1 failed"]
    assert [a["class"] for tag, a in found.tags if tag == "path"] == ["change", "ok", "failed"]
    assert len([a for tag, a in found.tags if tag == "line" and a["class"] == "now"]) == 3
    found = show(page, "?lanes=job")
    assert re.search(r"bad:B 1 failed, \d planned .*good:A 2 ok, \d planned .*later:A \d planned", found.words)
    assert {"good:A", "bad:B", "later:A"} == set(listed(found))


def test_its_list_leads_to_the_runs_and_says_what_went_wrong(page, jobs):
    found = show(page, "?span=5m")
    assert listed(found)[:3] == ["good:A", "good:A", "bad:B"]
    runs = [link for link in found.links if link.startswith("run?")]
    assert len(runs) == 3
    assert "ValueError: no luck" in read(page.get(f"/{runs[-1]}")).words
    assert "ValueError: no luck" in found.words


def test_its_links_lead_to_a_part_of_the_time_and_to_other_times(page, jobs):
    found = show(page, "?lanes=job&pattern=good")
    # The narrowest time has no parts that could be opened.
    assert len({link for link in show(page, "?span=5m").links if "span=5m" in link and "at=" in link}) == 2
    slots = [link for link in found.links if "span=1h" in link]
    assert len(slots) == 8
    assert all("pattern=good" in link and "lanes=job" in link for link in slots)
    shown = [show(page, "?" + link.partition("?")[2]).words for link in slots]
    assert sum(int(number) for words in shown for number in re.findall(r"good:A (\d) ok", words)) == 2
    marks = {a["rel"]: a["href"] for tag, a in found.tags if tag == "a" and "rel" in a}
    later = show(page, "?" + marks["next"].partition("?")[2])
    span = r"(\d{4}-\d\d-\d\d \d\d:\d\d) to (\d{4}-\d\d-\d\d \d\d:\d\d) UTC"
    (first, middle), (begin, end) = (re.search(span, each.words).groups() for each in (found, later))
    assert first < begin < middle < end
    earlier = show(page, "?" + {a["rel"]: a["href"] for _, a in later.tags if "rel" in a}["prev"].partition("?")[2])
    assert re.search(span, earlier.words).groups() == (first, middle)


@pytest.mark.parametrize(("zone", "hour"), [("Asia/Kathmandu", 3), ("America/St_Johns", 21), ("UTC", 0)])
def test_a_time_is_the_nearest_such_one_in_the_zone_of_the_page(bike, zone, hour):
    bike = Redbike(Failing("A"), bike.prefix, bike.client, timezone=zone)
    found = show(TestClient(app(bike), base_url=BASE), f"?at={hour}:00&span=1h")
    first = re.search(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d) to", found.words)
    assert first[2] == f"{(hour - 1) % 24:02}:30"
    begin = datetime.fromisoformat(f"{first[1]} {first[2]}").replace(tzinfo=ZoneInfo(zone))
    assert abs(begin.timestamp() + 1800 - bike.store.timeline.read_clock()) < 43200 + 3660


def test_what_is_bad_is_refused_in_one_line(page, jobs):
    for query in ("at=9999-12-30", "at=soon", "span=2h", "lanes=all", "every=2m", "queue=%00"):
        found = read(page.get(f"/timeline?{query}"), 400)
        assert "bad " in found.words


def test_it_leaves_out_what_runs_often_and_says_so(page, bike):
    bike.set("fast:A", "EVERY:10s")
    bike.set("round:A", "CONTINUE")
    found = show(page, "?every=5m")
    left_out = "Left out: 1 job that runs more often than every 5m, except for failures."
    nothing = ["Not drawn ahead: 1 with CONTINUE", "nothing, ", "No run of these jobs is kept for this time"]
    assert found.lacks(left_out, *nothing) == []
    assert "redbike set" not in found.words, "there are jobs"


def test_a_lane_is_dotted_as_long_as_not_all_of_its_runs_are_kept(page, bike):
    bike.set("last:A", "NOW", history=1)
    bike.set("all:B", "NOW")
    while bike.work_one():
        pass
    found = show(page, "?span=30m")
    assert re.search(r"(1 ok; not all runs before \d{4}-\d\d-\d\d \d\d:\d\d are kept ){2}work-B 1 ok 1 ok$",
                     found.words.partition("In words")[2].partition(" What ran")[0])  # fmt: skip
    assert [a["x1"] for tag, a in found.tags if tag == "line" and a["class"] == "unkept"] == ["0"]


def test_a_queue_that_is_paused_has_a_lane_that_says_so(page, jobs):
    jobs.pause_queue("B", reason="the printer")
    jobs.unset("bad:B")
    found = show(page, "?span=30m&queue=B")
    assert "work-B nothing; queue work-B paused: the printer" in found.words
    assert [a["class"] for tag, a in found.tags if tag == "rect"] == ["band"]


def test_a_time_far_away_costs_no_more_with_a_blackout(page, jobs):
    list(jobs.pause("good:A", every="*/5 * * * *", lasting="1m"))
    now = jobs.store.timeline.read_clock()
    spent = time.process_time()
    found = show(page, f"?at={now + 360 * 86400:.0f}&span=1h&lanes=job")
    assert time.process_time() - spent < 1.0 * SLOWNESS
    assert "3 planned," in found.words


@pytest.mark.parametrize(
    ("at", "span", "first", "last"),
    [
        ("2027-03-28 12:00", "24h", "00:00:00", "01:00:00"),  # the day has 23 hours
        ("2026-10-25 12:00", "24h", "00:00:00", "23:00:00"),
        ("2026-10-25 02:30", "3h", "01:00:00", "03:00:00"),
        ("2026-10-25 02:30", "1h", "02:00:00", "02:00:00"),
    ],
)
def test_on_a_day_of_daylight_saving_the_time_is_round(bike, at, span, first, last):
    bike = Redbike(Failing("A"), bike.prefix, bike.client, timezone="Europe/Berlin")
    found = show(TestClient(app(bike), base_url=BASE), f"?at={at}&span={span}")
    slots = [a["title"].split(" to ") for tag, a in found.tags if " to " in a.get("title", "")]
    assert (slots[0][0][11:19], slots[-1][1][11:19]) == (first, last)
    assert len(set(map(tuple, slots))) == len(slots), "of an hour that comes twice, it is said which"
    since, until = (re.sub(":00(?=[+ ])", "", each, count=1) for each in (slots[0][0], slots[-1][1]))
    assert f"{since.removesuffix(' Europe/Berlin')} to {until}" in found.words


def test_a_lane_of_a_queue_leads_to_those_of_its_jobs(page, jobs):
    [link] = [link for link in show(page).links if link == "timeline?lanes=job&queue=work-A"]
    found = show(page, "?" + link.partition("?")[2])
    assert set(listed(found)) == {"good:A", "later:A"}
