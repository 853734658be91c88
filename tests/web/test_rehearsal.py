"""The rehearsal as a page: it shows both sides, changes nothing, and its form names exactly what was shown."""

import re
from html import unescape
from urllib.parse import quote

import pytest

from redbike.queries.rehearsal import outlook
from redbike.web.pages import rehearsal as pages
from redbike.web.selection import make_digest
from tests.queries.kept import register

HOSTILE = '<script>alert(1)</script>"&\u202e:A'


@pytest.fixture
def paused(bike):
    """Three paused jobs, and one that is not."""
    for name in ("a:A", "b:A", "c:A", "other:A"):
        bike.set(name, "EVERY:10m")
    bike.pause("a:A", "b:A", "c:A")
    return bike


def test_both_sides(paused, page):
    answer = page.get("/rehearse?action=resume&paused=1")
    assert answer.status_code == 200
    assert "Without it: 0 runs in 6 h" in answer.text
    assert "With it: 105 runs in 6 h" in answer.text or "With it: 108 runs in 6 h" in answer.text
    assert answer.text.count('role="img"') == 2
    assert "No worker process that is known works the queue work-A." in answer.text
    assert "This page is read-only" in answer.text
    assert "<form class=" in answer.text
    assert 'method="post"' not in answer.text


def test_the_form_confirms_exactly_these(paused, browser):
    paused.set(HOSTILE, "EVERY:10m")
    for query, sent, jobids in (
        ("action=resume&paused=1&hours=2", {"action": "resume", "paused": "1"}, ["a:A", "b:A", "c:A"]),
        ("action=cancel&id=a%3AA&id=other%3AA", {"action": "cancel"}, ["a:A", "other:A"]),
        (
            "action=pause&id=other%3AA&until=2099-01-01&reason=%3Cb%3E",
            {"action": "pause", "until": "2099-01-01", "reason": "<b>"},
            ["other:A"],
        ),
        (f"action=run&id={quote(HOSTILE)}", {"action": "run"}, [HOSTILE]),
    ):
        page = browser.get(f"/rehearse?{query}")
        [form] = [form for form in page.forms if form.method == "post"]
        assert (form.action, bool(dict(form.fields)["form"])) == ("do", True)
        sent |= {"of": "jobs", "number": str(len(jobids)), "confirmed": "1", "digest": make_digest(jobids)}
        assert dict(form.fields).items() >= sent.items()
        if "id=" in query:
            assert [value for name, value in form.fields if name == "id"] == jobids
        assert ("Reason: <code>&lt;b&gt;</code>" in page.html) == ("reason" in query)
    paused.redis.hset(paused.store.keys.schedules, b"\xff:A", "EVERY:10m")
    html = browser.get("/rehearse?action=run&pattern=*").html
    assert ("<script>alert" in html, "&lt;script&gt;" in html) == (False, True)


def test_a_schedule_is_only_shown(paused, browse):
    for jobid, without in (("other:A", "[56]"), ("new:A", "0")):
        query = {"action": "set", "id": jobid, "schedule": "EVERY:5m", "hours": 1}
        html = browse(write=True).get("/rehearse", params=query).text
        assert re.search(rf"Without it: {without} runs in 1 h.*With it: 1[12] runs in 1 h", html, re.DOTALL)
        assert 'method="post"' not in html


def test_what_is_bad_is_said_in_one_line(paused, page):
    for query, said in (
        ("action=halt&id=a", "bad action &#39;halt&#39;"),
        ("", "bad action &#39;&#39;"),
        ("action=run&id=a&hours=25", "bad hours &#39;25&#39;"),
        ("action=run&id=a&hours=x", "bad hours &#39;x&#39;"),
        ("action=set&id=other:A", "bad schedule &#39;&#39;"),
        ("action=set&id=other:A&schedule=0+0+30+2+*", "0 0 30 2 *"),
        ("action=set&id=other:A&schedule=EVERY:1h&tz=Mars", "Mars"),
        ("action=pause&id=other:A&until=1970-01-01", "1970-01-01"),
        ("action=pause&id=other:A&until=then", "then"),
        ("action=run&id=" + "x" * 600, "bad "),
        ("action=run&of=all", "bad action &#39;run&#39;: resume, pause are allowed"),
        ("action=pause&of=moon", "bad of &#39;moon&#39;"),
        ("action=pause&of=queue", "bad queue name"),
        ("action=pause&of=queue&name=timeline", "timeline"),
    ):
        answer = page.get(f"/rehearse?{query}")
        assert answer.status_code == 400
        [line] = re.findall(r'<p class="problem">(.*?)</p>', answer.text)
        assert said in line


def test_where_there_is_nothing_that_is_said(paused, page):
    for query, said in (
        *((query, "No job matches.") for query in ("action=run", "action=run&id=nobody", "action=run&pattern=nobody*")),
        ("action=pause&of=queue&name=B", "No job would run in this time"),
        ("action=pause&of=queue&name=A", "<td>–</td>"),  # a peak of nothing has no time
    ):
        answer = page.get(f"/rehearse?{query}")
        assert (answer.status_code, said in answer.text) == (200, True)
    paused.run("other:A")
    paused.pause_all()
    for query, remark in (
        ("action=resume&of=queue&name=A", "The queue work-A is not paused."),
        ("action=resume&of=all", ""),
        ("action=pause&of=all", "Everything is paused already, and its pause would stay as it is."),
        ("action=pause&of=queue&name=nope", "The queue work-nope was never used."),
        ("action=pause&of=queue&name=A", ""),
    ):
        html = page.get(f"/rehearse?{query}").text
        remarks = re.findall(r'<p class="paused">((?:The queue work-|Everything is).*?)</p>', html)
        assert remarks == ([remark] if remark else []), query


def test_more_jobs_than_can_be_rehearsed_cannot_be_confirmed(paused, browse, monkeypatch):
    monkeypatch.setattr(pages, "MOST_JOBS", 2)
    html = browse(write=True).get("/rehearse?action=resume&paused=1").text
    assert "There are more than 2 jobs" in html
    assert 'method="post"' not in html


def test_a_queue_or_everything(paused, browse):
    for pause, resume, query, subject in (
        (lambda: paused.pause_queue("A"), lambda: paused.resume_queue("A"), "of=queue&name=A", "the queue work-A"),
        (paused.pause_all, paused.resume_all, "of=all", "everything"),
    ):
        pause()
        html = browse(write=True).get(f"/rehearse?action=resume&{query}").text
        assert f"<title>Rehearsal: Resume {subject}" in html
        assert "Without it: 0 runs in 6 h" in html
        assert "With it: 35 runs" in html or "With it: 36 runs" in html
        assert f'<button class="do">Resume {subject}</button>' in html
        assert '<option value="run"' not in html
        resume()


def test_other_pages_lead_to_it(paused, page):
    paused.run("other:A")
    for path, *words in (
        ("queues", "action=pause", "Pause the queue work-A"),
        ("job?id=a%3AA", "action=resume", "1 job"),
    ):
        [link] = re.findall(r'href="(rehearse\?[^"]*)"', page.get(f"/{path}").text)
        shown = page.get(f"/{unescape(link)}").text
        assert (words[0] in link, words[1] in shown) == (True, True)


def test_workers_that_run_less_than_would_go_on_are_named(bike, page, monkeypatch):
    for number in range(30):
        bike.set(f"{number}:A", "*/15 * * * *")
    register(bike.store, "worker", queues=["work-A"], now=bike.store.timeline.read_clock(), concurrency=2)
    monkeypatch.setattr(outlook, "read_duration", lambda history: 90.0)
    html = page.get("/rehearse?action=run&id=0%3AA").text
    # 30 runs of 90 s each in 15 minutes are 3 at a time.
    assert "runs of work-A would go on at a time, and its workers run 2 at once: they will wait." in html
    assert ">2 in 1 process</td>" in html
