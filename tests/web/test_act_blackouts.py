"""Blackouts and tags on the page: set and ended by forms, for jobs, for all that have a tag, and for queues."""

import re
from datetime import UTC, datetime, timedelta

from tests.states import unchanged
from tests.web.test_act import WHO, press, read_log
from tests.web.test_act import jobs as jobs

# Not on the day on which this runs: it would be there at once.
DAY = (datetime.now(UTC) + timedelta(days=3)).strftime("%a").lower()
WEEKLY = {"every": f"0 2 * * {DAY}", "lasting": "2h", "reason": "the <b>disk</b> moves"}
COMES = r"It is paused from 20\d\d-\d\d-\d\d 02:00:00 UTC, in .*, for 2 h, and so each time\."


def test_a_job_has_a_blackout_until_it_is_ended(bike, browser):
    assert "End its blackout" not in browser.get("/job?id=hourly:A").text
    page = press(browser, "/job?id=hourly:A", "Pause this job", **WEEKLY)
    assert re.fullmatch(rf"hourly:A: given a blackout\. {COMES}", page.notes[0]), page.notes
    [found] = bike.tell("hourly:A")["blackouts"]
    assert [found[name] for name in ("of", "every", "seconds", "by", "reason")] == [
        "job", WEEKLY["every"], 7200.0, WHO, WEEKLY["reason"]
    ]  # fmt: skip
    page = browser.send(page, "Pause this job", **WEEKLY | {"lasting": "3h"})
    assert "given this blackout in place of another" in page.notes[0]
    page = browser.send(page, "End its blackout")
    assert (page.notes, bike.tell("hourly:A").get("blackouts")) == (
        ["hourly:A: without its blackout from now on."],
        None,
    )
    assert [action for action, _, _ in read_log(bike)] == ["pause --every", "pause --every", "resume --every"]


def test_all_jobs_with_a_tag_are_paused_again_and_again(bike, browser):
    for jobid in ("nightly:A", "nightly:B"):
        bike.set(jobid, "EVERY:1h@0", tags="night,eu")
    page = press(browser, "/jobs?tag=night", "Pause all", "Pause 2 jobs", **WEEKLY)
    assert re.fullmatch(rf"Pause 2 jobs: 2 given a blackout\. {COMES}", page.notes[0]), page.notes
    assert [jobid for jobid, _ in bike.get_schedules() if "blackouts" in bike.tell(jobid)] == [
        jobid for jobid, _ in bike.get_schedules(tag="eu")
    ]


def test_a_queue_has_a_blackout_until_it_is_ended(bike, browser):
    bike.run("hourly:A")
    page = press(browser, "/queues", "Pause it", **WEEKLY)
    assert re.fullmatch(rf"The queue work-A has a blackout now\. {COMES}", page.notes[0]), page.notes
    assert [queue.queue for queue in bike.queues() if queue.blackout is not None] == ["work-A"]
    for said in ("has no blackout any more", "had no blackout"):
        page = browser.send(page, "End its blackout")
        assert page.notes == [f"The queue work-A {said}."]
    assert [queue.queue for queue in bike.queues() if queue.blackout is not None] == []


def test_a_bad_blackout_is_said_in_the_form_and_changes_nothing(bike, browser):
    everything = press(browser, "/", "Pause everything")
    for typed, said in (
        ({"every": "every day", "lasting": "2h"}, "bad cron 'every day'"),
        ({"every": "NOW", "lasting": "2h"}, "a blackout needs times that come again and again"),
        ({"every": "0 2 * * *", "lasting": "2 days"}, "bad length of a blackout '2 days'"),
        ({"every": "0 2 * * *", "lasting": "1d"}, "it would never end"),
        ({"every": "0 2 * * *"}, "a blackout needs a schedule (every) and a length (for"),
        ({"lasting": "2h"}, "a blackout needs a schedule (every) and a length (for"),
        ({"every": "0 2 * * *", "lasting": "2h", "until": "+1d"}, "a blackout ends after its length"),
    ):
        with unchanged(bike.store):
            assert said in press(browser, "/job?id=hourly:A", "Pause this job", **typed).text
            assert said in browser.send(everything, "Pause everything", **typed).text
