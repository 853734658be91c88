"""The page of a job."""

import re

from redbike import Redbike, RoundRobin
from redbike.store.backfill import make_jobid
from redbike.store.outputs import pack_output
from redbike.web import app
from tests.queries.kept import add_runs, make_run
from tests.verbs import set_job, take_one
from tests.web.api import Api, list_next
from tests.web.conftest import BASE, TestClient, register_hosts
from tests.web.html import read

SECRET = "the password is 12345"


def show(page, jobid, status=200):
    return read(page.get("/job", params={"id": jobid}), status)


def test_it_says_what_the_job_is_and_what_is_to_come(page, bike):
    bike.set("nightly:A", "30 3 * * *", tz="Europe/Berlin", retries=5, spread="10m")
    bike.client.hset(bike.store.keys.skipped, mapping={"late:nightly:A": 3, "running:nightly:A": 12})
    found = show(page, "nightly:A")
    words = ["At 03:30", "Europe/Berlin; it is", "work-A", "scheduled; last change ", "It is not due until"]
    assert found.lacks(*words, "12 running, 3 late") == []
    [coming] = [number for number, (tag, a) in enumerate(found.tags) if a.get("id") == "coming"]
    assert [tag for tag, _ in found.tags[coming + 1 :]][:5] == ["h2", "ol", "li", "time", "span"]
    assert found.words.count("Europe/Berlin") > 10
    assert {"log?id=nightly%3AA", "runs?id=nightly%3AA", "jobs?queue=work-A"} <= set(found.links)


def test_links_to_lists_name_a_job_whose_id_looks_like_a_pattern(page, bike):
    for jobid in ("db[1]:A", "db1:A", r"a\b:A"):
        bike.set(jobid, "EVERY:1h")
    assert "timeline?lanes=job&pattern=db%5B%5B%5D1%5D%3AA" in show(page, "db[1]:A").links
    [link] = [link for link in read(page.get(r"/jobs?pattern=a\b:A")).links if link.startswith("jobs?pattern=%2A")]
    assert r"a\b:A" in read(page.get(f"/{link}")).words.partition("1 job")[2]


def test_what_people_say_of_a_job_is_on_its_page_and_beside_its_failure(page, bike):
    said = {"tags": "night, EU", "owner": "Ann <ann@host>", "note": "Call & wait"}
    bike.set("said:A", "EVERY:1h", data={"error": "no luck"}, **said)
    bike.set("plain:A", "EVERY:1h", data={"error": "no luck"})
    bike.run("*")
    assert {bike.work_one(), bike.work_one()} == {"said:A", "plain:A"}
    assert show(page, "said:A").lacks("Tags eu night", "Owner Ann <ann@host>", "Note Call & wait") == []
    assert "Owner" not in show(page, "plain:A").words.partition("Options")[0]
    failures = read(page.get("/failures?as=list")).words
    assert "Owner: Ann <ann@host>" in failures
    assert failures.count("Note:") == 1


def test_it_says_how_far_a_backfill_is(page, bike):
    now = bike.store.timeline.read_clock() // 3600 * 3600
    bike.set("a:A", "EVERY:1h@0")
    bike.backfill("a:A", now - 7200, now)
    occurrence = make_jobid("a:A", now - 7200)
    assert "Backfill 0 of 3 done, 1 begun, 2 left: " in show(page, "a:A").words
    assert "Backfill of a:A" in show(page, occurrence).words
    bike.cancel("a:A")
    assert "Last backfill 0 of 3 done, 1 dropped, 2 left: " in show(page, "a:A").words


def test_it_shows_the_hosts_of_a_job_for_every_host(page, bike):
    register_hosts(bike, "web1")
    bike.set("a:A@all", "EVERY:1h@0")
    assert "On web1 a:A@web1 TML, due " in show(page, "a:A@all").words
    assert "For every host a:A@all" in show(page, "a:A@web1").words
    due = bike.tell("a:A@all")["next_run"]
    assert list_next(bike, "a:A@all", 2) == [due, due + 3600]


def test_it_shows_options_beside_the_settings(client, prefix):
    bike = Redbike(RoundRobin("A"), prefix, client, retries=7, ping_url="https://example.org/secret")
    bike.set("a:A", "EVERY:1h", backoff="5m", ping_url="https://example.org/hidden?key=1")
    found = show(TestClient(app(bike), base_url=BASE), "a:A")
    assert found.lacks("backoff 300 1 The pause before the first retry", "retries 7 How often") == []
    assert not re.search("secret|hidden", found.words)


def test_data_and_tracebacks_are_for_those_alone_who_may_see_them(page, page_with_data, bike):
    bike.set("a:A", "NOW", data={"error": "no luck", "note": SECRET})
    assert bike.work_one() == "a:A"
    bike.client.hset(bike.store.keys.outputs, "a:A", pack_output(1.0, 1, f"printed: {SECRET}"))
    hidden, shown = show(page, "a:A"), show(page_with_data, "a:A")
    assert hidden.lacks("ValueError: no luck", "--show-data") == []
    assert SECRET not in page.get("/job?id=a:A").text
    assert "Traceback" not in hidden.words.replace("its traceback", "")
    assert shown.words.count(SECRET) == 2
    assert "Traceback (most recent call last)" in shown.words


def test_how_far_a_run_is_may_be_known_to_all_on_the_page_and_in_the_api(page, bike):
    set_job(bike.store, "a:A", "EVERY:1h", "now")
    run = take_one(bike.store, [("work-A", 1000.0)], "tag")
    run.saver = object()
    run.progress(0.4, "page 2 of 5")
    bike.store.runs.heartbeat([run])
    assert "Progress 40 % page 2 of 5" in show(page, "a:A").words
    for show_data in (False, True):
        job = Api(app(bike, api=True, show_data=show_data)).ask("GET", "/jobs/a:A")[1]
        assert job["progress"] == {"share": 0.4, "text": "page 2 of 5"}


def test_the_last_runs_have_a_chart_and_a_table(page, bike):
    for data in (None, {"error": "no luck"}):
        bike.set("a:A", "NOW", data=data)
        assert bike.work_one() == "a:A"
    found = show(page, "a:A")
    [label] = [a["aria-label"] for tag, a in found.tags if tag == "svg"]
    assert label.startswith("The last 2 runs, the newest on the right: 1 ok, 1 failed")
    assert found.lacks("Its last 10 runs are kept, 2 so far", "Their median took") == []
    # One that took unusually long is marked.
    bike.set("b:A", "EVERY:1h")
    took = [60.0 if number == 3 else 2.0 for number in range(8)]
    add_runs(bike.store, *(make_run(1000.0 + n, 0.5, each, jobid="b:A") for n, each in enumerate(took)))
    assert show(page, "b:A").lacks("1 took unusually long", "1 min unusual") == []


def test_a_paused_job_says_who_and_why_and_has_nothing_to_come(page, bike):
    bike.set("a:A", "EVERY:1h")
    list(bike.pause("a:A", reason="no <i>disk</i>"))
    found = show(page, "a:A")
    assert found.lacks("no <i>disk</i>", "Nothing, until somebody resumes it.") == []
    assert "jobs?paused=1" in found.links
    bike.set("a:A", "STOP")
    assert show(page, "a:A").lacks("Its schedule is STOP since", "Nothing, as things are.") == []


def test_a_bad_job_and_a_damaged_one_are_shown_as_text(page, bike):
    assert "no such job" in show(page, "<b>nobody</b>", 404).words
    assert "bad job id" in show(page, "", 400).words
    bike.store.jobs.reject("bad:A")
    assert show(page, "bad:A").lacks("It was never scheduled", "bad schedule") == []
    bike.set("torn:A", "EVERY:1h")
    keys = bike.store.keys
    for key in (keys.options, keys.pauses, keys.retry_states, keys.failures, keys.history):
        bike.client.hset(key, "torn:A", b"\xff{damaged")
    bike.client.hset(keys.schedules, "torn:A", "EVERY:<never>")
    damaged = "Damaged: retry state, failure, pause, options, history"
    assert show(page, "torn:A").lacks(damaged, "Its schedule cannot be read") == []
    bike.client.hset(keys.running, "ghost:A", "x 1.000000 2.000000 3.000000 0 0 - work-A")
    show(page, "ghost:A")


def test_a_follower_has_a_picture_of_what_follows_what(page, bike):
    for jobid, schedule in (
        ("extract:A", "0 3 * * *"),
        ("load:A", "AFTER:extract:A"),
        ("<b>:A", "AFTER:load:A,nobody:A failed"),
    ):
        bike.set(jobid, schedule)
    found = show(page, "load:A")
    times = "It runs when its parents have ended, for these due times of theirs:"
    assert found.lacks("It waits for extract:A, which is due at", times, "then <b>:A if it fails") == []
    assert re.search("after extract:A ?, which is due at", found.words)
    [label] = [a["aria-label"] for tag, a in found.tags if tag == "svg"]
    assert label == "What follows what, 3 jobs: load:A after extract:A; <b>:A after load:A"
    assert {"job?id=extract%3AA", "job?id=%3Cb%3E%3AA"} <= set(found.links)
    assert 'class="own"' in page.get("/job?id=load:A").text
    assert 'class="missing"' in page.get("/job?id=<b>:A").text
    assert "which is no job" in show(page, "<b>:A").words
    assert "What follows what" not in show(page, "other:A", 404).words


def test_a_group_is_in_the_picture_and_is_no_job(page, bike):
    bike.group("<g>", [("one:A", "0 3 * * *"), ("two:A", "AFTER:one:A")], then="report:A")
    found = show(page, "report:A")
    waits = "It waits for the group <g>, 2 of 2 jobs left: one:A, which is due at"
    assert found.lacks(waits, "after group <g>, which has 2 of 2 jobs left") == []
    [label] = [a["aria-label"] for tag, a in found.tags if tag == "svg"]
    assert ("report:A after group <g>" in label, "group <g> after one:A" in label) == (True, True), label
    assert {"job?id=one%3AA", "job?id=two%3AA"} <= set(found.links)
    assert not [link for link in found.links if "1D" in link or "g%3E" in link]
    assert "then group <g>" in show(page, "two:A").words
    assert "\x1d" not in page.get("/job?id=report:A").text
    # There may be very many followers.
    bike.set("a:A", "EVERY:1h")
    for number in range(40):
        bike.set(f"f{number}:A", "AFTER:a:A")
    found = show(page, "a:A")
    assert [tag for tag, _ in found.tags].count("rect") == 30
    assert "And 11 more, which are further away." in found.words
    bike.set("only:A", "EVERY:1h")
    assert "What follows what" not in show(page, "only:A").words


def test_runs_that_come_while_the_queue_is_paused_are_marked(page, bike):
    bike.set("job:A", "EVERY:1h")
    bike.pause_queue("A", until=bike.store.timeline.read_clock() + 5400)
    assert show(page, "job:A").words.count("paused then, until ") == 1
    bike.pause_all()
    assert show(page, "job:A").words.count("paused then") == 10


def test_runs_of_a_follower_whose_parent_is_held_then_are_marked(page, bike):
    bike.set("job:A", "EVERY:1h")
    bike.set("after:B", "AFTER:job:A")
    bike.pause_queue("A", until=bike.store.timeline.read_clock() + 5400)
    assert show(page, "after:B").words.count("job:A: its queue is paused then until ") == 1
    # Also the first one, if the parent waits already.
    bike.run("job:A")
    assert show(page, "after:B").words.count("job:A: its queue is paused then until ") == 2


def test_blackouts_are_shown_before_they_come(page, bike):
    """With the runs that fall into them; those of queues and of everything are shown with the queues, too."""
    bike.set("job:A", "EVERY:1h")
    bike.run("job:A")
    bike.pause("job:A", every="EVERY:1d@3600", lasting="23h", reason="<b>backup")
    bike.pause_all(every="0 2 * * *", lasting="1h", reason="moving")
    said = ["job: ", "each time of EVERY:1d@3600 for 23 h", "<b>backup", "paused then, until ", "everything: "]
    assert show(page, "job:A").lacks(*said) == []
    assert "Blackout of everything, 0 2 * * * for 1 h: from " in read(page.get("/queues")).words
