"""The incident window: what is known of a span of time, and which thing in it counts as the first unusual one."""

import json
import math
import tracemalloc
from datetime import datetime
from functools import partial
from zoneinfo import ZoneInfo

import pytest

from redbike import BadConfig, Redbike, RoundRobin
from redbike.queries import incident as incidents
from redbike.queries.incident import Lane, describe_skipped, format_report, gather
from redbike.queries.window import parse_window
from redbike.store.entries import pack_entry
from redbike.store.enums import Outcome
from redbike.store.history import pack_run
from tests.queries import kept
from tests.queries.kept import archive
from tests.verbs import set_job, take_one

NOW = 2_000_000_000.0
SINCE, UNTIL = NOW - 2400.0, NOW
AT = NOW - 1200.0
QUEUE = "work-A"


def remember(store, jobid, ended, took=1.0, outcome=Outcome.OK, error="", late=0.0, attempt=1):
    kept.remember(store, ended - took - late, late, took, outcome, error, jobid, QUEUE, attempt)


def register(store, kind, since, seen):
    kept.register(store, kind, 1, [QUEUE], since)
    kept.register(store, kind, 1, [QUEUE], seen, f"{since:.6f}")


def change(store, jobid, at):
    set_job(store.noted_as("ann@host").at(at), jobid, "EVERY:1h", at + 9e6)


def fail(store, jobid, record=None):
    """Keep a failure, for which there need not be a run."""
    failure = {"jobid": jobid, "due": AT - 1, "attempt": 1, "failed": AT, "error": "no luck"}
    store.client.hset(store.keys.failures, jobid, record or json.dumps(failure))
    store.client.zadd(store.keys.failure_times, {jobid: AT})


def look(store, since=SINCE, until=UNTIL, patience=math.inf):
    return gather(store.at(NOW), since, until, NOW, patience)


BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 11, 23, 12, tzinfo=BERLIN)


def read(text, now=NOON):
    return parse_window(text, now.timestamp(), "Europe/Berlin")


class TestWindow:
    @pytest.mark.parametrize(
        ("text", "at", "before", "after"),
        [
            ("03:05", "2026-11-23T03:05:00+01:00", 1200, 1200),
            *((text, "2026-11-23T03:05:00+01:00", 300, 300) for text in ("03:05±5m", "03:05+-5m", "03:05 ± 5m")),
            # A time of day is the last one.
            ("12:00", "2026-11-23T12:00:00+01:00", 1200, 0),
            ("12:00:01", "2026-11-22T12:00:01+01:00", 1200, 1200),
            ("2026-11-20T03:05±1h", "2026-11-20T03:05:00+01:00", 3600, 3600),
            ("2026-11-20T03:05:00-02:00±1h", "2026-11-20T06:05:00+01:00", 3600, 3600),
            ("1700000000.5", "2023-11-14T23:13:20.500000+01:00", 1200, 1200),
            # Nothing is known of what is to come.
            ("now", "2026-11-23T12:00:00+01:00", 1200, 0),
            ("now±20m", "2026-11-23T12:00:00+01:00", 1200, 0),
        ],
    )
    def test_what_is_meant(self, text, at, before, after):
        found = read(text)
        assert datetime.fromtimestamp(found.at, BERLIN).isoformat() == at
        assert (found.at - found.since, found.until - found.at, found.width) == (before, after, before)

    @pytest.mark.parametrize(
        ("now", "found"),
        [
            (datetime(2026, 10, 25, 12), "2026-10-25T02:30:00+01:00"),  # it was there twice: the second
            (datetime(2026, 10, 25, 2, 10, fold=1), "2026-10-25T02:30:00+02:00"),  # between the two
            (datetime(2026, 3, 29, 12), "2026-03-28T02:30:00+01:00"),  # it was not there
        ],
    )
    def test_a_day_on_which_clocks_change(self, now, found):
        assert datetime.fromtimestamp(read("02:30", now.replace(tzinfo=BERLIN)).at, BERLIN).isoformat() == found

    @pytest.mark.parametrize(("text", "meant"), [("305", "03:05"), ("0305±20m", "03:05"), ("2400", "24:00")])
    def test_a_time_without_its_colon_is_no_instant_of_1970(self, text, meant):
        with pytest.raises(BadConfig, match=f"is {meant} meant"):
            read(text)

    @pytest.mark.parametrize(
        "text",
        ["", "±20m", "03:05±", "03:05±25h", "03:05±0.1", "03:05±x", "03:05±1m±1m", "25:00", "03:99", "then", "9" * 13,
         "03:05±-20m", "2026-11-23T12:00:01", "now±nan", "\u0663:\u0660\u0665"],
    )  # fmt: skip
    def test_a_bad_one_is_quoted(self, text):
        with pytest.raises(BadConfig) as raised:
            read(text)
        said = str(raised.value)
        assert text.partition("±")[0] in said
        assert "\n" not in said
        assert len(said) < 200


class TestGather:
    def test_what_happened_by_time(self, store):
        remember(store, "ok:A", AT)
        remember(store, "bad:A", AT + 10, outcome=Outcome.FAILED, error="no luck")
        change(store, "ok:A", AT + 20)
        register(store, "worker", AT + 30, AT + 40)
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
        assert found.moments[4].text == "the worker web1:1:Ownerw01 was lost"
        assert not found.cuts

    def test_the_bounds_belong_to_it_and_nothing_beyond(self, store):
        for number, moment in enumerate((SINCE - 0.5, SINCE, UNTIL - 1200, UNTIL, UNTIL + 2)):
            remember(store, f"{number}:A", moment, took=0.25)
        for number, moment in enumerate((SINCE - 1, SINCE, UNTIL - 1100)):
            change(store, f"{number}:A", moment)
        found = look(store, until=UNTIL - 1000)
        assert [moment.jobid for moment in found.moments] == ["1:A", "1:A", "2:A", "2:A"]

    def test_a_run_that_goes_on_through_all_of_it(self, store):
        remember(store, "long:A", UNTIL + 100, took=5000.0)
        [moment] = look(store).moments
        assert moment.time == SINCE
        assert "went on; it succeeded later, after 1 h 23 min" in moment.text

    def test_a_failure_is_told_once_whether_its_run_is_kept_or_not(self, store):
        fail(store, "bad:A")
        [moment] = look(store).moments
        assert (moment.lane, moment.text) == (Lane.FAILURES, "failed: no luck")
        assert look(store).first.because == "bad:A failed (no luck), and no run of it is kept"
        remember(store, "bad:A", AT, outcome=Outcome.FAILED, error="no luck")
        assert len(look(store).moments) == 1

    def test_the_runs_of_jobs_that_failed_are_read_first_of_all_shards(self, client, prefix):
        store = Redbike(RoundRobin("A"), prefix, client, shards=3).store
        jobids = [f"{number}:A" for number in range(8)]
        for jobid in jobids:
            shard = store.find_shard(jobid)
            fail(shard, jobid)
            remember(shard, f"other-{jobid}", AT)
            remember(shard, jobid, AT, outcome=Outcome.FAILED, error="no luck")
        found = look(store, patience=0.0)
        assert [moment.text.partition(", on ")[0] for moment in found.moments] == ["failed after 1.00 s"] * len(jobids)
        assert found.looked_at == len(jobids)
        assert look(store).looked_at == len(list(store.journal.list_since(SINCE))) == 2 * len(jobids)

    @pytest.mark.parametrize("record", ["[]", "nonsense", '{"jobid": 1, "failed": 2}', '{"jobid": "a", "failed": "b"}'])
    def test_a_damaged_failure_is_passed_over(self, store, record):
        fail(store, "bad:A", record)
        assert not look(store).moments

    @pytest.mark.parametrize(
        ("error", "lane", "said"),
        [
            ("", Lane.RUNS, "ended after 1.00 s and was to be tried again, as it asked, on web1:1:Ownerw01"),
            ("no luck", Lane.FAILURES, "ended after 1.00 s and was to be tried again, on web1:1:Ownerw01: no luck"),
        ],
    )
    def test_a_run_that_asked_for_another_try_did_not_fail(self, store, error, lane, said):
        """With an error, it may have failed: what is kept does not tell that from `Again` with a reason."""
        remember(store, "retried:A", AT, outcome=Outcome.RETRY, error=error)
        [moment] = look(store).moments
        assert (moment.lane, moment.text) == (lane, said)
        remember(store, "retried:A", UNTIL + 100, took=200.0, outcome=Outcome.RETRY, error=error)
        assert look(store).moments[1].text.startswith("went on; it ended later, after 3 min 20 s and was to be tried")

    def test_a_run_that_goes_on_now(self, store):
        set_job(store.at(AT), "slow:A", "NOW", "now")
        take_one(store.at(AT + 1), [(QUEUE, 60.0)], "Ownerw01abcdefgh")
        register(store, "worker", AT, NOW)
        [moment] = [each for each in look(store).moments if each.lane is Lane.RUNS]
        assert (moment.jobid, moment.time) == ("slow:A", AT + 1)
        assert moment.text.startswith("runs still")


class TestCuts:
    @pytest.fixture
    def filled(self, store):
        for number in range(50):
            remember(store, f"{number}:A", AT + number / 10)
        archive(store)
        return store

    def test_without_time_the_runs_of_most_jobs_are_not_read_and_that_is_told(self, filled):
        found = look(filled, patience=0.0)
        assert (found.looked_at, found.jobs) == (1, 50)
        assert found.cuts == ["the kept runs of 1 of about 50 jobs were read"]
        found = look(filled)
        assert (len(found.moments), found.cuts) == (50, [])

    def test_jobs_that_failed_or_were_changed_are_read_in_any_case(self, filled):
        remember(filled, "bad:A", AT, outcome=Outcome.FAILED, error="no luck")
        archive(filled)
        fail(filled, "bad:A")
        change(filled, "7:A", AT)
        found = look(filled, patience=0.0)
        assert {"bad:A", "7:A"} == {moment.jobid for moment in found.moments if moment.lane is not Lane.CHANGES}

    @pytest.mark.parametrize(
        ("patience", "read", "said"), [(math.inf, 370, "the 370 jobs"), (0.0, 200, "the first 200 of the 370 jobs")]
    )
    def test_what_was_skipped_is_counted_of_all_that_failed(self, store, patience, read, said):
        jobids = [f"{number}:A" for number in range(370)]
        failures = {each: json.dumps({"jobid": each, "due": AT, "failed": AT}) for each in jobids}
        store.client.hset(store.keys.failures, mapping=failures)
        store.client.zadd(store.keys.failure_times, dict.fromkeys(jobids, AT))
        store.client.hset(store.keys.skipped, mapping={f"missed:{each}": 2 for each in jobids})
        found = look(store, patience=patience)
        assert describe_skipped(found) == (
            f"So far, these occurrences of {said} that failed or changed then were skipped, at any time: "
            f"{2 * read} missed"
        )
        cut = "of 370 jobs, 200 were asked whether they run still"
        assert (cut in found.cuts) == (read < 370)

    def test_all_that_run_are_told(self, store, monkeypatch):
        monkeypatch.setattr(incidents, "NAMED", 1)
        for tag in ("Ownerw01abcdefgh", "Ownerw01abcdefgi"):
            set_job(store.at(AT), f"{tag}:A", "NOW", "now")
            assert take_one(store.at(AT + 1), [(QUEUE, 6000.0)], tag)
        register(store, "worker", AT, NOW)
        assert [each.lane for each in look(store).moments].count(Lane.RUNS) == 2

    def test_more_runs_than_are_listed_are_counted_and_ordinary_ones_are_left_out_first(self, filled, monkeypatch):
        monkeypatch.setattr(incidents, "MOST_RUNS", 20)
        found = look(filled)
        assert (len(found.moments), found.counts[Lane.RUNS]) == (20, 50)
        assert found.cuts == ["of 50 runs, 20 are listed"]
        for moment in (AT - 3, AT + 1000):
            remember(filled, "bad:A", moment, outcome=Outcome.FAILED)
        listed = look(filled).list_first(10)
        assert [moment.jobid for moment in listed] == ["bad:A", *(f"{number}:A" for number in range(8)), "bad:A"]

    def test_of_runs_that_are_not_archived_yet_the_last_are_read(self, store):
        for number in range(incidents.MOST_ENTRIES + 1):
            remember(store, f"{number}:A", AT)
        found = look(store)
        assert found.cuts == ["of 5,001 entries of runs that are not archived yet, 5,000 were read"]
        assert len(found.moments) == 5000

    @pytest.mark.acceptance
    def test_what_is_read_is_bounded_by_the_time(self, store):
        """Jobs whose last run ended before the window are hardly looked at, and nothing is kept of them."""
        run = pack_run(SINCE - 9e5, 0.0, 1.0, Outcome.OK, 1, "")
        for first in range(0, 20_000, 100):
            runs = [(f"{number}:A", QUEUE, 10, run) for number in range(first, first + 100)]
            store.client.rpush(store.keys.journal, pack_entry("web1:1:Ownerw01", runs))
        archive(store)
        tracemalloc.start()
        found = look(store)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert (found.looked_at, len(found.moments)) == (20_000, 0)
        assert peak < 5e6


def ran(jobid, ended, **more):
    """What happens, for the table: it is to be called with the store."""
    return partial(remember, jobid=jobid, ended=ended, **more)


TENS = [ran("slow:A", SINCE - 9000 + number * 100, took=10.0) for number in range(3)]
failed = partial(ran, outcome=Outcome.FAILED)
changed, registered = partial(partial, change), partial(partial, register, kind="worker")
WORKER = "the worker web1:1:Ownerw01 was last seen then, and has not ended in order"
AFTER_WELL, ALONE = ", and its run before that had not", ", and no run before it is kept"


@pytest.mark.parametrize(
    ("happened", "first"),
    [
        ([ran("ok:A", AT)], None),
        # A process that is lost, and one that lives.
        ([registered(since=AT - 9000, seen=AT), failed("bad:A", AT + 1)], (0, 0, WORKER, "")),
        ([registered(since=AT, seen=NOW)], None),
        # A failure after a success, and not one more.
        (
            [
                *(failed("always:A", moment) for moment in (SINCE - 9000, AT - 100, AT)),
                ran("once:A", SINCE - 9000),
                failed("once:A", AT + 50, error="no luck"),
            ],
            (50, 1, f"once:A failed (no luck){AFTER_WELL}", "once:A"),
        ),
        # A change before that, which is not too long before, and of that job.
        (
            [
                ran("bad:A", SINCE - 9000),
                changed(jobid="bad:A", at=AT - 900),
                changed(jobid="bad:A", at=AT - 300),
                changed(jobid="other:A", at=AT - 100),
                failed("bad:A", AT),
            ],
            (-300, 2, f"ann@host used set on bad:A, and 5 min later bad:A failed{AFTER_WELL}", "bad:A"),
        ),
        ([changed(jobid="bad:A", at=AT - 601), failed("bad:A", AT)], (0, 1, f"bad:A failed{ALONE}", "bad:A")),
        ([changed(jobid="ok:A", at=AT)], None),
        # A slow run: too few others, or too little.
        (
            [*TENS, ran("slow:A", AT + 600, took=600.0)],
            (30, 3, "a run of slow:A took 10 min, and its other runs 10.00 s (median)", "slow:A"),
        ),
        ([*TENS[:2], ran("slow:A", AT + 600, took=600.0)], None),
        ([*TENS, ran("slow:A", AT + 600, took=29.0)], None),
        # A late start, and a further try, which is not late.
        ([ran("late:A", AT, late=61.0)], (-1, 4, "a run of late:A began 1 min 1 s after it was due", "late:A")),
        ([ran("late:A", AT, late=61.0, attempt=2)], None),
        # The earliest of all.
        (
            [
                ran("late:A", AT, late=61.0),
                ran("bad:A", AT - 50, outcome=Outcome.OVERRUN),
                registered(since=AT - 9000, seen=AT + 1),
            ],
            (-50, 1, f"bad:A overran{ALONE}", "bad:A"),
        ),
    ],
)
def test_the_first_unusual_thing(store, happened, first):
    for happen in happened:
        happen(store)
    found = look(store).first
    if found is not None:
        found = (found.time - AT, found.rule, found.because, found.jobid)
    assert found == first


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
