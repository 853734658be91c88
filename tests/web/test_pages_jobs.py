"""The list of jobs, and the overview that leads to it."""

import re

import pytest

from redbike.store.enums import Outcome
from redbike.web import app
from redbike.web.application import make_live
from redbike.web.live import find_fragments
from redbike.web.pages.jobs import FLAGS, SORTS, STATUSES
from tests.queries.kept import add_runs, make_run, register, remember
from tests.verbs import set_job, take_one
from tests.web.conftest import BASE, TestClient
from tests.web.html import follow, list_all, listed, read

MANY = 700  # more than a server keeps in one piece


@pytest.fixture
def some(bike):
    bike.set("alpha:A", "EVERY:1d")
    bike.set("beta:B", "EVERY:1h")
    bike.set("gamma:A", "EVERY:1m", tags="eu,night")
    bike.set("failing:A", "NOW", data={"error": "no luck"})
    assert bike.work_one() == "failing:A"
    bike.set("queued:A", "NOW")
    bike.store.jobs.reject("bad:A")
    list(bike.pause("beta:B", reason="the <b>disk</b> is full", until=4e9))
    return bike


def test_each_filter_shows_its_jobs(page, some):
    for query, jobs in [
        ("", ["bad:A", "failing:A", "queued:A", "alpha:A", "beta:B", "gamma:A"]),
        ("?sort=next", ["gamma:A", "alpha:A", "bad:A", "beta:B", "failing:A", "queued:A"]),
        ("?planned=1", ["gamma:A", "alpha:A"]),
        ("?queue=B", ["beta:B"]),
        ("?status=ENQ", ["queued:A"]),
        ("?status=bad", ["bad:A"]),
        ("?failed=1", ["failing:A"]),
        ("?paused=1", ["beta:B"]),
        ("?overdue=1", ["queued:A"]),
        ("?never_ran=1&queue=work-A", ["bad:A", "queued:A", "alpha:A", "gamma:A"]),
        ("?pattern=*m*:A", ["gamma:A"]),
        ("?pattern=ta", ["beta:B"]),
        ("?pattern=nothing", []),
        ("?tag=NIGHT,other", ["gamma:A"]),
        ("?tag=night&failed=1", []),
        ("?tag=night&status=TML&queue=A&pattern=amm", ["gamma:A"]),
        ("?pattern=a&status=TML&queue=work-A", ["alpha:A", "gamma:A"]),
    ]:
        # A slow machine may need several pages.
        assert list_all(page, f"/jobs{query}", "cursor=")[0] == jobs, query


def test_the_form_shows_what_is_asked_for(page, some):
    found = read(page.get("/jobs?pattern=ta&queue=B&status=TML&paused=1"))
    chosen = [attributes["value"] for tag, attributes in found.tags if tag == "option" and "selected" in attributes]
    assert chosen == ["work-B", "TML"]
    boxes = {a["name"]: "checked" in a for tag, a in found.tags if a.get("type") == "checkbox"}
    assert boxes == {name: name == "paused" for name in FLAGS}
    assert [a["value"] for tag, a in found.tags if a.get("id") == "pattern"] == ["ta"]
    options = [attributes["value"] for tag, attributes in found.tags if tag == "option"]
    assert options == ["", "work-A", "work-B", "", *STATUSES, "", "next", *SORTS]
    assert re.search(r"paused (now|\d+ s ago)", found.words)
    assert found.lacks("ends in 2", "the <b>disk</b> is full") == []


def test_a_queue_with_any_name_can_be_chosen_and_any_text_searched(page, bike, client):
    client.sadd(bike.store.keys.queues, 'a"><b>\u202e', b"\xff")
    found = read(page.get("/jobs"))
    assert [attributes["value"] for tag, attributes in found.tags if tag == "option"][1:3] == ['a"><b>\u202e', "\ufffd"]
    read(page.get("/jobs", params={"queue": 'a"><b>\u202e'}))
    # Characters of patterns are searched literally.
    for jobid in ("50%_[x]:A", r"back\slash:A", "a:A", "aa:A"):
        bike.set(jobid, "EVERY:1h")
    assert listed(read(page.get("/jobs", params={"pattern": r"k\s"}))) == ["back%5Cslash:A"]
    assert listed(read(page.get("/jobs", params={"pattern": "%_"}))) == ["50%25_%5Bx%5D:A"]
    # The exact job comes alone, and leads to those that have its id in theirs.
    found = read(page.get("/jobs?pattern=a:A"))
    assert listed(found) == ["a:A"]
    [more] = [link for link in found.links if "pattern=" in link and "sort=" not in link]
    assert listed(read(page.get(f"/{more}"))) == ["a:A", "aa:A"]


def test_what_cannot_be_asked_for_is_refused_in_words(page):
    for query in ("status=XXX", "sort=random", "cursor=x", "pattern=[", "pattern=" + "x" * 600, "queue=queued"):
        assert "bad " in read(page.get(f"/jobs?{query}"), 400).words


@pytest.fixture
def many(bike, monkeypatch):
    monkeypatch.setattr("redbike.store.cursors.FEW", 100)
    jobids = [f"job{number:04}:{'AB'[number % 2]}" for number in range(MANY)]
    list(bike.set_many((jobid, "EVERY:1h") for jobid in jobids))
    return jobids


def test_all_jobs_are_on_the_pages_that_follow_one_another(page, many):
    found, pages = list_all(page, "/jobs", "cursor=")
    assert sorted(found) == many
    assert f"of {MANY:,} were searched" in pages[0].words
    found, pages = list_all(page, "/jobs?sort=next&queue=work-B", "cursor=")
    assert len(found) == MANY / 2
    assert all("queue=work-B" in link for each in pages[:-1] for link in each.links if "cursor=" in link)


def test_a_search_without_a_hit_is_bounded_and_goes_on(page, bike, many, monkeypatch):
    whole = bike.store.overview.read_page

    def read_few(_, *given, **named):
        return whole(*given, most=100, **named)

    monkeypatch.setattr("redbike.store.overview.JobLister.read_page", read_few)
    first, *_, last = follow(page, "/jobs?pattern=nothing", "cursor=")
    assert listed(first) == first.lacks("There are more to search", "Go on from here") == []
    assert last.lacks("No further job matches", f"0 jobs here; all {MANY:,} were searched. ") == []


def test_an_update_is_not_cut_short_as_a_page_is_and_says_what_it_has(page, many, monkeypatch):
    monkeypatch.setattr("redbike.web.pages.jobs.PAGE_TIMEOUT", 0.0)
    monkeypatch.setattr("redbike.web.pages.jobs.LIVE_TIMEOUT", 600.0)
    address = "jobs", "pattern=job*00:?", "read"
    loaded = page.get(f"/{'?'.join(address[:2])}")
    assert "so far about " in read(loaded).words
    parts = [
        find_fragments(text) for text in (loaded.text, make_live(page.app.routes[0].endpoint.args[0])._render(address))
    ]
    assert [part.keys() >= {"looked-at", "pages"} for part in parts] == [True, True]
    assert ["Next page" in part["pages"] or "Go on" in part["pages"] for part in parts] == [True, False]
    assert parts[1]["looked-at"].split()[-2:] == ["jobs.", "</p>"]
    assert parts[1]["jobs"].count('<th scope="row">') == 7


def test_the_overview_tells_what_is_wrong_and_where_to_see_more(page, some):
    found = read(page.get("/"))
    assert "Something is wrong" in found.words or "Some things are wrong" in found.words
    queue = "work-A has 1 job and no worker (first queued:A) See the queues"
    assert found.lacks("no dispatcher is running See who works", queue, "failing:A", "gamma:A") == []
    # Every number leads to what it counts.
    queries = ("status=ENQ", "status=WRK", "overdue=1", "paused=1", "planned=1")
    assert {*(f"jobs?{query}" for query in queries), "failures", "workers", "queues"} <= set(found.links)
    for link in found.links:
        if link.startswith("jobs?"):
            read(page.get(f"/{link}"))


def test_a_job_shows_its_schedule_in_words_and_how_its_last_runs_went(page, bike):
    bike.set("a:A", "30 3 * * *")
    outcomes = [Outcome.FAILED, *[Outcome.OK] * 20, Outcome.LOST]
    runs = [make_run(1000.0 + n, 0.0, 1.0 + n, how, jobid="a:A", history=30) for n, how in enumerate(outcomes)]
    add_runs(bike.store, *runs)
    found = read(page.get("/jobs"))
    [label] = [a["aria-label"] for tag, a in found.tags if tag == "svg"]
    assert label == "The last 20 runs: 19 ok, 1 lost"
    assert found.lacks("lost", "11.50 s, 91 %", "At 03:30") == []
    assert any("95 % 20.00 s. 91 % of all succeeded." in a.get("title", "") for _, a in found.tags)
    assert "run?id=a%3AA&began=1021.0000" in found.links


def test_a_worker_that_is_stuck_is_told_with_its_job(page, bike):
    now = bike.store.timeline.read_clock()
    register(bike.store, "worker", queues=["work-A"], now=now, concurrency=2, stuck=["hung:A"])
    found = read(page.get("/"))
    assert re.search(
        r"the worker web1:1:\S+ is stuck in 1 of 2 slots after their deadlines: hung:A See where", found.words
    )
    found = read(page.get("/workers"))
    assert "alive, stuck after the deadline: hung:A" in found.words
    assert "job?id=hung%3AA" in found.links


def test_the_overview_shows_what_runs_the_oldest_first_and_what_takes_long(page, bike):
    now = bike.store.timeline.read_clock()
    # More than 3 times as long as usual is only much if it is 10 s more.
    for jobid, took in (("slow:A", 2.0), ("new:A", 0.1)):
        remember(bike.store, 1000.0, took=took, jobid=jobid)
    list(bike.store.archiver.archive())
    for number, (jobid, ago, timeout) in enumerate((("new:A", 1, 600), ("slow:A", 300, 600), ("over:A", 100, 50))):
        then = bike.store.at(now - ago)
        set_job(then, jobid, "NOW", now - ago)
        take_one(then, [("work-A", timeout)], f"Ownerw01{number}")
    register(bike.store, "worker", queues=["work-A"], now=now)
    found = read(page.get("/"))
    shown = found.words.partition("What runs now")[2].partition("Queues")[0]
    rows = [row.split() for row in re.split(r"(?=slow:A|over:A|new:A)", shown)[1:]]
    assert [row[0] for row in rows] == ["slow:A", "over:A", "new:A"]
    words = [" ".join(row) for row in rows]
    assert "the run much longer than usual 2.00 s" in words[0]
    assert "the run beyond its deadline –" in words[1]
    assert "the run 100 ms" in words[2]
    assert all("web1:1:" in each for each in words)
    assert len([link for link in found.links if link.startswith("run?id=")]) == 3


def test_each_header_sorts(page, bike):
    for jobid in ("a:B", "b:A"):
        bike.set(jobid, "EVERY:1h")
        bike.run(jobid)
        bike.work_one()
    bike.set("c:A", "NOW")
    for sort, jobids in (
        ("id", ["a:B", "b:A", "c:A"]),
        ("status", ["a:B", "b:A", "c:A"]),
        ("last", ["b:A", "a:B", "c:A"]),
        ("queue", ["b:A", "c:A", "a:B"]),
    ):
        found = read(page.get(f"/jobs?sort={sort}"))
        assert listed(found) == jobids, sort
        assert len([a for _, a in found.tags if "aria-sort" in a]) == 1
    assert {f"jobs?sort={sort}" for sort in ("id", "status", "next", "last", "queue")} <= set(
        read(page.get("/jobs")).links
    )


def test_the_overview_counts_what_waits_in_a_queue_for_long_as_overdue(page, bike):
    now = bike.store.timeline.read_clock()
    for jobid, ago in (("one:A", 600), ("two:A", 599), ("new:A", 1), ("late:B", 61), ("held:A", 600)):
        set_job(bike.store.at(now - ago), jobid, "EVERY:1h@0", now - ago)
    bike.pause("held:A")
    assert "overdue for 1 min 3 have failed" in read(page.get("/")).words
    bike.pause_queue("A")
    site = page.app.routes[0].endpoint.args[0]
    site.drop_seen()
    assert "overdue for 1 min 1 have failed" in read(page.get("/")).words, "what is paused is to wait"
    bike.client.lpush(bike.store.keys.queue("work-B"), *(f"{n}:B" for n in range(1001)))
    bike.client.hset(bike.store.keys.queued, mapping={f"{n}:B": f"{now - 99:.6f} work-B" for n in range(1001)})
    site.drop_seen()
    assert "overdue for 1 min 1,000+ have failed" in read(page.get("/")).words


def test_the_overview_lists_what_is_late(page, bike):
    assert "What is late" not in read(page.get("/")).words
    bike.set("<late>:A", "AT:1000", finish_within="1s")
    page.app.routes[0].endpoint.args[0].drop_seen()
    found = page.get("/")
    assert "<late>:A was to end by 1970-01-01 00:16:41 UTC" in read(found).words
    assert 'id="late"' in found.text
    assert "jobs?late=1" in read(found).links


def test_jobs_that_are_late_are_on_the_pages_that_follow_one_another(page, bike):
    jobids = [f"late{number:03}:{'AB'[number % 2]}" for number in range(120)]
    list(bike.set_many((jobid, f"AT:{1000 + n}", {"finish_within": "1s"}) for n, jobid in enumerate(jobids)))
    bike.set("tagged:A", "AT:1", finish_within="1s", tags="eu")
    bike.set("fine:A", "EVERY:1h", finish_within="1s")
    pages = follow(page, "/jobs?late=1", "cursor=")
    assert [listed(each) for each in pages] == [["tagged:A", *jobids[:49]], jobids[49:99], jobids[99:]]
    assert "121 were searched" in pages[-1].words
    for query, found in (
        ("queue=B", jobids[1::2]),
        ("tag=eu", ["tagged:A"]),
        ("pattern=LATE01", jobids[10:20]),
        ("paused=1", []),
    ):
        assert list_all(page, f"/jobs?late=1&{query}", "cursor=")[0] == found, query
    # As the command line has it.
    assert sorted(job.jobid for job in bike.jobs(late=True)) == sorted(["tagged:A", *jobids])


def test_a_job_says_that_it_is_late_and_that_its_queue_is_paused(page, bike):
    bike.set("late:A", "AT:1000", finish_within="1s")
    bike.set("daily:B", "0 3 * * *")
    bike.pause_queue("B")
    found = read(page.get("/jobs")).words
    assert re.search(r"late:A waits for a worker [^:]*overdue late: was to end by 1970-01-01 00:16:41 UTC", found)
    assert re.search(r"daily:B scheduled in [^–]*queue paused", found)
    assert found.count("queue paused") == 1
    # What is overdue is trouble, too.
    bike.set("alpha:C", "0 3 * * *")
    assert listed(read(page.get("/jobs"))) == ["late:A", "alpha:C", "daily:B"]


def test_a_queue_without_a_worker_says_so(page, bike):
    for jobid in ("waits:A", "waits:B"):
        bike.set(jobid, "NOW")
    register(bike.store, "worker", queues=["work-B"], now=bike.store.timeline.read_clock())
    for path in ("/", "/queues"):
        found = read(page.get(path)).words
        assert re.search(r"work-A no worker.*work-B open", found)


def test_a_queue_that_never_was_is_named_and_not_offered(page, some):
    found = read(page.get("/jobs?queue=nonesuch"))
    assert "No job matches. No job has ever waited in a queue work-nonesuch." in found.words
    assert "Nothing ever waited" not in read(page.get("/jobs?queue=A&status=STP")).words


def test_tags_of_the_jobs_that_are_shown_are_offered(page, some):
    tags = [link for link in read(page.get("/jobs")).links if link.startswith("jobs?tag=")]
    assert {"jobs?tag=eu", "jobs?tag=night"} <= set(tags)
    assert listed(read(page.get(f"/{tags[0]}"))) == ["gamma:A"]


def test_what_is_kept_of_no_run_is_said_to_be_unknown(page, bike):
    bike.set("quiet:A", "NOW", history=0)
    assert bike.work_one() == "quiet:A"
    found = read(page.get("/jobs?never_ran=1"))
    assert (listed(found), "history=0 keeps no runs" in found.words) == (["quiet:A"], True)


def test_the_overview_begins_with_a_recurring_job_that_has_failed_for_good(page, bike):
    bike.set("dead:A", "EVERY:1h", data={"error": "no space"})
    bike.run("dead:A")
    bike.work_one()
    for n in range(12):
        bike.set(f"once{n}:A", "NOW", data={"error": "no luck"})
        bike.work_one()
    found = read(page.get("/"))
    dead = "dead:A has failed for good, and its schedule does not go on: ValueError: no space"
    assert found.words.index(dead) < found.words.index("no dispatcher is running")
    assert found.words.index("What fails now All that failed in the last hour dead:A") > 0


def test_the_overview_is_not_green_while_jobs_have_failed_or_all_is_paused(page, bike):
    def look():
        page.app.routes[0].endpoint.args[0].drop_seen()
        found = read(page.get("/"))
        [kind] = [a["class"].split()[1] for tag, a in found.tags if a.get("id") == "health"]
        return kind, found.words

    register(bike.store, "dispatcher", now=bike.store.timeline.read_clock())
    assert look()[0] == "well"
    bike.set("once:A", "NOW", data={"error": "no luck"})
    assert bike.work_one() == "once:A"
    kind, words = look()
    assert (kind, "Dispatchers and workers are well:" in words, "1 job has failed" in words) == ("odd", True, True)
    bike.pause_all()
    kind, words = look()
    assert (kind, "Everything is paused:" in words, "paused now (everything)" in words) == ("odd", True, True)


def test_a_chart_shows_the_calls_of_work_that_have_ended(bike, page):
    for jobid, error in (("good:A", None), ("bad:A", "no"), ("other:B", None)):
        bike.set(jobid, "EVERY:1d@0", data={"error": error} if error else None, on_error="reschedule")

    def work(*jobids):
        for jobid in jobids:
            bike.run(jobid)
            assert bike.work_one() == jobid
        page.app.routes[0].endpoint.args[0].drop_seen()
        return [attributes["aria-label"] for tag, attributes in read(page.get("/queues")).tags if tag == "svg"]

    work("good:A", "other:B")
    labels = work("good:A", "bad:A", "good:A", "other:B")
    for said in ("4 runs in the last hour, at most ", "2 runs in the last hour, at most "):
        assert [label for label in labels if label.startswith(said)], labels
    # Whoever looks for the first time sees the same, also when they are archived.
    list(bike.store.archiver.archive())
    found = read(TestClient(app(bike), base_url=BASE).get("/queues"))
    assert [attributes["aria-label"] for tag, attributes in found.tags if tag == "svg"] == labels
