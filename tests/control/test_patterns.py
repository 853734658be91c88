"""The jobs that ids and patterns name."""

import json

import pytest

from redbike import escape
from redbike.errors import BadJobId, NoSuchJob
from redbike.store.patterns import expand, is_pattern
from tests.verbs import set_job

JOBS = ["nightly:A", "nightly:B", "n:A", "star*:A", "q?:A", "back\\slash:A", "[x]:A", "é:A"]


@pytest.fixture
def catalog(store):
    for jobid in JOBS:
        set_job(store, jobid, "EVERY:1h@0", 1e10)
    return store.catalog


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["nightly:A"], ["nightly:A"]),
        (["n*:A"], ["nightly:A", "n:A"]),
        (["nightly:[^A]"], ["nightly:B"]),
        (["\\[x\\]:A"], ["[x]:A"]),
        (["gone\\*:A"], []),
        (["star*:A"], ["star*:A"]),
        (["[q]\\?:A"], ["q?:A"]),
        (["back\\slash:A"], ["back\\slash:A"]),
        (["\\[x]*"], ["[x]:A"]),
        (["nightly:A", "nightly:*", "nightly:B"], ["nightly:A", "nightly:B"]),
        (["*"], JOBS),
    ],
)
def test_a_text_names_jobs(catalog, texts, found):
    if found:
        named = list(expand(catalog, texts))
        assert sorted(named) == sorted(found)
        assert len(named) == len(set(named))
    else:
        with pytest.raises(NoSuchJob):
            list(expand(catalog, texts))


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ([], ["n:A", "nightly:A", "star*:A"]),
        (["*"], ["n:A", "nightly:A", "star*:A"]),
        (["nightly:*"], ["nightly:A"]),
        (["n:A", "nightly:*", "n*"], ["n:A", "nightly:A"]),
        (["star*:A"], ["star*:A"]),
        (["star\\*:A"], ["star*:A"]),
    ],
)
def test_tags_choose_among_jobs_and_only_options_are_read_for_that(catalog, client, prefix, texts, found):
    key = f"{prefix}-options"
    stored = {"n:A": "b x", "nightly:A": "x", "star*:A": "a y", "nightly:B": "z"}
    client.hset(key, mapping={jobid: json.dumps({"tags": tags}) for jobid, tags in stored.items()})
    client.hset(key, mapping={"é:A": '{"note":"x"}', "q?:A": "damaged"})
    assert sorted(expand(catalog, texts, tags={"x", "y"})) == found
    client.config_resetstat()
    assert list(catalog.list_tagged("*", {"gone"})) == []
    calls = client.info("commandstats")
    assert calls["cmdstat_hscan"]["calls"] == 1, "all of them are one page"
    assert not calls.keys() & {"cmdstat_hmget", "cmdstat_hget", "cmdstat_hexists"}


@pytest.mark.parametrize(
    ("text", "may_match_none", "said"),
    [
        ("gone:A", False, "no such job: 'gone:A'"),
        ("gone:*", False, "no job matches 'gone:*'"),
        # An id must be there also where a pattern may match none.
        *((text, True, "no ") for text in ("gone:A", "gone\\*:A", escape("gone*:A"))),
    ],
)
def test_what_names_no_job_is_quoted(catalog, text, may_match_none, said):
    with pytest.raises(NoSuchJob) as refused:
        list(expand(catalog, ["nightly:A", text], may_match_none=may_match_none))
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize("text", ["gone:*", "gone:?", "[g]one:A"])
def test_a_pattern_may_match_none(catalog, text):
    assert list(expand(catalog, [text, "n:A"], may_match_none=True)) == ["n:A"]


@pytest.mark.parametrize(
    "text", ["", "a\nb*", "x" * 513, "[a", "a[", "a[]", "x[b-", "[a\\]", "a*[b", "\udcff*", "a*\\", 7]
)
def test_a_text_that_is_no_pattern_is_refused_before_anything_else(catalog, text):
    with pytest.raises(BadJobId) as refused:
        next(expand(catalog, ["nightly:A", text]))
    assert repr(text)[:20] in str(refused.value)


@pytest.mark.parametrize(("text", "expected"), [("a", False), ("a*", True), ("a\\*", False), ("a\\\\*", True)])
def test_a_backslash_takes_the_next_character_literally(text, expected):
    assert is_pattern(text) is expected
