"""Setting a job by its form: new and edited, by two people at once, and what is not to be lost by it."""

import html
import re
import time
from datetime import UTC, datetime
from urllib.parse import urlencode

import pytest

from redbike import Redbike
from redbike.control.setter import Setter
from redbike.web import app
from tests.queries.kept import register
from tests.states import dump, unchanged
from tests.verbs import Quiet, Telling
from tests.waiting import SLOWNESS
from tests.web.api import Api
from tests.web.browsing import Browser

WHO = "page@testclient"
SECRET = "https://example.org/ping/secret-key"
DATA = {"a": [1, "é<b>"]}


@pytest.fixture
def kept(bike):
    """A job that has all that one may have."""
    options = {"retries": 5, "on_error": "retry", "backoff": "1.5s", "ping_url": SECRET}
    bike.set("kept:A", "EVERY:1h@0", **options, data=DATA)
    return bike.tell("kept:A") | {"stored": dump(bike.store)}


def told(bike, jobid):
    found = bike.tell(jobid)
    return found["schedule"], found.get("options", {}), found.get("data")


def edit(browser, **typed):
    """The page that comes of it when the job is edited."""
    return browser.send(browser.get("/set?id=kept:A"), "Save", **typed)


def test_a_new_job_is_set(bike, browser):
    typed = {"id": "new:A", "schedule": "0 3 * * *", "tz": "Europe/Berlin", "data": '{"a": "<b>"}'}
    options = {"retries": "5", "timeout": "1m30s", "overlap": "queue"}
    page = browser.send(browser.get("/set"), "Set this job", **typed, **options)
    assert str(page.url) == "http://localhost/job?id=new%3AA"
    assert page.notes == [
        "new:A: schedule none → CRON_TZ=Europe/Berlin 0 3 * * *; timeout default → 90; retries default → 5; "
        "overlap default → queue; data changed."
    ]
    schedule = "CRON_TZ=Europe/Berlin 0 3 * * *"
    assert told(bike, "new:A") == (schedule, {"retries": 5, "timeout": 90, "overlap": "queue"}, {"a": "<b>"})
    assert [(entry.who, entry.action, entry.jobid) for entry in bike.log()] == [(WHO, "set", "new:A")]


def test_a_rule_that_depends_on_the_instant_at_which_it_is_set_is_set(redbike):
    """From February it is due in each of these months; from the epoch, which is in January, in none of them."""
    bike = redbike(Quiet("A"), now=datetime(2026, 2, 3, tzinfo=UTC))
    rule = "RRULE:FREQ=MONTHLY;INTERVAL=3;BYMONTH=2,5,8,11;BYMONTHDAY=1"
    browser, api = Browser(app(bike, write=True)), Api(app(bike, write=True, api=True))
    page = browser.send(browser.get("/set"), "Set this job", id="page:A", schedule=rule)
    assert (page.status, page.url.path, len(page.notes)) == (200, "/job", 1), page.text
    assert api.ask("PUT", "/jobs/api:A", {"schedule": rule})[0] == 201
    assert bike.set("python:A", rule)
    found = {jobid: told(bike, jobid)[0] for jobid in ("page:A", "api:A", "python:A")}
    assert found == dict.fromkeys(found, f"DTSTART:20260203T000000Z\n{rule}")


def test_what_one_should_know_of_a_job_is_said(bike, browser):
    register(bike.store, "worker", queues=["work-A"], now=bike.store.timeline.read_clock())
    for jobid, schedule, said in (
        ("new:Z", "0 3 * * *", "no worker works its queue 'work-Z'"),
        ("late:A", "AFTER:loed:A", "it waits for 'loed:A', which is no job yet"),
    ):
        page = browser.send(browser.get("/set"), "Set this job", id=jobid, schedule=schedule)
        assert page.notes == [f"{jobid}: schedule none → {schedule}. Warning: {said}."]


def test_an_edit_changes_what_was_edited_and_nothing_else(bike, browser, kept):
    page = browser.get("/set?id=kept:A")
    assert "secret-key" not in page.html
    assert "é<b>" not in page.text
    page = browser.send(page, "Save", retries="7", backoff="")
    assert page.notes == ["kept:A: retries 5 → 7; backoff 1.5 → default."]
    options = {"on-error": "retry", "retries": 7, "ping-url": kept["options"]["ping-url"]}
    assert told(bike, "kept:A")[1:] == (options, DATA)
    assert SECRET in next(row for row in bike.get_rows() if row[0] == "kept:A")
    assert bike.tell("kept:A")["next_run"] == kept["next_run"]


def test_a_one_off_that_has_run_already_was_set_to_what_was_typed(bike, browser, monkeypatch):
    enter = Setter.enter

    def enter_and_run(*args, **options):
        has_runs = enter(*args, **options)
        bike.work_one()
        return has_runs

    monkeypatch.setattr(Setter, "enter", enter_and_run)
    bike.set("one:A", "STOP")
    for number, schedule in enumerate(("NOW", "AT:2001-01-01T00:00:00Z"), 1):
        page = browser.send(browser.get("/set?id=one:A"), "Save", schedule=schedule)
        assert page.notes[0].startswith(f"one:A: schedule STOP → {schedule}.")
        assert (told(bike, "one:A")[0], len(bike.tell("one:A")["runs"])) == ("STOP", number)


class Editing(Quiet):
    """Has a note put on each job while it runs."""

    def work(self, jobid):
        super().work(jobid)
        page = self.browser.send(self.browser.get(f"/set?id={jobid}"), "Save", note="hello")
        assert page.notes == [f"{jobid}: note default → hello."]


def test_a_note_on_a_one_off_that_runs_does_not_run_it_again(client, prefix):
    bike = Redbike(Editing(), prefix, client)
    bike.worker.browser = browser = Browser(app(bike, write=True))
    bike.set("one:A", "NOW", group_of="night")
    bike.set("report:A", "GROUP:night")
    while bike.work_one() or bike.dispatch_due():
        pass
    assert bike.worker.worked == ["one:A", "report:A"]
    for jobid in ("one:A", "report:A"):
        assert told(bike, jobid)[0] == "STOP"
        assert told(bike, jobid)[1]["note"] == "hello"
    # Nor does a zone alone.
    bike.set("new:A", "NOW")
    assert "While it stays as it is, only options and data change." in browser.get("/set?id=new:A").text
    page = browser.send(browser.get("/set?id=new:A"), "Preview", schedule="now")
    assert "It runs as soon as it is set." in page.text
    page = browser.send(browser.get("/set?id=new:A"), "Save", tz="Europe/Berlin")
    assert page.notes == ["new:A: Nothing differs, so nothing was done."]


def test_a_note_on_a_one_off_that_has_failed_for_good_leaves_it_so(client, prefix):
    bike = Redbike(Telling(), prefix, client)
    browser = Browser(app(bike, write=True))
    bike.set("bad:A", "NOW")
    assert bike.work_one() == "bad:A"
    bike.sync([("bad:A", "STOP")], group="my.csv")
    status = bike.tell("bad:A")["status"]
    assert status.startswith("DIE:")
    page = browser.send(browser.get("/set?id=bad:A"), "Save", note="x", spread="1h")
    owned = "Warning: bad:A is a row of my.csv: the next load of the group sets it again, so change the row, too"
    assert page.notes == [f"bad:A: spread default → 3600; note default → x. {owned}."]
    assert (bike.tell("bad:A")["status"], told(bike, "bad:A")[1]) == (status, {"note": "x", "spread": 3600})
    assert bike.run_failed() == [("bad:A", "queued")]


def test_an_edit_without_a_difference_does_nothing(bike, browser, kept):
    for show_data in (False, True):
        page = edit(Browser(app(bike, write=True, show_data=show_data)))
        assert page.notes == ["kept:A: Nothing differs, so nothing was done."]
    assert dump(bike.store) == kept["stored"]


def test_what_is_hidden_is_changed_only_on_purpose(bike, browser, kept):
    for typed, said, data, url in (
        ({"schedule": "EVERY:2h@0"}, "schedule EVERY:1h@0 → EVERY:2h@0", DATA, True),
        ({"data": "[1.0]"}, "data changed", [1.0], True),
        ({"data": "null"}, "data removed", None, True),
        ({"ping-url": "https://example.org/other"}, "ping-url changed", None, True),
        ({"ping-url": "default"}, "ping-url changed", None, False),
    ):
        assert edit(browser, **typed).notes[0].startswith(f"kept:A: {said}")
        _, options, found = told(bike, "kept:A")
        assert (found, "ping-url" in options) == (data, url)


def test_data_are_shown_and_edited_with_show_data_alone(bike, kept):
    browser = Browser(app(bike, write=True, show_data=True))
    data = dict(browser.get("/set?id=kept:A").find("Save").fields)["data"]
    assert data == '{\n  "a": [\n    1,\n    "é<b>"\n  ]\n}'
    # A field that was emptied by mistake takes nothing away.
    assert "Nothing differs" in edit(browser, data="").notes[0]
    assert edit(browser, data=data.replace("1", "2").replace("\n", "\r\n")).notes == ["kept:A: data changed."]
    assert told(bike, "kept:A")[2] == {"a": [2, "é<b>"]}


def test_what_is_wrong_is_said_beside_its_field_and_what_was_typed_stays(bike, browser):
    bike.set("after:A", "AFTER:new:A")
    page = browser.get("/set")
    with unchanged(bike.store):
        for field, text, message in (
            ("id", "x" * 513, "it has 513 bytes"),
            ("id", " a:A", "spaces at its ends"),
            ("id", "once/x:shell", "only redbike at, in and now set such ids"),
            ("schedule", "0 0 30 2 *", "never"),
            ("schedule", "EVERY:<b>", "bad"),
            ("schedule", "AFTER:after:A", "wait for itself"),
            ("schedule", "ALL:@daily", "only a job whose id ends in @all"),
            ("tz", "../../etc/passwd", "../../etc/passwd"),
            ("retries", "many", "bad retries 'many'"),
            ("ping-url", "ftp://example.org", "ping-url"),
            ("data", "{'a': 1}", "not JSON"),
            ("data", "NaN", "not a JSON number"),
            ("data", f'"{"x" * 66000}"', "bytes"),
            ("data", "[" * 600 + "]" * 600, "nested more than 500"),
        ):
            typed = {"id": "new:A", "schedule": "EVERY:1h", field: text}
            refused = browser.send(page, "Set this job", **typed)
            assert refused.status == 400
            assert message in refused.text
            assert f'id="set-{field}-error"' in refused.html
            assert dict(refused.find("Set this job").fields).items() >= typed.items()


def test_an_edit_that_does_not_fit_what_is_there_by_now(bike, browser, kept):
    opened = browser.get("/set?id=kept:A")
    bike.set("kept:A", "EVERY:3h@0", retries=9, data={"b": 1})
    with unchanged(bike.store):
        # Nothing is done with the form, so it is not one that was sent before.
        pages = [browser.send(opened, "Save", backoff="20") for _ in range(2)]
        assert [page.status for page in pages] == [409, 409]
        page = pages[1]
        assert "Somebody has set or changed this job since you opened this form" in page.text
        assert "so nothing was done. Its schedule is now EVERY:3h@0" in page.text
    # What the other has changed stays, and so does what was typed.
    assert dict(page.find("Save").fields).items() >= {"schedule": "EVERY:3h@0", "retries": "9", "backoff": "20"}.items()
    assert browser.send(page, "Save").notes == ["kept:A: backoff 1.5 → 20."]
    assert told(bike, "kept:A")[::2] == ("EVERY:3h@0", {"b": 1})
    # If both have changed the same, it is that of the last one who knows it.
    page = browser.get("/set?id=kept:A")
    edit(Browser(browser.client.app), schedule="EVERY:4h@0")
    page = browser.send(page, "Save", schedule="EVERY:5h@0")
    assert (page.status, told(bike, "kept:A")[0]) == (409, "EVERY:4h@0")
    assert "schedule: EVERY:4h@0 → EVERY:5h@0" in page.text
    assert browser.send(page, "Save").notes == ["kept:A: schedule EVERY:4h@0 → EVERY:5h@0."]


def test_what_is_not_shown_counts_too(bike, browser, kept):
    for change in ({"data": [2]}, {"ping_url": "https://example.org/b"}, {"history": 3}):
        page = browser.get("/set?id=kept:A")
        bike.set("kept:A", "EVERY:1h@0", **change)
        assert browser.send(page, "Save", retries="7").status == 409


def test_a_new_job_that_is_there_already_is_not_overwritten(bike, browser, kept):
    page = browser.send(browser.get("/set"), "Set this job", id="kept:A", schedule="EVERY:5h@0")
    assert (page.status, SECRET in page.html) == (409, False)
    assert dump(bike.store) == kept["stored"]
    assert browser.send(page, "Save").notes == ["kept:A: schedule EVERY:1h@0 → EVERY:5h@0."]
    assert told(bike, "kept:A")[2] == DATA


def test_a_job_that_was_unset_meanwhile_is_not_set_again_without_being_asked(bike, browser, kept):
    page = browser.get("/set?id=kept:A")
    bike.unset("kept:A")
    page = browser.send(page, "Save", schedule="EVERY:5h@0")
    assert page.status == 409
    assert "Somebody has unset this job since you opened this form" in page.text
    assert told(bike, "kept:A")[0] is None
    assert browser.send(page, "Set this job").notes[0].startswith("kept:A: schedule none → EVERY:5h@0")


def test_what_a_schedule_means_without_a_script(client, prefix):
    bike = Redbike(Quiet("A"), prefix, client, timezone="Asia/Tokyo")
    bike.set("kept:A", "EVERY:1h@0", retries=5)
    browser = Browser(app(bike, write=True))
    with unchanged(bike.store):
        page = browser.send(browser.get("/set?id=kept:A"), "Preview", schedule="30 4 1 1 *", retries="6")
        assert page.status == 200
        for text in ("-01-01 04:30:00 Asia/Tokyo", "schedule: EVERY:1h@0 → 30 4 1 1 *", "retries: 5 → 6"):
            assert text in page.text
        assert page.text.count("04:30:00 Asia/Tokyo") == 5
    assert dict(page.find("Save").fields)["schedule"] == "30 4 1 1 *"
    assert "schedule EVERY:1h@0 → CRON_TZ=Asia/Tokyo 30 4 1 1 *" in browser.send(page, "Save").notes[0]


def test_a_note_on_a_job_that_was_set_in_another_zone_leaves_its_times(bike):
    bike.set("kept:A", "0 3 * * *")
    before = bike.tell("kept:A")
    with Redbike(Quiet("A"), bike.store.keys.prefix, bike.redis, timezone="Asia/Tokyo") as there:
        browser = Browser(app(there, write=True))
        page = browser.send(browser.get("/set?id=kept:A"), "Preview", note="x")
        assert "03:00:00 UTC" in page.text
        assert "03:00:00 UTC" in preview(browser, id="kept:A", schedule="0 3 * * *")
        assert browser.send(page, "Save").notes == ["kept:A: note default → x."]
        assert bike.tell("kept:A") == before | {"options": {"note": "x"}}
        assert "CRON_TZ=Asia/Tokyo" in browser.send(browser.get("/set?id=kept:A"), "Save", tz="Asia/Tokyo").notes[0]


def preview(browser, **typed):
    return browser.client.get(f"/preview?{urlencode(typed)}").text


def test_what_a_schedule_means_while_one_types(bike):
    """Also for those who only look."""
    browser = Browser(app(bike))
    for typed, text in (
        ({"schedule": "0 3 * * *", "tz": "Europe/Berlin"}, "03:00:00 Europe/Berlin"),
        ({"schedule": "CRON_TZ=Europe/Paris 0 3 * * *", "tz": "Asia/Tokyo"}, "03:00:00 Europe/Paris"),
        ({"schedule": "H 3 * * *", "id": "a:A"}, ":00 UTC"),
        ({"schedule": "0 3 * * *", "spread": "0"}, "03:00:00 UTC"),
        ({"schedule": "now"}, "It runs as soon as it is set."),
        ({"schedule": "STOP"}, "It does not run any more"),
        ({"schedule": "AT:2001-01-01"}, "That is past: it runs as soon as it is set."),
        ({"schedule": "AT:2090-01-01"}, "2090-01-01 00:00:00 UTC"),
        ({"schedule": "DTSTART:20010101T000000Z\nRRULE:FREQ=DAILY;COUNT=2"}, "Nothing is left to run of it."),
        ({"schedule": "AFTER:other:A"}, "It is due when these jobs have ended"),
        ({"schedule": "DTSTART:20900101T000000Z\nRRULE:FREQ=DAILY;COUNT=2"}, "There are no further runs."),
        ({"schedule": "ALL:0 3 * * *", "id": "a:A@all", "spread": "1h"}, "03:00:00 UTC"),
        ({"schedule": "ALL:NOW", "id": "a:A@all"}, "It runs as soon as it is set."),
        ({"schedule": "ALL:AT:2001-01-01", "id": "a:A@all"}, "That is past: it runs as soon as it is set."),
        ({"schedule": "<script>alert(1)</script>"}, "&lt;script&gt;"),
        ({"schedule": ""}, "bad"),
        ({"schedule": "0 0 30 2 *"}, "problem"),
        ({"schedule": "EVERY:1h", "tz": "Mars"}, "Mars"),
        ({"schedule": "EVERY:1h", "spread": "wide"}, "bad spread"),
    ):
        with unchanged(bike.store):
            found = preview(browser, **typed)
            assert text in found
            assert "<script" not in found
    found = {preview(browser, schedule="0 3 * * *", id=jobid, spread="1h") for jobid in ("a:A", "b:A")}
    assert len(found) == 2, "the id decides"
    # It leads to the rehearsal of that schedule.
    found = preview(browser, id="job:A", schedule="0 3 * * *", tz="Europe/Berlin")
    [place] = re.findall(r'href="(rehearse[^"]*)"', found)
    page = browser.get(f"/{html.unescape(place)}")
    assert (page.status, "0 3 * * *" in page.text, "Europe/Berlin" in page.text) == (200, True, True)
    assert "rehearse" not in preview(browser, schedule="0 3 * * *")
    assert "rehearse" not in preview(browser, id="job:A", schedule="nonsense")
    # It would be without a spread that is not stored yet.
    assert "rehearse" not in preview(browser, id="job:A", schedule="0 3 * * *", spread="1h")
    bike.set("job:A", "@daily", spread="1h")
    assert "rehearse" in preview(browser, id="job:A", schedule="0 3 * * *", spread="3600")


def test_the_clock_of_redis_says_what_is_past(browser, bike, monkeypatch):
    at = datetime.fromtimestamp(bike.store.timeline.read_clock() + 3600, UTC)
    typed, ahead = {"id": "a:A", "schedule": f"AT:{at:%Y-%m-%dT%H:%M:%SZ}"}, time.time() + 7200
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: ahead)
        for found in (preview(browser, **typed), browser.send(browser.get("/set"), "Preview", **typed).text):
            assert (f"{at:%Y-%m-%d %H:%M:%S} UTC" in found, "That is past" in found) == (True, False)


def test_a_schedule_of_no_job_means_something_while_redis_is_away(own_server):
    browser = Browser(app(Redbike(Quiet("A"), redis_config=own_server.url), token="a-token-of-the-tests"))
    browser.post([("token", "a-token-of-the-tests")], "/login")
    own_server.stop()
    assert "03:00:00 UTC" in preview(browser, schedule="0 3 * * *")
    assert "Redis does not answer" in preview(browser, schedule="0 3 * * *", id="a:A")


HOSTILE = [
    "x" * 20_000,
    "DTSTART:19700101T000000Z\nRRULE:FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30",
    "DTSTART:19700101T000000Z\n" + "RRULE:FREQ=SECONDLY;BYSECOND=59\n" * 100,
    ",".join(["*/2"] * 2000) + " * * * *",
    "EVERY:0.000001s@0",
]


def test_no_text_holds_the_process(browser):
    preview(browser, schedule="@daily")
    for text in HOSTILE:
        spent = time.process_time()
        assert preview(browser, schedule=text, tz="Europe/Berlin", id="a:A", spread="1d")
        # Ten times what one text may take, as machines are busy.
        assert time.process_time() - spent < 0.5 * SLOWNESS
