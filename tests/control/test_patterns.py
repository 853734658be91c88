"""The jobs that ids and patterns name, which are those that the server finds for a pattern."""

import json
import time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from redbike import escape
from redbike.errors import BadJobId, NoSuchJob
from redbike.store.patterns import check_pattern, compile_patterns, expand, is_pattern
from tests.verbs import set_job

JOBS = ["nightly:A", "nightly:B", "n:A", "star*:A", "q?:A", "back\\slash:A", "[x]:A", "é:A"]
TEXTS = st.text(alphabet="ab-]^\\é*?[!c", min_size=1, max_size=6)
IDS = TEXTS | st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=20)


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
        (["star*:A"], ["star*:A"]),
        (["[q]\\?:A"], ["q?:A"]),
        (["back\\slash:A"], ["back\\slash:A"]),
        (["back\\\\*"], ["back\\slash:A"]),
        (["\\[x]*"], ["[x]:A"]),
        (["nightly:A", "nightly:*", "nightly:B"], ["nightly:A", "nightly:B"]),
        (["*"], JOBS),
    ],
)
def test_a_text_names_jobs(catalog, texts, found):
    assert sorted(expand(catalog, texts)) == sorted(found)


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
    ("text", "said"),
    [
        ("gone:A", "no such job: 'gone:A'"),
        ("gone\\*:A", "no such job: 'gone\\\\*:A'"),
        ("gone:*", "no job matches 'gone:*'"),
    ],
)
def test_what_names_no_job_is_quoted(catalog, text, said):
    with pytest.raises(NoSuchJob) as refused:
        list(expand(catalog, ["nightly:A", text]))
    assert str(refused.value) == said


@pytest.mark.parametrize(
    "text", ["", "a\nb*", "x" * 513, "[a", "a[", "a[]", "x[b-", "[a\\]", "a*[b", "\udcff*", "a*\\", 7]
)
def test_a_text_that_is_no_pattern_is_refused_before_anything_else(catalog, text):
    with pytest.raises(BadJobId) as refused:
        next(expand(catalog, ["nightly:A", text]))
    assert repr(text)[:20] in str(refused.value)


@given(pattern=TEXTS, ids=st.sets(TEXTS, min_size=1, max_size=8))
@example(pattern="[z-a]", ids={"b", "z", "é"})
@example(pattern="[a-cx-z]", ids={"b", "y", "d"})
@example(pattern="[^^]?*", ids={"^é", "aé", "a"})
@example(pattern="a\\*b*", ids={"a*bc", "aab"})
@example(pattern="?", ids={"é", "a"})
@example(pattern="[a-]*", ids={"a", "-", "b]"})
@example(pattern="[é-]", ids={"?", "é", "]", "b", "~"})
@example(pattern="[^c-é]", ids={"?", "é", "]", "b", "~"})
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_fits_is_what_the_server_finds(client, pattern, ids):
    try:
        check_pattern(pattern)
    except BadJobId:
        return
    if not is_pattern(pattern):
        return
    client.delete("matching")
    client.hset("matching", mapping=dict.fromkeys(ids, "1"))
    found = {name.decode() for name, _ in client.hscan_iter("matching", pattern)}
    fits = compile_patterns([pattern])
    assert {jobid for jobid in ids if fits(jobid)} == found


@given(jobid=IDS, others=st.sets(IDS, max_size=8), is_there=st.booleans())
@example(jobid="[*]", others={"*", "**", "[]", "\\[*]"}, is_there=True)
@example(jobid="\\*", others={"*", "\\", "\\a", "\\\\*"}, is_there=True)
@example(jobid="a\\b", others={"ab", "a\\\\b"}, is_there=False)
@example(jobid="?é", others={"aé", "é"}, is_there=False)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_escaped_id_matches_itself_alone(client, store, jobid, others, is_there):
    ids = others - {jobid} | ({jobid} if is_there else set())
    key, pattern = store.keys.schedules, escape(jobid)
    client.delete(key)
    if ids:
        client.hset(key, mapping=dict.fromkeys(ids, "STOP"))
    found = [jobid] if is_there else []
    assert [name.decode() for name, _ in client.hscan_iter(key, pattern)] == found
    assert list(expand(store.catalog, [pattern], may_miss=True)) == found
    assert list(expand(store.catalog, [f"{pattern}*"], may_miss=True)).count(jobid) == len(found)
    fits = compile_patterns([pattern])
    assert fits(jobid)
    assert not any(map(fits, others - {jobid}))
    if not is_there:
        with pytest.raises(NoSuchJob):
            list(expand(store.catalog, [pattern]))


@pytest.mark.parametrize("wild", ["*", "?", "[", "\\", "\\*"])
def test_the_longest_id_can_be_escaped(client, store, wild):
    jobid = (wild * 512)[:512]
    client.hset(store.keys.schedules, mapping={jobid: "STOP", "a": "STOP"})
    assert list(expand(store.catalog, [escape(jobid)])) == [jobid]
    assert list(expand(store.catalog, [f"{escape(jobid[1:])}?", escape(jobid[:511]) + "*"], may_miss=True)) == [jobid]
    for beyond in (f"{escape(jobid)}*", f"*{escape(jobid)}", f"{escape(jobid[1:])}[ab]"):
        with pytest.raises(BadJobId, match=r"bytes, 1 to 512 are allowed"):
            check_pattern(beyond)


def test_an_escaped_id_is_found_without_a_scan(store, monkeypatch):
    monkeypatch.setattr(type(store.catalog), "list_matching", None)
    with pytest.raises(NoSuchJob):
        list(expand(store.catalog, [escape("remind:*")]))


@pytest.mark.parametrize(
    ("texts", "fitting", "others"),
    [([], ["a:A", "*"], []), (["a:A", "b*"], ["a:A", "b:A", "b"], ["ab:A", "a"])],
)
def test_several_texts(texts, fitting, others):
    fits = compile_patterns(texts)
    assert [jobid for jobid in fitting + others if fits(jobid)] == fitting


def test_no_pattern_takes_long():
    fits = compile_patterns(["*a" * 250 + "b"])
    began = time.process_time()
    assert not fits("a" * 512)
    assert time.process_time() - began < 1, "some steps for each byte and token, and not for each way to combine them"
