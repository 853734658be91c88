"""What the palette asks for."""

import httpx

from redbike.web.pages import jobs
from tests.web.live.conftest import wait_for_queues

HOSTILE = "<b>*[a-z]?\\\u202e</b>:A"


def ask(page, text):
    answer = httpx.get(f"{page.url}find", params={"q": text}, timeout=30)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    return answer.json()


def names(found, kind):
    return [each["text"] for each in found["found"] if each["kind"] == kind]


def test_pages_queues_and_jobs_are_found_the_nearest_first(page):
    for jobid in ("log:A", "log:A:2", "a-log:A", "other:log"):
        page.bike.set(jobid, "NOW")
    wait_for_queues(page)
    found = ask(page, "log:A")
    assert names(found, "job") == ["log:A", "log:A:2", "a-log:A"]
    found = ask(page, "log")
    assert (names(found, "page"), names(found, "queue")) == (["Log"], ["work-log"])
    assert found["found"][1]["href"] == "job?id=log%3AA"
    assert found["found"][-1] == {
        "kind": "search",
        "text": "all jobs with log in their ids",
        "href": "jobs?pattern=log",
    }
    # Letters of either case are found; an id that is all of the text comes first.
    assert names(ask(page, "LOG:a"), "job") == names(found := ask(page, "log:A"), "job")
    assert found["found"][-1]["href"] == "jobs?pattern=%2Alog%3AA%2A"
    assert found["is_more"] is False


def test_a_verb_and_a_part_of_an_id_lead_to_the_button_of_whom_may_press_it(page, steering):
    for site in (page, steering):
        for jobid in ("night:A", "pause night:A"):
            site.bike.set(jobid, "EVERY:1h")
    steering.bike.pause("night:A")
    assert [each["text"] for each in ask(steering, "resume nigh")["found"]] == ["night:A"]
    assert ask(steering, "cancel nigh")["found"][0]["kind"] == "search", "nothing of it could be cancelled"
    wait_for_queues(steering)
    [queue] = names(ask(steering, "pause work-a"), "pause queue")
    assert (queue, names(ask(steering, "resume work-a"), "resume queue")) == ("work-A", [])
    found = ask(steering, "pause nigh")
    assert found["found"][:2] == [
        {"kind": "pause", "text": "night:A", "href": "job?id=night%3AA#do-pause"},
        {"kind": "pause", "text": "pause night:A", "href": "job?id=pause%20night%3AA#do-pause"},
    ]
    # It may be a part of an id, too, and for those who may only look it is nothing else.
    assert names(ask(page, "pause nigh"), "job") == ["pause night:A"]
    assert names(ask(steering, "pause nightly"), "search")
    assert ask(steering, "pause ")["found"] == ask(steering, "pause")["found"]
    assert not {each["kind"] for each in ask(page, "pause nigh")["found"]} - {"job", "search"}


def test_any_text_stands_for_itself(page):
    page.bike.set(HOSTILE, "EVERY:1h")
    page.bike.set("abc:A", "EVERY:1h")
    for text in (HOSTILE, HOSTILE[4:9], "*[", "\\", "<b>", "\x00", "é" * 600):
        found = ask(page, text)
        jobs = names(found, "job")
        assert len(jobs) == (text in HOSTILE), text
        assert "\u202e" not in str(found)
        if jobs:
            href = next(each["href"] for each in found["found"] if each["kind"] == "job")
            assert httpx.get(page.url + href, timeout=30).status_code == 200


def test_more_than_are_shown_is_said(page):
    for number in range(jobs.MOST + 1):
        page.bike.set(f"job{number}:A", "EVERY:1h")
    found = ask(page, "job")
    assert len(names(found, "job")) == jobs.MOST
    assert found["is_more"] is True


def test_it_looks_no_longer_than_its_patience(page, monkeypatch):
    list(page.bike.set_many((f"job{number}:A", "EVERY:1h") for number in range(3000)))
    monkeypatch.setattr(jobs, "SEARCH_TIMEOUT", 60.0)  # of a busy machine
    whole = ask(page, "job2999:A")
    assert (names(whole, "job"), whole["is_more"]) == (["job2999:A"], False)
    monkeypatch.setattr(jobs, "SEARCH_TIMEOUT", 0.0)
    assert ask(page, "no such job")["is_more"] is True
    # The id itself is known at once, however many there are.
    assert names(ask(page, "job2999:A"), "job") == ["job2999:A"]
