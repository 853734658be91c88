"""The counts, read again and again: each entry of the journal is read once, and counts once."""

import pytest

from redbike.store import tally, totals
from redbike.store.enums import Outcome
from redbike.store.namespace import PAGE, Namespace
from redbike.store.scripts import Scripts
from redbike.store.totals import Counts
from tests.queries.kept import archive, remember
from tests.states import QUEUE

OK = f"runs:ok:{QUEUE}"


def add(store, number, outcome=Outcome.OK):
    for each in range(number):
        remember(store, float(each), took=0.2, outcome=outcome, jobid=f"job{each}:A")


def fresh(store):
    return Counts(Namespace(store.client, store.keys, Scripts(store.client))).read()


def test_what_it_reads_again_is_what_a_new_reader_reads(store):
    expected = 0
    for number in (3, 0, PAGE, 2 * PAGE + 7, 1):
        add(store, number)
        add(store, 1, Outcome.FAILED)
        expected += number
        assert store.counts.read()[OK] == expected
        assert +store.counts.read() == fresh(store)
        if number % 2:
            archive(store)
            add(store, 2)
            expected += 2
        assert +store.counts.read() == fresh(store)
    assert fresh(store)[OK] == expected
    assert fresh(store)[f"took:0.5:{QUEUE}"] == expected + 5
    assert fresh(store)[f"microseconds::{QUEUE}"] == (expected + 5) * 200_000


def test_each_entry_is_read_once(store, monkeypatch):
    read = []
    monkeypatch.setattr(totals, "count", lambda entries: read.extend(entries) or tally.count(entries))
    add(store, 2 * PAGE)
    assert store.counts.read()[OK] == 2 * PAGE
    store.counts.read()
    assert len(read) == 2 * PAGE
    add(store, 3)
    archive(store)
    add(store, 1)
    store.counts.read()
    assert len(read) == 2 * PAGE + 1, "the three were archived before it came to them"
    assert store.counts.read()[OK] == 2 * PAGE + 4


@pytest.mark.parametrize("number", [1, 5, 9])
def test_a_server_that_was_flushed(store, number):
    add(store, 5)
    assert store.counts.read()[OK] == 5
    store.client.flushall()
    add(store, number, Outcome.LOST)
    assert store.counts.read() == fresh(store)
    assert +fresh(store) == {f"runs:lost:{QUEUE}": number, f"delay:0.005:{QUEUE}": number}


def test_what_is_archived_while_it_reads_counts_once(store, monkeypatch):
    """Another one archives after each command that it sends, and more runs end."""
    add(store, PAGE + 5)
    client, total = store.client, PAGE + 5

    class Meddler:
        def __getattr__(self, name):
            def call(*arguments, **more):
                nonlocal total
                reply = getattr(client, name)(*arguments, **more)
                if left:
                    left.pop()
                    archive(store)
                    add(store, 2)
                    total += 2
                return reply

            return call

    for harm in range(1, 9):
        left = [None] * harm
        namespace = Namespace(Meddler(), store.keys, Scripts(client))
        reader = Counts(namespace)
        assert reader.read()[OK] == total
        left = [None]
        assert reader.read()[OK] == total
        assert not left


def test_what_is_no_count_is_passed_over(store, caplog):
    add(store, 1)
    store.client.rpush(store.keys.journal, b"damaged")
    damaged = {OK: "many", "archived": "x", "recent": "[]", f"queue:{QUEUE}": 1}
    store.client.hset(store.keys.counts, mapping=damaged | {"runs:ok:other": 3})
    counted = {OK: 1, f"took:0.5:{QUEUE}": 1, f"microseconds::{QUEUE}": 200_000, "runs:ok:other": 3}
    assert store.counts.read() == counted | {f"delay:0.005:{QUEUE}": 1, f"delays::{QUEUE}": 0}
    # Whoever archives it says so, once.
    assert caplog.text == ""
    assert list(store.archiver.archive()) == [None]
    assert caplog.text.count("b'damaged'") == 1
    caplog.clear()
    store.counts.read()
    assert caplog.text == "", "said once"
