"""Which ids fit a pattern: those that the server finds for it."""

import time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from redbike.errors import BadJobId
from redbike.store.patterns import check_pattern, compile_patterns, is_pattern

TEXTS = st.text(alphabet="ab-]^\\é*?[!c", min_size=1, max_size=6)


@given(pattern=TEXTS, ids=st.sets(TEXTS, min_size=1, max_size=8))
@example(pattern="[z-a]", ids={"b", "z", "é"})
@example(pattern="[^^]?*", ids={"^é", "aé", "a"})
@example(pattern="a\\*b*", ids={"a*bc", "aab"})
@example(pattern="?", ids={"é", "a"})
@example(pattern="[a-]*", ids={"a", "-", "b]"})
@example(pattern="[é-]", ids={"?", "é", "]", "b", "~"})
@example(pattern="[^c-é]", ids={"?", "é", "]", "b", "~"})
@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


@pytest.mark.parametrize(
    ("texts", "fitting", "others"),
    [
        ([], ["a:A", "*"], []),
        (["a:A", "b*"], ["a:A", "b:A", "b"], ["ab:A", "a"]),
        (["a?A"], ["a:A"], ["aé:A", "a::A"]),
        (["*:A"], [":A", "x:y:A"], ["x:B", "A"]),
    ],
)
def test_several_texts(texts, fitting, others):
    fits = compile_patterns(texts)
    assert [jobid for jobid in fitting + others if fits(jobid)] == fitting


def test_no_pattern_takes_long():
    fits = compile_patterns(["*a" * 250 + "b"])
    began = time.process_time()
    assert not fits("a" * 512)
    assert time.process_time() - began < 1, "some steps for each byte and token, and not for each way to combine them"
