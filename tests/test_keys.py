"""Job ids, queue names, and that none of them can hit a key of ours."""

import pytest

from redbike.errors import BadJobId, BadQueueName
from redbike.keys import COMMON, OTHERS, Keys, check_jobid, check_queue_name

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


@pytest.mark.parametrize("name", [*COMMON, *OTHERS, "inflight-x", "wake-x", "", "a\nb", "x" * 1025, None])
def test_a_queue_name_that_would_hit_a_key_of_ours_is_refused(name):
    with pytest.raises(BadQueueName):
        check_queue_name(name)


def test_no_allowed_queue_name_hits_a_key_of_ours():
    keys = Keys("p")
    ours = {*keys.fixed(), keys.inflight("x"), keys.wake("x")}
    for key in ours:
        with pytest.raises(BadQueueName):
            check_queue_name(key.removeprefix("p-"))


def test_with_a_prefix_in_braces_every_key_is_in_one_slot():
    keys = Keys("{app}")
    for key in [*keys.fixed(), keys.queue("{x}"), keys.wake("{x}"), keys.inflight("{x}:A")]:
        assert key.startswith("{app}-")
