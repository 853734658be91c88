"""The incident window: what is known of a span of time, and which thing in it counts as the first unusual one."""

import json
import math
import tracemalloc
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from redbike import BadConfig
from redbike.state.entries import pack_entry
from redbike.state.history import pack_run
from redbike.state.store import Store
from redbike.watching import incident as incidents
from redbike.watching.incident import Lane, gather
from redbike.watching.report import format_report
from redbike.watching.window import parse_window
from redbike.words import Outcome
from tests.verbs import set_job, take_one

NOW = 2_000_000_000.0
SINCE, UNTIL = NOW - 2400.0, NOW
AT = NOW - 1200.0
QUEUE = "work-A"


@pytest.fixture
def store(client, prefix):
    return Store(client, prefix, lambda _: QUEUE)


def remember(store, jobid, ended, took=1.0, outcome=Outcome.OK, error="", late=0.0, attempt=1):
    run = pack_run(ended - took - late, late, took, outcome, attempt, error)
    store.client.rpush(store.keys.journal, pack_entry("web1:1:Ownerw01", [(jobid, QUEUE, 10, run)]))


def archive(store):
    while store.archiver.count_entries():
        for _ in store.archiver.archive():
            pass


def sign(store, kind, since, seen):
    entry = {"kind": kind, "host": "web1", "pid": 7, "queues": [QUEUE], "version": "1"}
    owner = f"Owner{kind[0]}01"
    store.at(since).workers.sign(owner, json.dumps(entry))
    store.at(seen).workers.sign(owner, json.dumps(entry), f"{since:.6f}")


def change(store, jobid, at, who="ann@host"):
    set_job(store.noted_as(who).at(at), jobid, "EVERY:1h", at + 9e6)


def look(store, since=SINCE, until=UNTIL, patience=math.inf):
    return gather(store.at(NOW), since, until, NOW, patience)


def find_first(store):
    return look(store).first


class TestWindow:
    NOON = datetime(2026, 11, 23, 12, 0, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()

    def read(self, text, now=NOON):
        return parse_window(text, now, "Europe/Berlin")

    def at(self, text, now=NOON):
        return datetime.fromtimestamp(self.read(text, now).at, ZoneInfo("Europe/Berlin")).isoformat()

    def test_it_is_twenty_minutes_before_and_after_if_nobody_says(self):
        found = self.read("03:05")
        assert (found.at - found.since, found.until - found.at) == (1200, 1200)

    @pytest.mark.parametrize("text", ["03:05±5m", "03:05+-5m", "03:05 ± 5m", "3:05±300"])
    def test_a_width_is_a_duration(self, text):
        found = self.read(text)
        assert (found.until - found.since, found.width) == (600, 300)

    def test_a_time_of_day_is_the_last_one(self):
        assert self.at("03:05") == "2026-11-23T03:05:00+01:00"
        assert self.at("12:00") == "2026-11-23T12:00:00+01:00"
        assert self.at("12:00:01") == "2026-11-22T12:00:01+01:00"

    @pytest.mark.parametrize(
        ("day", "found"),
        [
            ((2026, 10, 25, 12, 0, 0), "2026-10-25T02:30:00+01:00"),  # it was there twice: the second
            ((2026, 3, 29, 12, 0, 0), "2026-03-28T02:30:00+01:00"),  # it was not there
        ],
    )
    def test_a_day_on_which_clocks_change(self, day, found):
        assert self.at("02:30", datetime(*day, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()) == found

    def test_between_the_two_of_a_day(self):
        """At 02:10 for the second time, the last 02:30 is the first one of this day."""
        now = datetime(2026, 10, 25, 2, 10, fold=1, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()
        assert self.at("02:30", now) == "2026-10-25T02:30:00+02:00"

    @pytest.mark.parametrize(("text", "meant"), [("305", "03:05"), ("0305±20m", "03:05"), ("2400", "24:00")])
    def test_a_time_without_its_colon_is_no_instant_of_1970(self, text, meant):
        with pytest.raises(BadConfig, match=f"is {meant} meant"):
            self.read(text)

    def test_other_instants(self):
        assert self.at("2026-11-20T03:05±1h") == "2026-11-20T03:05:00+01:00"
        assert self.at("2026-11-20T03:05:00-02:00±1h") == "2026-11-20T06:05:00+01:00"
        assert self.at("2026-11-20T03:05:00+00:00+-1h") == "2026-11-20T04:05:00+01:00"
        assert self.read("1700000000.5").at == 1700000000.5
        assert self.read("now").at == self.NOON
        assert self.read("now±20m").until == self.NOON  # nothing is known of what is to come

    @pytest.mark.parametrize(
        "text",
        ["", "±20m", "03:05±", "03:05±25h", "03:05±0.1", "03:05±x", "03:05±1m±1m", "25:00", "03:99", "then", "9" * 13,
         "03:05±-20m", "2026-11-23T12:00:01", "now±nan", "\u0663:\u0660\u0665"],
    )  # fmt: skip
    def test_a_bad_one_is_quoted(self, text):
        with pytest.raises(BadConfig) as raised:
            self.read(text)
        said = str(raised.value)
        assert text.partition("±")[0] in said
        assert "\n" not in said
        assert len(said) < 200


class TestGather:
    def test_what_happened_by_time(self, store):
        remember(store, "ok:A", AT)
        remember(store, "bad:A", AT + 10, outcome=Outcome.FAILED, error="no luck")
        change(store, "ok:A", AT + 20)
        sign(store, "worker", AT + 30, AT + 40)
        archive(store)
        remember(store, "new:A", AT + 50)  # not archived yet
        found = look(store)
        assert [(moment.time - AT, moment.lane, moment.jobid) for moment in found.moments] == [
            (0, Lane.RUNS, "ok:A"),
            (10, Lane.FAILURES, "bad:A"),
            (20, Lane.CHANGES, "ok:A"),
            (30, Lane.PROCESSES, ""),
            (40, Lane.PROCESSES, ""),
            (50, Lane.RUNS, "new:A"),
        ]
        assert "failed after 1.00 s" in found.moments[1].text
        assert "no luck" in found.moments[1].text
        assert found.moments[2].text.startswith("ann@host: set")
        assert found.moments[4].text == "the worker web1:7:Ownerw01 was lost"
        assert not found.cuts

    def test_the_bounds_belong_to_it_and_nothing_beyond(self, store):
        for number, moment in enumerate((SINCE - 0.5, SINCE, UNTIL - 1200, UNTIL, UNTIL + 2)):
            remember(store, f"{number}:A", moment, took=0.25)
        change(store, "0:A", SINCE - 1)
        change(store, "1:A", SINCE)
        change(store, "2:A", UNTIL - 1100)
        found = look(store, until=UNTIL - 1000)
        assert [moment.jobid for moment in found.moments] == ["1:A", "1:A", "2:A", "2:A"]

    def test_a_run_that_goes_on_through_all_of_it(self, store):
        remember(store, "long:A", UNTIL + 100, took=5000.0)
        [moment] = look(store).moments
        assert moment.time == SINCE
        assert "went on; it succeeded later, after 1 h 23 min" in moment.text

    def test_of_a_failure_without_history_the_failure_is_told(self, store):
        failure = {"jobid": "bad:A", "due": AT, "attempt": 1, "failed": AT + 1, "error": "no luck"}
        store.client.hset(store.keys.failures, "bad:A", json.dumps(failure))
        store.client.zadd(store.keys.failure_times, {"bad:A": AT + 1})
        [moment] = look(store).moments
        assert (moment.lane, moment.text) == (Lane.FAILURES, "failed: no luck")
        assert look(store).first.because == "bad:A failed (no luck), and no run of it is kept"

    def test_a_failure_whose_run_is_kept_is_told_once(self, store):
        remember(store, "bad:A", AT, outcome=Outcome.FAILED, error="no luck")
        failure = {"jobid": "bad:A", "due": AT - 1, "attempt": 1, "failed": AT, "error": "no luck"}
        store.client.hset(store.keys.failures, "bad:A", json.dumps(failure))
        store.client.zadd(store.keys.failure_times, {"bad:A": AT})
        assert len(look(store).moments) == 1

    @pytest.mark.parametrize("kept", ["[]", "nonsense", '{"jobid": 1, "failed": 2}', '{"jobid": "a", "failed": "b"}'])
    def test_a_damaged_failure_is_passed_over(self, store, kept):
        store.client.hset(store.keys.failures, "bad:A", kept)
        store.client.zadd(store.keys.failure_times, {"bad:A": AT})
        assert not look(store).moments

    def test_a_run_that_goes_on_now(self, store):
        set_job(store.at(AT), "slow:A", "NOW", "now")
        take_one(store.at(AT + 1), [(QUEUE, 60.0)], "Ownerw01abcdefgh")
        sign(store, "worker", AT, NOW)
        found = look(store)
        [moment] = [each for each in found.moments if each.lane is Lane.RUNS]
        assert (moment.jobid, moment.time) == ("slow:A", AT + 1)
        assert moment.text.startswith("runs still")


class TestCuts:
    def fill(self, store, jobs):
        for number in range(jobs):
            remember(store, f"{number}:A", AT + number / 10)
        archive(store)

    def test_without_time_the_runs_of_most_jobs_are_not_read_and_that_is_told(self, store):
        self.fill(store, 50)
        found = look(store, patience=0.0)
        assert found.looked_at == 1
        assert found.jobs == 50
        assert found.cuts == ["the kept runs of 1 of about 50 jobs were read"]
        assert not look(store).cuts
        assert len(look(store).moments) == 50

    def test_jobs_that_failed_or_were_changed_are_read_in_any_case(self, store):
        self.fill(store, 50)
        remember(store, "bad:A", AT, outcome=Outcome.FAILED, error="no luck")
        archive(store)
        failure = {"jobid": "bad:A", "due": AT - 1, "attempt": 1, "failed": AT, "error": "no luck"}
        store.client.hset(store.keys.failures, "bad:A", json.dumps(failure))
        store.client.zadd(store.keys.failure_times, {"bad:A": AT})
        change(store, "7:A", AT)
        found = look(store, patience=0.0)
        assert {"bad:A", "7:A"} == {moment.jobid for moment in found.moments if moment.lane is not Lane.CHANGES}

    def test_more_runs_than_are_listed_are_counted(self, store, monkeypatch):
        monkeypatch.setattr(incidents, "MOST_RUNS", 20)
        self.fill(store, 50)
        found = look(store)
        assert len(found.moments) == 20
        assert found.counts[Lane.RUNS] == 50
        assert found.cuts == ["of 50 runs, 20 are listed"]

    def test_of_runs_that_are_not_archived_yet_the_last_are_read(self, store, monkeypatch):
        for number in range(incidents.MOST_ENTRIES + 1):
            remember(store, f"{number}:A", AT)
        found = look(store)
        assert found.cuts == ["of 5,001 entries of runs that are not archived yet, 5,000 were read"]
        assert len(found.moments) == 5000

    def test_ordinary_runs_are_left_out_first(self, store):
        self.fill(store, 50)
        remember(store, "bad:A", AT - 3, outcome=Outcome.FAILED)
        remember(store, "bad:A", AT + 1000, outcome=Outcome.FAILED)
        listed = look(store).list_first(10)
        assert [moment.jobid for moment in listed] == ["bad:A", *(f"{number}:A" for number in range(8)), "bad:A"]

    @pytest.mark.acceptance
    def test_what_is_read_is_bounded_by_the_time(self, store):
        """Jobs whose last run ended before the window are hardly looked at, and nothing is kept of them."""
        for first in range(0, 20_000, 100):
            runs = [
                (f"{number}:A", QUEUE, 10, pack_run(SINCE - 9e5, 0.0, 1.0, Outcome.OK, 1, ""))
                for number in range(first, first + 100)
            ]
            store.client.rpush(store.keys.journal, pack_entry("web1:1:Ownerw01", runs))
        archive(store)
        tracemalloc.start()
        found = look(store)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert found.looked_at == 20_000
        assert not found.moments
        assert peak < 5e6


class TestFirst:
    def test_nothing(self, store):
        remember(store, "ok:A", AT)
        assert find_first(store) is None

    def test_a_lost_process(self, store):
        sign(store, "worker", AT - 9000, AT)
        remember(store, "bad:A", AT + 1, outcome=Outcome.FAILED)
        first = find_first(store)
        assert (first.time, first.rule, first.subject) == (AT, 0, "web1:7:Ownerw01")

    def test_a_process_that_lives_is_nothing_unusual(self, store):
        sign(store, "worker", AT, NOW)
        assert find_first(store) is None

    def test_a_failure_after_a_success_and_not_one_more(self, store):
        for moment in (SINCE - 9000, AT - 100, AT):
            remember(store, "always:A", moment, outcome=Outcome.FAILED)
        remember(store, "once:A", SINCE - 9000)
        remember(store, "once:A", AT + 50, outcome=Outcome.FAILED, error="no luck")
        first = find_first(store)
        assert (first.time, first.rule, first.jobid) == (AT + 50, 1, "once:A")
        assert first.because == "once:A failed (no luck), and its run before that had not"

    def test_a_change_before_that(self, store):
        remember(store, "bad:A", SINCE - 9000)
        change(store, "bad:A", AT - 900)  # too long before
        change(store, "bad:A", AT - 300)
        change(store, "other:A", AT - 100)
        remember(store, "bad:A", AT, outcome=Outcome.FAILED)
        first = find_first(store)
        assert (first.time, first.rule, first.subject) == (AT - 300, 2, "ann@host")
        assert "5 min later bad:A failed" in first.because

    def test_a_change_long_before_is_nothing_unusual(self, store):
        change(store, "bad:A", AT - 601)
        remember(store, "bad:A", AT, outcome=Outcome.FAILED)
        assert find_first(store).rule == 1

    def test_a_change_without_a_failure_is_nothing_unusual(self, store):
        change(store, "ok:A", AT)
        assert find_first(store) is None

    def test_a_slow_run(self, store):
        for number in range(3):
            remember(store, "slow:A", SINCE - 9000 + number * 100, took=10.0)
        remember(store, "slow:A", AT + 600, took=600.0)
        first = find_first(store)
        assert (first.time, first.rule) == (AT + 30, 3)
        assert first.because == "a run of slow:A took 10 min, and its other runs 10.00 s (median)"

    @pytest.mark.parametrize(("others", "took"), [(2, 600.0), (3, 29.0)])
    def test_too_few_others_or_too_little(self, store, others, took):
        for number in range(others):
            remember(store, "slow:A", SINCE - 9000 + number * 100, took=10.0)
        remember(store, "slow:A", AT + 600, took=took)
        assert find_first(store) is None

    def test_a_late_start(self, store):
        remember(store, "late:A", AT, late=61.0)
        first = find_first(store)
        assert (first.time, first.rule, first.because) == (
            AT - 1,
            4,
            "a run of late:A began 1 min 1 s after it was due",
        )

    def test_a_further_try_is_not_late(self, store):
        remember(store, "late:A", AT, late=61.0, attempt=2)
        assert find_first(store) is None

    def test_the_earliest_of_all(self, store):
        remember(store, "late:A", AT, late=61.0)
        remember(store, "bad:A", AT - 50, outcome=Outcome.OVERRUN)
        sign(store, "worker", AT - 9000, AT + 1)
        assert find_first(store).jobid == "bad:A"


def test_the_text_for_a_report(store):
    remember(store, "ok:A", SINCE - 9000)
    remember(store, "ok:A", AT, outcome=Outcome.FAILED, error="no\x1b[31mluck\u202e")
    text = format_report(look(store), "Europe/Berlin", "shop")
    assert text == (
        "Redbike shop: 2033-05-18T04:53:20+02:00 to 2033-05-18T05:33:20+02:00 (Europe/Berlin)\n"
        "As of 2033-05-18T05:33:20+02:00: 0 runs without a failure, 1 failure, 0 changes, 0 processes began or lost.\n"
        "First unusual: 2033-05-18T05:13:20+02:00, because ok:A failed (no\\x1b[31mluck\\u202e), and its run "
        "before that had not.\n"
        "\n"
        "2033-05-18T05:13:20+02:00 failure ok:A: failed after 1.00 s, on web1:1:Ownerw01: no\\x1b[31mluck\\u202e\n"
    )
