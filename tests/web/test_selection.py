"""The jobs that a request of the page is about."""

from urllib.parse import parse_qsl

import pytest
from starlette.datastructures import QueryParams

from redbike import BadConfig, BadJobId, Redbike
from redbike.web.selection import FLAGS, MOST_IDS, Found, Selection, make_digest
from tests.verbs import Quiet, set_job

JOBS = ["nightly:A", "nightly:B", "hourly:A", "star*:A", "<b>&\"':A", "é:B"]


@pytest.fixture
def bike(client, prefix):
    bike = Redbike(Quiet("A:B"), prefix, client)
    for jobid in JOBS:
        set_job(bike.store, jobid, "EVERY:1h@0", 4e9)
    for jobid in ("hourly:A", "nightly:A"):
        bike.set(jobid, "EVERY:1h@0", tags="eu night")
    return bike


def find(bike, query, limit=100):
    return list(Selection.read(QueryParams(query)).find(bike, limit).jobids)


def test_a_query_names_jobs(bike):
    for query, named in (
        ("id=hourly:A", ["hourly:A"]),
        ("id=nightly:B&id=hourly:A&id=nightly:B", ["hourly:A", "nightly:B"]),
        ("id=gone:A&id=hourly:A", ["hourly:A"]),
        ("id=*", []),
        ("id=star*:A", ["star*:A"]),
        ("id=%3Cb%3E%26%22%27:A", ["<b>&\"':A"]),
        ("id=hourly:A&pattern=nightly:*&paused=1", ["hourly:A"]),
        ("pattern=nightly:*", ["nightly:A", "nightly:B"]),
        ("pattern=nightly:A", ["nightly:A"]),
        ("pattern=gone:A", []),
        ("pattern=*", sorted(JOBS)),
        ("queue=B", ["nightly:B", "é:B"]),
        ("queue=work-B&pattern=n*", ["nightly:B"]),
        ("status=ENQ", []),
        ("status=tml&pattern=*&queue=B", ["nightly:B", "é:B"]),
        ("never_ran=1&pattern=h*", ["hourly:A"]),
        ("", []),
        ("pattern=&queue=&status=&failed=", []),
        ("sort=next", []),
        ("tag=Night", ["hourly:A", "nightly:A"]),
        ("tag=day,night&queue=A&pattern=*", ["hourly:A", "nightly:A"]),
        ("tag=day", []),
    ):
        assert find(bike, query) == named, query
    bike.pause("nightly:*")
    set_job(bike.store, "late:A", "EVERY:1h@0", 1.0)
    bike.store.jobs.reject("bad:A")
    assert find(bike, "paused=1") == ["nightly:A", "nightly:B"]
    assert find(bike, "paused=1&queue=B") == ["nightly:B"]
    assert find(bike, "overdue=1") == ["late:A"]
    assert find(bike, "planned=1&queue=B") == ["é:B"]
    bike.set("missed:A", "AT:1000", finish_within="1s")
    assert find(bike, "late=1") == find(bike, "late=1&pattern=m*") == ["missed:A"]
    assert find(bike, "failed=1") == []
    assert find(bike, "status=BAD") == find(bike, "pattern=b*") == find(bike, "id=bad:A") == ["bad:A"]


def test_it_is_carried_on_as_it_is():
    flags = "&".join(f"{name}=1" for name in FLAGS)
    for query in ("id=a:A&id=b%26%3D:B", f"pattern=n%2A&queue=B&status=TML&tag=a+b&{flags}", ""):
        selection = Selection.read(QueryParams(query))
        assert sorted(selection.params()) == sorted(parse_qsl(query))
        assert Selection.read(QueryParams(selection.params())) == selection
        assert Selection.read(QueryParams(selection.params())) == selection
        assert selection.is_empty == (not query)


def test_what_is_invalid_is_quoted(bike):
    for query, error, message in (
        ("id=", BadJobId, "bad job id ''"),
        ("id=a%00b", BadJobId, "control characters"),
        ("&".join(f"id={number}:A" for number in range(MOST_IDS + 1)), BadConfig, "has 1001 ids"),
        ("pattern=[x", BadJobId, "has no ]"),
        ("status=XYZ", BadConfig, "bad status 'XYZ'"),
        ("queue=%00", ValueError, "bad queue name"),
    ):
        with pytest.raises(error) as refused:
            find(bike, query)
        assert message in str(refused.value)


def test_there_may_be_more_than_are_asked_for(bike):
    for number in range(300):
        set_job(bike.store, f"{number}:A", "EVERY:1h@0", 4e9)
    for query in ("pattern=*", "queue=A", "&".join(f"id={number}:A" for number in range(9))):
        selection = Selection.read(QueryParams(query))
        found, whole = selection.find(bike, 5), selection.find(bike, 1000)
        assert (len(found.jobids), found.is_more) == (5, True)
        assert selection.find(bike, len(whole.jobids)) == whole == Found(whole.jobids)
    for query in ("pattern=*", "never_ran=1", "queue=work-B"):
        found = Selection.read(QueryParams(query)).find(bike, 10_000, patience=0.0)
        assert (found.is_more, len(found.jobids) <= 300) == (True, True), "it ends when patience does"


def test_a_digest_says_which_set_it_is():
    same = make_digest(["a:A", "b:A"])
    assert same == make_digest(["b:A", "a:A", "b:A"]) == Found(("a:A", "b:A")).digest
    others = [[], ["a:A"], ["a:A", "b:A", "c:A"], ["a:Ab:A"], ["a:A,b:A"], ["a:A\nb:A"], ["\udcff:A"], ["3:a:A3:b:A"]]
    assert len({same, *map(make_digest, others)}) == len(others) + 1
