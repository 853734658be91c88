"""Actions by forms, as a browser without JavaScript sends them: what they do, and what the log says of it."""

import html
import re
import time
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, urlencode

import pytest

from redbike import Redbike
from redbike.control.setter import Setter
from redbike.loop.changes import decide_cancelled
from redbike.store.backfill import make_jobid
from redbike.store.shell import make_jobid as make_shell_jobid
from redbike.web import app
from redbike.web.pages import overview
from tests import loops
from tests.states import dump, end, unchanged
from tests.verbs import Quiet, set_job, take_one
from tests.waiting import wait_until
from tests.web.browsing import Browser
from tests.web.conftest import register_hosts

HOURLY = "EVERY:1h@0"
WHO = "page@testclient"


@pytest.fixture(autouse=True)
def jobs(bike):
    for jobid in ("nightly:A", "nightly:B", "hourly:A"):
        set_job(bike.store, jobid, HOURLY, 4e9)


def read_log(bike):
    """What people have changed, in the order in which they did."""
    return [(entry.action, entry.jobid, entry.detail) for entry in bike.log()][::-1]


def names(bike):
    return {jobid for jobid, _ in bike.get_schedules()}


def press(browser, path, *buttons, **typed):
    """The page that comes of pressing one button after another, the last one with what is `typed`."""
    page = browser.get(path)
    for button in buttons[:-1]:
        page = browser.send(page, button)
    return browser.send(page, buttons[-1], **typed)


def find_rehearsal(page):
    """The address of the rehearsal to which a page leads."""
    [place] = re.findall(r'href="(rehearse[^"]*)"', page.html)
    return f"/{html.unescape(place)}"


def test_a_note_is_shown_once_and_to_that_browser_alone(bike, browser):
    other = Browser(browser.client.app)
    form = browser.get("/job?id=hourly:A").find("Run now")
    answer = browser.client.post("/do", data=dict(form.fill("Run now")), follow_redirects=False)
    assert answer.headers["location"] == "./job?id=hourly:A"
    assert bike.tell("hourly:A")["status"].startswith("ENQ")
    assert [(entry.who, entry.action, entry.jobid) for entry in bike.log()] == [(WHO, "run", "hourly:A")]
    assert other.get("/jobs").notes == []
    # Nor is it lost to what loads pages in the background.
    assert "queued" not in browser.client.get("/log", headers={"accept": "*/*"}).text
    assert [browser.get("/job?id=nightly:A").notes for _ in range(2)] == [["hourly:A: queued."], []]


def test_a_job_is_paused_and_resumed(bike, browser):
    typed = {"until": "2090-01-02 03:04", "reason": '"moving" <b>house</b>'}
    page = press(browser, "/job?id=hourly:A", "Pause this job", **typed)
    pause = bike.tell("hourly:A")["paused"]
    until = datetime(2090, 1, 2, 3, 4, tzinfo=UTC).timestamp()
    assert (pause["by"], pause["reason"], pause["until"]) == (WHO, typed["reason"], until)
    said = [page.notes, browser.send(page, "Pause this job").notes]
    # Two of those who saw that it is paused.
    for page in [browser.get("/job?id=hourly:A") for _ in range(2)]:
        page = browser.send(page, "Resume")
        said.append(page.notes)
    assert "Resume" not in [button[2] for form in page.forms for button in form.buttons]
    assert said == [[f"hourly:A: {text}."] for text in ("paused", "paused already", "resumed", "not paused")]
    assert "paused" not in bike.tell("hourly:A")
    assert [action for action, _, _ in read_log(bike)] == ["pause", "resume"]


def test_a_run_that_is_cancelled_is_being_told_until_it_has_ended(bike, browser):
    for jobid in ("hourly:A", "nightly:A"):
        bike.run(jobid)
    run = take_one(bike.store, [("work-A", 500.0)], "tag")
    page = press(browser, f"/job?id={run.jobid}", "Cancel its run", f"Cancel the job {run.jobid}")
    assert page.notes == [f"{run.jobid}: cancelled; the run has not ended yet."]
    assert page.kinds == ["note open"], "it does not look as if all was done"
    assert "it was cancelled, and has not ended yet" in page.text
    page = press(browser, "/jobs?queue=A", "Cancel", tick=("nightly:A", "hourly:A"))
    page = browser.send(page, "Cancel 2 jobs")
    assert page.notes == ["Cancel 2 jobs: 1 cancelled, 1 cancelled before; the run has not ended yet."]
    end(bike.store, run, decide_cancelled(run, bike.settings, bike.store.timeline.read_clock()))
    assert "has not ended yet" not in browser.get(f"/job?id={run.jobid}").text


def test_runs_of_a_job_on_every_host_are_cancelled(bike, browser):
    register_hosts(bike, "web1", "web2")
    bike.set("all:A@all", "EVERY:1h")
    assert "Cancel its run" not in browser.get("/job?id=all:A@all").text
    bike.run("all:A@web2")
    page = press(browser, "/job?id=all:A@all", "Cancel its run", "Cancel the job all:A@all")
    assert page.notes == ["Cancel the job all:A@all: 1 cancelled, 1 without anything that waits or runs."]
    assert "Cancel its run" not in page.text
    for host, verbs in (("all", ["Run now", "Unset"]), ("web1", ["Run now"])):
        page = browser.get(f"/job?id=all:A@{host}")
        assert [text for *_, text in page.find("Run now").buttons] == verbs, "only the job of all hosts is unset"
        assert ('id="do-edit"' in page.html) == ("Unset" in verbs), "nor is another one edited"


def test_what_redbike_sets_itself_is_not_offered_for_edit(bike, browser):
    register_hosts(bike, "web1")
    bike.set("all:A@all", "EVERY:1h")
    due = bike.store.timeline.read_clock() // 3600 * 3600 - 3600
    bike.backfill("hourly:A", due, due)
    shell = make_shell_jobid(due)
    Setter(bike.store, bike.settings).enter_from_shell(shell, "IN:1h", "true")
    for jobid, verbs in (
        ("all:A@all", ["edit", "unset"]),
        ("all:A@web1", []),
        (make_jobid("hourly:A", due), ["unset"]),
        (shell, ["unset"]),
    ):
        page = browser.get(f"/job?id={quote(jobid)}")
        assert "Run now" in [text for *_, text in page.find("Run now").buttons]
        assert [verb for verb in ("edit", "unset") if f'id="do-{verb}"' in page.html] == verbs, jobid
        for verb in ("edit", "unset"):
            found = browser.client.get("/find", params={"q": f"{verb} {jobid}"}).json()["found"]
            assert (found[0]["kind"] == verb) == (verb in verbs), found


def test_who_runs_jobs_is_told_what_is_paused(bike, browser):
    bike.pause_queue("A", reason="<b>")
    page = press(browser, "/job?id=hourly:A", "Run now")
    assert re.fullmatch(r"hourly:A: queued\. Warning: its queue work-A is paused since .* \(<b>\)\.", page.notes[0])
    page = press(browser, "/jobs?queue=A", "Run", tick=("nightly:A", "hourly:A"))
    [said] = browser.send(page, "Run 2 jobs").notes
    assert re.match(r"Run 2 jobs: .*2 queued.* Warning: (hourly|nightly):A: its queue work-A is paused since ", said)
    bike.resume_queue("A")
    bike.pause_all()
    page = browser.send(browser.get("/set"), "Set this job", id="now:A", schedule="NOW")
    assert page.notes[0].startswith("now:A: schedule none → NOW. Warning: everything is paused since ")


def test_a_job_is_unset_after_a_confirmation(bike, browser):
    opened = browser.get("/job?id=hourly:A")
    asked, late = (browser.send(opened, "Unset") for _ in range(2))
    assert "forgotten, with its schedule, options and data" in asked.text
    assert re.search(r'href="[^"]*job\?id=hourly(:|%3A)A">\s*Go back and change nothing', asked.html)
    assert "hourly:A" in names(bike)
    page = browser.send(asked, "Unset the job hourly:A")
    assert (page.notes, page.status, page.url.path) == (["hourly:A: unset."], 200, "/jobs")
    assert names(bike) == {"nightly:A", "nightly:B"}
    # Others had its page, or the question, still open.
    for page, button in ((late, "Unset the job hourly:A"), (opened, "Run now")):
        assert browser.send(page, button).notes == ["No job matches any more, so nothing was done."]
    assert read_log(bike) == [("unset", "hourly:A", HOURLY)]


def test_who_unsets_a_parent_is_told_of_its_followers(bike, browser):
    for jobid in ("first:A", "second:A"):
        bike.set(jobid, "AFTER:hourly:A")
    asked = press(browser, "/job?id=hourly:A", "Unset")
    assert "Jobs that follow, and will wait: first:A second:A" in asked.text
    said = "hourly:A is unset; 2 jobs wait for it: first:A, second:A"
    assert browser.send(asked, "Unset the job hourly:A").notes == [f"hourly:A: unset. Warning: {said}."]
    # What is unset as well does not wait.
    bike.set("hourly:A", HOURLY)
    asked = browser.send(browser.get("/jobs"), "Unset", tick=["hourly:A", "first:A"])
    assert "will wait: second:A" in asked.text
    assert "are not listed" not in asked.text


def test_of_many_jobs_that_are_unset_it_is_said_whose_followers_are_not_listed(bike, browser, monkeypatch):
    monkeypatch.setattr("redbike.web.pages.act.NAMED", 1)
    bike.set("first:A", "AFTER:nightly:A")
    asked = browser.send(browser.get("/jobs"), "Unset", tick=["hourly:A", "nightly:A"])
    said = "Jobs that follow only others than the first 1 will wait too, and are not listed."
    assert (said in asked.text, "first:A" in asked.text) == (True, False)


def test_several_jobs_that_are_ticked(bike, browser):
    for verb, said in (
        ("Run", "2 queued"),
        ("Cancel", "2 cancelled"),
        ("Cancel", "2 without anything that waits or runs"),
        ("Pause", "2 paused"),
        ("Resume", "2 resumed"),
        ("Resume", "2 not paused"),
        ("Unset", "2 unset"),
    ):
        with unchanged(bike.store):
            page = press(browser, "/jobs?pattern=*&queue=A", verb, tick=("nightly:A", "hourly:A"))
            assert f"{verb} 2 jobs?" in page.text
        page = browser.send(page, f"{verb} 2 jobs")
        assert page.notes == [f"{verb} 2 jobs: {said}."]
        assert page.url.query == b"pattern=*&queue=A"
    for jobid in ("nightly:A", "hourly:A"):
        logged = [action for action, of, _ in read_log(bike) if of == jobid]
        assert logged == ["run", "cancel", "pause", "resume", "unset"]
    assert bike.tell("nightly:B")["next_run"] == 4e9
    with unchanged(bike.store):
        # A selection without a job is no selection of all.
        assert press(browser, "/jobs", "Unset").notes == ["No job was selected, so nothing was done."]


def test_all_jobs_that_match(bike, browser):
    for number in range(120):
        set_job(bike.store, f"many-{number:03}:A", HOURLY, 4e9)
    page = press(browser, "/jobs?pattern=many-*", "Pause all")
    assert "The first 50 of 120 jobs" in page.text
    assert [jobid in page.text for jobid in ("many-049:A", "many-050:A")] == [True, False]
    page = browser.send(page, "Pause 120 jobs", reason="holiday", until="4000000000")
    assert page.notes == ["Pause 120 jobs: 120 paused."]
    assert len(list(bike.jobs(paused=True))) == 120
    assert bike.tell("many-119:A")["paused"]["until"] == 4e9
    assert {entry.who for entry in bike.log()} == {WHO}
    # The filters of the list are those of the form.
    page = press(browser, "/jobs?paused=1&queue=A", "Resume all", "Resume 120 jobs")
    assert page.notes == ["Resume 120 jobs: 120 resumed."]
    assert press(browser, "/jobs", "Unset all", "Unset 123 jobs").notes == ["Unset 123 jobs: 123 unset."]
    assert names(bike) == set()


def test_all_that_match_are_those_that_the_list_shows(bike, browser):
    page = press(browser, "/jobs?pattern=ight", "Pause all")
    assert {"nightly:A", "nightly:B"} <= set(page.text.split())
    assert browser.send(page, "Pause 2 jobs").notes == ["Pause 2 jobs: 2 paused."]
    # A confirmation leads to the rehearsal of the same.
    page = press(browser, "/jobs?pattern=ight&paused=1", "Resume all")
    assert "Resume exactly these 2" in browser.get(find_rehearsal(page)).text
    page = press(browser, "/", "Pause everything")
    assert "Rehearsal: Pause everything" in browser.get(find_rehearsal(page)).text
    set_job(bike.store, "hourly:A:A", HOURLY, 4e9)
    # Of the job that is shown alone, not of those that have its id in theirs.
    assert press(browser, "/jobs?pattern=hourly:A", "Run all").notes == ["hourly:A: queued."]
    assert bike.tell("hourly:A:A")["status"].startswith("TML")


def test_a_rehearsal_is_of_exactly_the_jobs_that_are_confirmed(bike, browser):
    bike.pause("nightly:A", "nightly:B")
    rehearsal = browser.get("/rehearse?action=resume&paused=1")
    bike.resume("nightly:B")
    page = browser.send(rehearsal, "Resume exactly these 2")
    assert page.status == 409
    assert "1 gone, or no longer matching: nightly:B" in page.text, "it knows which jobs the rehearsal was about"
    assert "paused" in bike.tell("nightly:A")


def test_a_rehearsed_resume_is_confirmed_as_it_was_shown(bike, browser):
    bike.run("nightly:A")
    for query, subject in (("of=queue&name=A", "the queue work-A"), ("of=all", "everything")):
        limits = {"queue": "A"} if "queue" in query else {}
        pause, resume = (bike.pause_queue, bike.resume_queue) if limits else (bike.pause_all, bike.resume_all)
        pause(**limits, reason="holiday")
        rehearsal = browser.get(f"/rehearse?action=resume&{query}")
        resume(**limits)
        pause(**limits, reason="disk is full")
        page = browser.send(rehearsal, f"Resume {subject}")
        assert page.status == 409
        assert "The pause has changed since it was shown, so nothing was done." in page.text
        assert "disk is full" in page.text
        assert [each.pause.reason for each in bike.queue_limits() if each.pause] == ["disk is full"]
        assert browser.send(page, f"Resume {subject}").notes == [f"{subject[0].upper()}{subject[1:]} goes on."]
        page = press(browser, f"/rehearse?action=pause&{query}&reason=holiday", f"Pause {subject}")
        assert page.notes == [f"{subject[0].upper()}{subject[1:]} is paused."]
        assert [each.pause.reason for each in bike.queue_limits() if each.pause] == ["holiday"]
        resume(**limits)


def test_a_form_that_is_sent_twice_acts_once_and_that_is_said(bike, browser):
    for path, button, typed in (
        ("job?id=hourly:A", "Run now", {}),
        ("set", "Set this job", {"id": "new:A", "schedule": "NOW"}),
        ("rehearse?action=pause&pattern=*", "Pause exactly these 4", {}),
        ("rehearse?action=pause&of=all", "Pause everything", {}),
    ):
        page, empty = browser.get(f"/{path}"), dump(bike.store)
        browser.send(page, button, **typed)
        assert dump(bike.store) != empty
        take_one(bike.store, [("work-A", 1e9)], f"tag-{button}")
        with unchanged(bike.store):
            page = browser.send(page, button, **typed)
        assert page.notes == ["This form was sent before: what it asks for was done once, not twice."]


def fail(bike, *jobids, error="no disk"):
    """Let a run of each of these jobs fail for good."""
    for jobid in jobids:
        bike.set(jobid, HOURLY, data={"error": error})
        bike.run(jobid)
        assert bike.work_one() == jobid


def confirm_run(bike, browser, page, *jobids):
    """Confirm that jobs that have failed are run again, these and no others; the page that comes of it."""
    verb = f"Run {len(jobids)} jobs"
    assert f"{verb}?" in page.text
    page = browser.send(page, verb)
    assert page.notes == [f"{verb}: {len(jobids)} queued as a new try of the old occurrence."]
    assert {jobid for action, jobid, _ in read_log(bike) if action == "run"} == {*jobids}
    return page


def test_what_has_failed_is_run(bike, browser):
    fail(bike, "bad:A", "worse:B", "again:A")
    page = press(browser, "/failures", "Run all matching jobs again", pattern="w*")
    assert "Run the job worse:B?" in page.text
    # Nothing else, also where there are more jobs; the overview asks for the same.
    for page in (
        press(browser, "/failures", "Run all matching jobs again"),
        browser.post([*keys(browser), ("do", "action=run&failed=1")]),
    ):
        assert "Run 3 jobs?" in page.text
        assert "hourly:A" not in page.text
    confirm_run(bike, browser, page, "bad:A", "worse:B", "again:A")


def test_a_group_of_failures_is_run_again(bike, browser):
    fail(bike, "one:A", "two:A", "three:A")
    fail(bike, "other:A", error="another")
    group = next(link for link in re.findall(r'href="(failures\?group=[^"]+)">3<', browser.get("/failures").html))
    page = press(browser, f"/{group}", "Run these 3 jobs again")
    page = confirm_run(bike, browser, page, "one:A", "two:A", "three:A")
    assert page.url.query.decode() in group


def test_failures_that_are_ticked_are_run_again(bike, browser):
    fail(bike, "one:A", "two:A", "three:A")
    page = press(browser, "/failures?as=list", "Run the selected jobs again")
    assert page.notes == ["No job was selected, so nothing was done."]
    page = press(browser, "/failures?as=list", "Run the selected jobs again", tick=("one:A", "three:A"))
    assert confirm_run(bike, browser, page, "one:A", "three:A").url.query == b"as=list"


def keys(browser):
    """What each form sends besides, on a page of its own."""
    return [pair for pair in browser.get("/").find("Pause everything").fields if pair[0] in ("form", "once", "back")]


def test_each_queue_leads_to_its_form(bike, browser):
    bike.run("hourly:A")
    bike.set("other:B", "NOW")
    page = browser.get("/queues")
    assert 'href="queues?queue=work-B#act-until">Pause it' in page.html
    page = press(browser, "/queues?queue=work-B", "Pause it")
    assert page.notes == ["The queue work-B is paused."]
    assert 'href="queues?queue=work-B#act-until">Resume it' in page.html


@pytest.mark.parametrize(
    ("asked", "meant"),
    [("work-B9", "work-B9"), ("B9", "work-B9"), ("gone", "work-gone"), (" A", " A"), ("q" * 600, "q" * 600)],
)
def test_the_form_of_queues_is_of_the_one_that_is_asked_for(bike, browser, monkeypatch, asked, meant):
    monkeypatch.setattr(overview, "MOST", 5)
    bike.client.sadd(bike.store.keys.queues, *(f"work-B{number}" for number in range(10)), " A", "q" * 600)
    page = browser.get(f"/queues?{urlencode({'queue': asked})}")
    assert dict(page.find("Pause it").fields)["name"] == meant
    browser.send(page, "Pause it")
    assert [each.queue for each in bike.queue_limits() if each.pause] == [meant]


def test_a_queue_is_paused_resumed_and_limited(bike, browser):
    bike.run("hourly:A")
    page = press(browser, "/queues", "Pause it", until="4000000000", reason="full")
    assert page.notes == ["The queue work-A is paused."]
    assert "full" in page.text, "the table shows it at once"
    [limits] = bike.queue_limits()
    assert (limits.queue, limits.pause.until, limits.pause.reason, limits.pause.by) == ("work-A", 4e9, "full", WHO)
    for button, typed, said, queue_limits in (
        ("Pause it", {}, "was paused already", 1),
        ("Resume it", {}, "goes on", 0),
        ("Resume it", {}, "was not paused", 0),
        ("Limit it", {"at_once": "5", "rate": "100/m"}, "has these limits now: at once 5, rate 100/m", 1),
        ("Limit it", {"rate": "none"}, "has these limits now: at once 5, rate none", 1),
        ("Remove its limits", {}, "has these limits now: at once none, rate none", 0),
    ):
        page = browser.send(page, button, **typed)
        assert (page.notes, len(bike.queue_limits())) == ([f"The queue work-A {said}."], queue_limits)
    # Everything needs a confirmation.
    page = press(browser, "/", "Pause everything")
    assert ("Pause everything?" in page.text, bike.queue_limits()) == (True, [])
    page = browser.send(page, "Pause everything", reason="flood")
    assert page.notes == ["Everything is paused."]
    assert [(limits.queue, limits.pause.reason) for limits in bike.queue_limits()] == [("", "flood")]
    assert press(browser, "/", "Resume everything", "Resume everything").notes == ["Everything goes on."]
    assert bike.queue_limits() == []
    logged = [action for action, _, _ in read_log(bike)]
    assert logged == ["pause", "resume", "limit", "limit", "limit", "pause", "resume"]
    assert {entry.who for entry in bike.log()} == {WHO}


def test_who_confirms_it_halts_all_dispatchers_and_workers_that_run(bike, browser, client, prefix):
    others = Redbike(Quiet("A"), prefix, client)
    threads = [loops.start(loop) for loop in (others.dispatch, others.work)]
    wait_until(lambda: len(bike.workers()) == 2)
    page = press(browser, "/workers", "Halt all")
    assert ("Halt all dispatchers and workers?" in page.text, list(bike.log()), bike.is_halted()) == (True, [], False)
    page = browser.send(page, "Halt all dispatchers and workers")
    assert page.notes == ["All dispatchers and workers stop after their current jobs."]
    loops.join(*threads)
    assert [(entry.who, entry.action) for entry in bike.log()] == [(WHO, "halt")]


def test_a_time_as_people_say_it_becomes_the_instant_that_is_confirmed(bike, browser):
    page = browser.send(
        press(browser, "/", "Pause everything"), "Pause everything", until="tomorrow 6:00", reason="x\x1b"
    )
    shown = dict(page.find("Pause everything").fields)["until"]
    assert (page.status, shown.endswith(" 06:00:00")) == (400, True)
    page = browser.send(page, "Pause everything", reason="flood")
    assert page.notes == ["Everything is paused."]
    until = datetime.fromisoformat(shown).replace(tzinfo=UTC).timestamp()
    assert [limits.pause.until for limits in bike.queue_limits()] == [until]
    # One that is done at once is said afterwards.
    [said] = press(browser, "/job?id=hourly:A", "Pause this job", until="tomorrow 6:00").notes
    until = datetime.fromtimestamp(bike.tell("hourly:A")["paused"]["until"], UTC)
    assert said == f"hourly:A: paused. The time 'tomorrow 6:00' is {until:%Y-%m-%d} 06:00:00 UTC."


PAUSE = ("/job?id=hourly:A", "Pause this job", "Pause the job hourly:A")
LIMIT = ("/queues", "Limit it", "Limit the queue work-A")


def test_what_is_wrong_is_said_beside_the_field_and_what_was_typed_stays(bike, browser):
    bike.run("hourly:A")
    for (path, button, again), typed, message, *right in (
        (PAUSE, {"until": "someday"}, "bad timestamp 'someday'"),
        (PAUSE, {"until": "2001-01-01"}, "bad until '2001-01-01'"),
        (PAUSE, {"reason": "x" * 501}, "up to 500 characters"),
        (PAUSE, {"reason": "x\x1b[2J"}, "bad reason", {"reason": "as it should be"}, "hourly:A: paused."),
        (LIMIT, {"at_once": "many"}, "bad at-once 'many'"),
        (LIMIT, {"rate": "5"}, "bad rate '5'"),
        (LIMIT, {}, "neither", {"at_once": "7"}, "The queue work-A has these limits now: at once 7, rate none."),
    ):
        with unchanged(bike.store):
            page = press(browser, path, button, **typed)
        assert (page.status, message in page.text) == (400, True)
        assert dict(page.find(again).fields).items() >= typed.items()
        if right:
            assert browser.send(page, again, **right[0]).notes == [right[1]]


def test_a_set_that_has_changed_is_not_touched(bike, browser):
    page = press(browser, "/jobs?pattern=nightly:*", "Unset all")
    set_job(bike.store, "nightly:C", HOURLY, 4e9)
    bike.unset("nightly:A")
    with unchanged(bike.store):
        page = browser.send(page, "Unset 2 jobs")
        assert page.status == 409
        for said in (
            "The selection has changed since it was shown, so nothing was done",
            "It was 2 jobs, and is now 2 jobs.",
            "1 new: nightly:C",
            "1 gone, or no longer matching: nightly:A",
        ):
            assert said in page.text
    assert browser.send(page, "Unset 2 jobs").notes == ["Unset 2 jobs: 2 unset."]
    assert names(bike) == {"hourly:A"}


def test_a_confirmation_without_a_set_confirms_nothing(bike, browser):
    with unchanged(bike.store):
        fields = [("action", "unset"), ("pattern", "*"), ("confirmed", "1")]
        assert "Unset 3 jobs?" in browser.post([*keys(browser), *fields]).text
        assert browser.post([*keys(browser), *fields, ("digest", "0" * 64)]).status == 409


def test_only_forms_of_this_process_are_done(bike, browser):
    fields = dict(keys(browser))
    for once in ("", "x", "1.2.3", f"{time.time():.6f}.00.{'0' * 64}", fields["once"][:-1], "é.é.é"):
        page = browser.post([*({**fields, "once": once}.items()), ("action", "run"), ("id", "hourly:A")])
        assert page.notes == ["This form is too old, so nothing was done. Check how things are now, and try again."]
    assert read_log(bike) == []


def test_what_is_no_order_is_quoted(bike, browser):
    with unchanged(bike.store):
        for fields, message in (
            ({"action": "drop"}, "bad action 'drop'"),
            ({}, "bad action ''"),
            ({"action": "limit"}, "bad action 'limit'"),
            ({"action": "cancel", "of": "all"}, "bad action 'cancel'"),
            ({"action": "run", "of": "me"}, "bad of 'me'"),
            ({"action": "run", "id": "x\x00"}, "control characters"),
            ({"action": "pause", "of": "queue", "name": "inflight-x"}, "bad queue name"),
            ({"action": "pause", "of": "queue", "name": "A@all"}, "bad queue name 'work-A@all': no job waits there"),
        ):
            page = browser.post([*keys(browser), *fields.items()])
            assert (page.status, message in page.text) == (400, True), page.text
    page = browser.post([*keys(browser), ("action", "pause"), ("of", "queue"), ("name", "Z")])
    assert page.notes == ["The queue work-Z is paused. It was never used."]


def test_a_job_that_has_no_queue_is_not_run_and_neither_are_others(bike, client, prefix, monkeypatch):
    class Picky(Quiet):
        def queue_for(self, jobid):
            if jobid == "nightly:B":
                raise RuntimeError("no")
            return super().queue_for(jobid)

    # Also if they are not of the same batch.
    monkeypatch.setattr("redbike.web.control.BATCH", 1)
    other = Browser(app(Redbike(Picky("A:B"), prefix, client), write=True))
    with unchanged(bike.store):
        assert "Nothing was done: " in press(other, "/jobs", "Run all", "Run 3 jobs").notes[0]


# Blackouts

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
