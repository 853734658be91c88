"""Job ids, queue names, and that none of them can hit a key of ours."""

import pytest

from redbike.errors import BadJobId, BadQueueName
from redbike.store.keys import FAMILIES, FIXED, GIVEN, Keys
from redbike.store.names import check_jobid, check_queue_name, is_queue_name
from redbike.store.scripts import list_kinds

GOOD = [
    "a",
    "x" * 512,
    "é" * 256,
    "members",
    "a:",
    ":",
    "*",
    "[a-z]*",
    "{x}:A",
    "../../x",
    "cafe\u0301",
    "caf\xe9",
    "\u202egpj",
    "=cmd|'/C calc'!A1",
    "<img src=x onerror=alert(1)>",
    "--help",
    "%s",
    "a b",
]
BAD = [
    "",
    "x" * 513,
    "é" * 257,
    "a\nb",
    "a\0b",
    "\r\nFLUSHALL\r\n",
    "\x1b[31m",
    "\x7f",
    "\x9b31m",
    "\udcff",
    b"a",
    None,
    7,
]


@pytest.mark.parametrize("jobid", GOOD)
def test_a_job_id_that_is_allowed(jobid):
    assert check_jobid(jobid) == jobid


@pytest.mark.parametrize("jobid", BAD)
def test_a_job_id_that_is_refused_is_quoted_in_one_line(jobid):
    with pytest.raises(BadJobId) as refused:
        check_jobid(jobid)
    assert repr(jobid)[:20].strip("'\"") in str(refused.value)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("name", [*FIXED, *(f"{name}x" for name in FAMILIES), *FAMILIES, "", "a\nb", "x" * 1025, None])
def test_a_queue_name_that_would_hit_a_key_of_ours_is_refused(name):
    with pytest.raises(BadQueueName):
        check_queue_name(name)
    assert not is_queue_name(name)


@pytest.mark.parametrize("name", ["work-A", "tombstones", "inflight", "wake", "x" * 1024, "schedules-x"])
def test_a_queue_name_that_only_looks_like_a_key_of_ours_is_allowed(name):
    assert check_queue_name(name) == name
    assert is_queue_name(name)


def test_with_a_prefix_in_braces_every_key_is_in_one_slot():
    keys = Keys("{app}")
    for key in [*keys.list_given(GIVEN, ("{x}",)), *keys.list_fixed(), keys.inflight("{x}")]:
        assert key.startswith("{app}-")


def test_every_key_has_a_name_of_its_own():
    keys = Keys("p")
    every = [*keys.list_fixed(), *keys.of_queue("x"), *keys.of_queue("y"), keys.inflight("x"), keys.inflight("y")]
    assert len(set(every)) == len(every)


def test_what_the_attributes_name_is_what_a_script_is_given_under_that_name():
    keys = Keys("p")
    given = keys.list_given(GIVEN, ())
    assert list(given) == [*keys.list_fixed(), keys.inflight("")]
    for name, key in zip(GIVEN, given, strict=True):
        attribute = "inflight_base" if name == "inflight-" else name.replace("-", "_")
        assert getattr(keys, attribute) == key == f"p-{name}"


def test_every_key_that_a_script_is_given_has_a_type():
    keys = Keys("p")
    assert dict(list_kinds(GIVEN, keys.list_given(GIVEN, ("x", "y")))) == {
        **{f"p-{name}": kind for name, kind in FIXED.items()},
        "p-x": "list",
        "p-wake-x": "list",
        "p-tombstones-x": "set",
        "p-y": "list",
        "p-wake-y": "list",
        "p-tombstones-y": "set",
    }
