"""Runs, failures, queues, workers and the log."""

import json
import re

from redbike import Redbike, RoundRobin
from redbike.store.enums import Outcome
from redbike.web import app
from redbike.web.live import find_fragments
from tests.queries import kept
from tests.waiting import wait_until
from tests.web.conftest import TestClient
from tests.web.html import Page, follow, list_all, listed, read


def add_runs(bike, *runs):
    """Add ended runs: (job, when it started, error)."""
    made = [
        kept.make_run(start, outcome=Outcome.FAILED if error else Outcome.OK, error=error, jobid=jobid)
        for jobid, start, error in runs
    ]
    kept.add_runs(bike.store, *made)


def test_runs_are_shown_the_newest_first_and_filtered(page, bike):
    add_runs(bike, ("old:A", 1000.0, ""), ("bad:A", 2000.0, "KeyError: <b>"), ("new:A", 3000.0, ""))
    for query, jobs in (
        ("", ["new:A", "bad:A", "old:A"]),
        ("failed=1", ["bad:A"]),
        ("since=1970-01-01T00:25", ["new:A", "bad:A"]),
        ("since=1970-01-01T00:40", ["new:A"]),
        ("pattern=ol", ["old:A"]),
    ):
        assert listed(read(page.get(f"/runs?{query}"))) == jobs, query
    assert "old:A" in read(page.get("/runs?id=old:A")).words
    # What people say becomes the instant, in the form and in its links.
    assert 'value="yesterday' not in (said := page.get("/runs?since=yesterday 6:00").text)
    assert re.search(r'name="since" value="\d{4}-\d\d-\d\d 06:00:00"', said)
    assert "KeyError: <b>" in read(page.get("/runs")).words
    assert "bad timestamp" in read(page.get("/runs?since=someday"), 400).words


def test_older_runs_are_on_the_next_pages(page, bike):
    add_runs(bike, *((f"j{number:03}:A", 1000.0 + number // 7, "") for number in range(250)))
    ordered = [f"j{number:03}:A" for number in sorted(range(250), key=lambda n: (-(n // 7), -n))]
    found, pages = list_all(page, "/runs", "before=")
    assert (found, len(pages)) == (ordered, 3)
    # A pattern finds what is behind very many newer ones.
    assert list_all(page, "/runs?pattern=j0*", "before=")[0] == ordered[150:]
    assert listed(read(page.get("/runs?pattern=c*"))) == []


def test_runs_of_very_many_jobs_are_looked_for_job_by_job(page, bike, monkeypatch):
    for module in ("cursors", "past_runs"):
        monkeypatch.setattr(f"redbike.store.{module}.FEW", 100)
    number = 300
    add_runs(bike, *((f"j{n:04}:A", 1000.0 + n, "no luck" if n % 100 == 0 else "") for n in range(number)))
    list(bike.store.archiver.archive())
    add_runs(bike, ("new:A", 9000.0, ""))
    found, pages = list_all(page, "/runs", "cursor=")
    assert listed(pages[0]) == ["new:A"]
    assert f"are kept with their {number:,} jobs" in pages[0].words
    assert sorted(found) == sorted([*(f"j{n:04}:A" for n in range(number)), "new:A"])
    found, pages = list_all(page, "/runs?failed=1", "cursor=")
    assert sorted(found) == [f"j{n:04}:A" for n in range(0, number, 100)]
    assert f"The runs of all {number:,} jobs were searched; each" in pages[-1].words


def keep_failure(bike, jobid, failed, error):
    kept = {"jobid": jobid, "failed": failed, "error": error, "attempt": 2, "traceback": "x" * 9}
    bike.client.hset(bike.store.keys.failures, jobid, json.dumps(kept))
    bike.client.zadd(bike.store.keys.failure_times, {jobid: failed})


def test_failures_are_grouped_and_listed(page, bike, monkeypatch):
    keep_failure(bike, "one:A", 1000.0, "OSError: no disk")
    assert "There is one, of" in read(page.get("/failures")).words
    bike.client.delete(bike.store.keys.failures, bike.store.keys.failure_times)
    for number in range(250):
        error = f"ValueError: row {number} <b>" if number % 5 else "OSError: no disk"
        keep_failure(bike, f"j{number:03}:A", 1000.0 + number // 3, error)
    page.app.routes[0].endpoint.args[0].drop_seen()
    found = read(page.get("/failures"))
    newest = "the newest: ValueError: row 249 <b>"
    assert found.lacks("All 250 are grouped", "200 ValueError: row N <b>", "50 OSError: no disk", newest) == []
    assert "run?id=j249%3AA&began=failure" in found.links
    group = next(link for link in found.links if "group=" in link)
    jobids, pages = list_all(page, f"/{group}", "cursor=")
    assert len(set(jobids)) == 200
    assert "Failures with this error: ValueError: row N <b>" in pages[0].words
    # One by one, the newest come first.
    found, pages = list_all(page, "/failures?as=list", "cursor=")
    assert found == [f"j{number:03}:A" for number in reversed(range(250))]
    assert len(pages) == 3
    assert "xxxxxxxxx" not in page.get("/failures?as=list").text
    # The window of the groups is stated.
    whole = type(bike.store.past).read_failures
    monkeypatch.setattr(type(bike.store.past), "read_failures", lambda self, last, rows: whole(self, last, 100))
    page.app.routes[0].endpoint.args[0].drop_seen()
    assert "The newest 100 of 250 are grouped" in read(page.get("/failures")).words


def test_queues_show_limits_pauses_and_what_waits(page, bike):
    bike.set("one:A", "NOW")
    bike.set("two:B", "NOW")
    bike.limit("B", at_once=3, rate="100/m")
    bike.pause_queue("B", reason="no <i>disk</i>")
    found = read(page.get("/queues"))
    assert found.lacks("3 at once, 100/m", "no <i>disk</i>") == []
    assert {"jobs?status=ENQ&queue=work-A", "jobs?status=WRK&queue=work-A"} <= set(found.links)
    bike.pause_all(reason="all of it")
    # What all viewers share is a second old at most.
    wait_until(lambda: "Everything is paused" in read(page.get("/queues")).words)
    assert "all of it" in read(page.get("/queues")).words


def test_workers_are_shown_lost_ones_first_and_dispatchers_apart(page, bike):
    now = bike.store.timeline.read_clock()
    keys, queues = bike.store.keys, [f"q{n}" for n in range(30)]
    for number in range(20):
        owner, kind = f"worker{number:02}", "dispatcher" if number == 5 else "worker"
        entry = {"kind": kind, "host": f"<b>host{number}", "pid": number, "queues": queues, "version": "1"}
        bike.client.hset(keys.workers, owner, f"{now - 100:.6f} {json.dumps(entry)}")
        bike.client.zadd(keys.seen, {owner: now - 60 if number == 7 else now})
    bike.client.hset(keys.batches, "worker031", "\n" + "\n".join(f"job{n}:A" for n in range(9)) + "\n")
    found = read(page.get("/workers"))
    said = ["Lost (1)", "lost worker", "Dispatchers (1)", "Workers (18)", "and 20 more", "and 4 more"]
    assert found.lacks(*said) == []
    assert found.words.index("<b>host7") < found.words.index("<b>host5") < found.words.index("<b>host0")
    assert listed(found) == [f"job{n}:A" for n in range(5)]


def test_the_log_says_who_did_what(page, client, bike):
    noted = Redbike(RoundRobin("A"), bike.prefix, client, noted_as="ann@example.org")
    noted.set("one:A", "EVERY:1h")
    noted.set("two:A", "EVERY:1h")
    list(noted.pause("one:A", reason="no <b>disk</b>"))
    found = read(page.get("/log"))
    assert found.words.count("ann@example.org") == 3
    assert "no <b>disk</b>" in found.words
    assert read(page.get("/log?id=one:A")).words.count("ann@example.org") == 2
    assert "No kept change matches." in read(page.get("/log?id=other:A")).words


def test_the_log_is_looked_for_by_time_and_by_who(page, bike):
    now = bike.store.timeline.read_clock()
    for number, (ago, who) in enumerate([(90000, "ann@web1"), (1800, "bob@web1"), (60, "Ann (page@::1)")]):
        entry = [f"{now - ago:.6f}", who, "set", "@daily", f"job{number}:A"]
        bike.client.lpush(bike.store.keys.log, json.dumps(entry))
    first = read(page.get("/log"))
    assert listed(first) == ["job2:A", "job1:A", "job0:A"]
    assert listed(read(page.get("/log?who=ann"))) == ["job2:A", "job0:A"]
    assert listed(read(page.get("/log?since=1h%20ago"))) == ["job2:A", "job1:A"]
    assert listed(read(page.get("/log?since=1h%20ago&who=ANN"))) == ["job2:A"]
    # What the page offers.
    [hour] = [link for link in first.links if "1h%20ago" in link]
    assert listed(read(page.get(f"/{hour}"))) == ["job2:A", "job1:A"]
    for bad in ("since=soon", "who=" + "x" * 201):
        assert page.get(f"/log?{bad}").status_code == 400


def test_all_times_of_the_log_are_in_the_zone_that_is_set(client, prefix):
    bike = Redbike(RoundRobin("A"), prefix, client, timezone="Asia/Kolkata", noted_as="ann@example.org")
    bike.set("one:A", "EVERY:1h")
    until, said = 1893456000.0, "until 2030-01-01 05:30:00 Asia/Kolkata"
    bike.pause("one:A", until=until, reason="until then")
    bike.pause_queue("A", until=until)
    bike.pause_all(until=until)
    page = TestClient(app(bike), base_url="http://localhost")
    found = read(page.get("/log"))
    assert [found.words.count(said), found.words.count("+00:00")] == [3, 0]
    assert found.lacks(f"{said}: until then", "Times are in Asia/Kolkata.") == []
    assert said in page.get("/at/now").text


def test_older_changes_are_on_the_next_pages(page, bike):
    for n in range(130):
        entry = [f"{1000 + n // 4}.000000", "ann", "set", f"change {n}", f"j{n:03}:A", f"k{n:03}:A"]
        bike.client.lpush(bike.store.keys.log, json.dumps(entry))
    found, _ = list_all(page, "/log", "until=")
    assert found == [f"{kind}{number:03}:A" for number in reversed(range(130)) for kind in "kj"]


def test_the_link_to_older_rows_is_live_as_the_rows_are(page, bike, browser):
    assert "Nothing yet." in find_fragments(page.get("/log").text)["found"]
    for number in range(120):
        entry = [f"{1000 + number}.000000", "ann", "set", "", f"j{number}:A"]
        bike.client.lpush(bike.store.keys.log, json.dumps(entry))
        keep_failure(bike, f"j{number}:A", 1000.0 + number, "OSError")
    add_runs(bike, *((f"j{number}:A", 1000.0 + number, "") for number in range(120)))
    for path, name in (("runs", "found"), ("log", "found"), ("failures?as=list", "failures")):
        found = find_fragments(page.get(f"/{path}").text)
        assert len(listed(Page(found[name]))) == 100
        assert found["pages"].count('rel="next"') >= 1, path
    # Rows with a button that is about them stay, and so does the link.
    assert {"failures", "pages"}.isdisjoint(find_fragments(browser.client.get("/failures?as=list").text))


def test_a_search_in_the_log_goes_on_where_it_ended(page, bike, monkeypatch):
    monkeypatch.setattr("redbike.web.pages.log.SEARCH_TIMEOUT", -1.0)
    entries = [json.dumps([f"{1000 + n // 4}.000000", "ann", "set", "", f"j{n}:A"]) for n in range(40)]
    bike.client.lpush(bike.store.keys.log, *entries)
    pages = follow(page, "/log?id=j3:A", "until=")
    assert "There are older ones to search" in pages[0].words
    assert len(pages) == 41
    assert sum("Did what" in each.words for each in pages) == 1
