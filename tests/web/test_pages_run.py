"""The page of a run."""

import re

import pytest

from redbike import Redbike
from redbike.store.enums import Outcome
from redbike.store.history import Usage
from redbike.store.outputs import pack_output
from redbike.web import printed
from redbike.web.pages import log
from redbike.worker.live import LivePublisher, Tap
from tests.commands.conftest import a_run
from tests.queries import kept
from tests.verbs import take_one
from tests.waiting import wait_until
from tests.web.html import read

SECRET = "the password is 12345"


def show(page, jobid, began, status=200):
    return read(page.get("/run", params={"id": jobid, "began": began}), status)


def find_link(page, address, words=""):
    """The address of the first link to a run on a page."""
    return next(link for link in read(page.get(address)).links if link.startswith("run?id=") and words in link)


def add_runs(bike, *runs):
    """Add ended runs of a:A: when each began, how long it took, and what went wrong."""
    for began, took, error in runs:
        outcome = Outcome.FAILED if error else Outcome.OK
        kept.remember(bike.store, began - 2, 2.0, took, outcome, error, "a:A", usage=Usage(1.5, 2 << 20))


def test_it_says_what_is_known_of_a_run_and_leads_to_its_neighbours(page, bike):
    bike.set("a:A", "EVERY:1h")
    add_runs(bike, (1000.0, 1.0, ""), (2000.0, 30.0, "KeyError: <b>"), (3000.0, 3.0, ""))
    found = show(page, "a:A", "2000.0000")
    for words in (
        "failed after 30.00 s: KeyError: <b>",
        "Due 1970-01-01 00:33:18 UTC",
        "Started 1970-01-01 00:33:20 UTC, 2.00 s late",
        "Took 30.00 s",
        "Usual 2.00 s, the median of its other runs that succeeded",
        "Worker web1:1:Ownerw01",
        "CPU 1.50 s",
        "Memory 2.0 MiB at most",
    ):
        assert words in re.sub(r"(Due|Started) .*? ago", r"\1", found.words), words
    assert [link for link in found.links if link.startswith("run?")] == [
        "run?id=a%3AA&began=1000.0000", "run?id=a%3AA&began=3000.0000"
    ]  # fmt: skip
    assert {"job?id=a%3AA", "runs?id=a%3AA", "at/2000", "log?id=a%3AA"} <= set(found.links)
    first, last = show(page, "a:A", "1000"), show(page, "a:A", "3000")
    assert "the run before" not in first.words
    assert "the run after" not in last.words


def test_it_is_linked_from_where_runs_and_failures_are_shown(page, bike):
    bike.set("a:A", "NOW", data={"error": "no luck"})
    assert bike.work_one() == "a:A"
    for address in ("/runs", "/job?id=a:A", "/", "/failures?as=list"):
        assert "failed after" in read(page.get(f"/{find_link(page, address)}")).words, address
    bike.set("b:A", "NOW")
    assert take_one(bike.store, [("work-A", 60.0)], "somebody").jobid == "b:A"
    assert "It is running." in read(page.get(f"/{find_link(page, '/job?id=b:A')}")).words


def test_a_run_in_flight_is_the_same_run_when_it_has_ended(page, bike):
    bike.set("a:A", "NOW", history=5)
    run = take_one(bike.store, [("work-A", 1e9)], "somebody")
    began = bike.tell("a:A")["working_since"]
    add_runs(bike, (began - 100, 1.0, ""))
    address = f"/{find_link(page, '/job?id=a:A')}"
    assert read(page.get(address)).lacks("It is running.", "Deadline none: it has no timeout") == []
    assert f"/{find_link(page, f'/run?id=a:A&began={began - 100:.4f}')}" == address, "it is the run after"
    # It is kept with when its work began, and tried again.
    bike.client.hdel(bike.store.keys.running, "a:A")
    for late, attempt in ((0.3, 1), (60, 2)):
        kept.remember(bike.store, run.due, began - run.due + late, 7.0, jobid="a:A", attempt=attempt)
    assert read(page.get(address)).lacks("ok after 7.00 s", "Try 1") == []


def test_the_page_of_the_job_stands_in_for_a_failed_run_that_is_not_kept(page, bike):
    bike.set("a:A", "NOW", data={"error": "no luck"}, history=0)
    assert bike.work_one() == "a:A"
    answer = page.get("/run?id=a%3AA&began=failure")
    assert answer.url.path == "/job"
    assert "ValueError: no luck" in read(answer).words


def test_a_run_that_is_not_kept_or_not_named_well(page, bike):
    bike.set("a:A", "EVERY:1h")
    add_runs(bike, (1000.0, 1.0, ""))
    for began, status, words in (
        ("2000", 404, "no such run of 'a:A' is kept: its option history says how many are"),
        ("failure", 404, "no such run"),
        ("nan", 404, "no such run"),
        ("soon", 400, "bad began 'soon': it comes from the link to a run"),
        ("", 400, "bad began ''"),
    ):
        assert words in show(page, "a:A", began, status).words
    assert "no such run" in show(page, "nobody:A", "1000", 404).words


def test_what_was_changed_before_it_since_the_run_before(page, bike, monkeypatch):
    bike.set("a:A", "EVERY:1h")
    now = bike.store.timeline.read_clock()
    noted = Redbike.from_settings(bike.worker, bike.settings, bike.client, durable=False, noted_as="ann@host")
    list(noted.pause("a:A", reason="no disk"))
    list(noted.resume("a:A"))
    add_runs(bike, (now - 3600, 1.0, ""), (now + 60, 1.0, ""), (now + 120, 1.0, ""))
    found = show(page, "a:A", f"{now + 60:.4f}").words
    changes = found.partition("What was changed before it")[2]
    assert changes.index("ann@host: resume") < changes.index("no disk")
    with monkeypatch.context() as patch:
        patch.setattr(log, "LOOK_TIMEOUT", -1.0)
        cut = show(page, "a:A", f"{now + 60:.4f}").words
    assert "Only the newest changes of all jobs were searched." in cut
    assert "ann@host: resume" in cut, "the newest one is shown, however slow the machine is"
    assert "Nobody" not in cut
    assert "Nobody has changed the job since the run before." in show(page, "a:A", f"{now + 120:.4f}").words
    assert "The log has no change of the job." in show(page, "a:A", f"{now - 3600:.4f}").words


def test_output_and_traceback_are_of_that_run_and_for_those_alone_who_may_see_them(page, page_with_data, bike):
    bike.set("a:A", "NOW", data={"error": SECRET})
    assert bike.work_one() == "a:A"
    [run] = bike.runs("a:A")
    bike.client.hset(bike.store.keys.outputs, "a:A", pack_output(run.due, run.attempt, f"printed:\n<i>{SECRET}"))
    hidden, shown = show(page, "a:A", "failure"), show(page_with_data, "a:A", "failure")
    assert SECRET not in hidden.words.partition("What is known of it")[2]
    assert hidden.words.count("--show-data") == 2
    assert shown.lacks(f"printed: <i>{SECRET}", "Traceback (most recent call last)") == []
    # A run of before has neither.
    add_runs(bike, (1000.0, 1.0, "no luck"))
    before = show(page_with_data, "a:A", "1000")
    assert before.lacks(SECRET, "Traceback", "Nothing is kept of it.") == [SECRET, "Traceback"]


@pytest.fixture
def running(bike):
    """a:A, which runs, when that began, and what sends that it prints."""
    bike.set("a:A", "NOW")
    assert take_one(bike.store, [("work-A", 60.0)], "somebody").jobid == "a:A"
    run, publisher = a_run(jobid="a:A"), LivePublisher(bike.store.live)
    run.tap = Tap("a:A")

    def send(text):
        run.tap.feed(text, text)
        publisher.look([run])

    return f"{bike.tell('a:A')['working_since']:.4f}", send


def test_what_it_prints_appears_while_somebody_looks_and_not_where_it_is_hidden(
    page, page_with_data, bike, running, monkeypatch
):
    monkeypatch.setattr(printed, "LINGER", 600.0)
    began, send = running
    assert "--show-data" in show(page, "a:A", began).words
    assert not bike.store.live.is_watched()
    assert "Nothing since you have opened this page." in show(page_with_data, "a:A", began).words
    wait_until(bike.store.live.is_watched)
    send(b"one\x1b[31m <b>\n")
    wait_until(lambda: "one\\x1b[31m <b>" in show(page_with_data, "a:A", began).words)
    send(b"two\n")
    wait_until(lambda: "one\\x1b[31m <b>\ntwo" in show(page_with_data, "a:A", began).text)
    # Nobody looks any more.
    monkeypatch.setattr(printed, "LINGER", 0.0)
    wait_until(lambda: not bike.store.live.is_watched())


def test_it_listens_to_a_limited_number_of_runs(page_with_data, running, monkeypatch):
    monkeypatch.setattr(printed, "MOST", 0)
    assert "Too many pages follow output now." in show(page_with_data, "a:A", running[0]).words
