"""Two prefixes whose keys could be the same are not used on one server."""

import pytest

from redbike import Redbike
from redbike.errors import BadQueueName
from tests.loops import make_worker
from tests.verbs import Quiet


class Named(Quiet):
    """The job id is the name of its queue; works `names`."""

    def __init__(self, *names):
        super().__init__()
        self.names = list(names)

    def queue_for(self, jobid):
        return jobid

    def queue_names(self):
        return list(self.names)


def make(client, prefix, *names, **settings):
    return Redbike(Named(*names), prefix, client, **settings)


@pytest.mark.parametrize(
    ("one", "first", "other", "second"),
    [
        ("a", "work-statuses", "a-work", "A"),
        ("a", "work-mail", "a-work", "mail"),
        ("a", "b-c-mail", "a-b", "A"),
        ("a", "b-c-mail", "a-b-c", "A"),
        ("a-b", "c-x", "a-b-c", "A"),
    ],
)
@pytest.mark.parametrize("is_turned", [False, True])
def test_whichever_is_used_second_is_refused(client, one, first, other, second, is_turned):
    pairs = [(one, first), (other, second)]
    (early, queue), (late, refused) = reversed(pairs) if is_turned else pairs
    make(client, early).set(queue, "NOW")
    bike = make(client, late)
    with pytest.raises(BadQueueName, match=f"the prefix '{late}' cannot be used beside '{early}'"):
        bike.set(refused, "NOW")
    with pytest.raises(BadQueueName):
        bike.sync([(refused, "NOW")])
    assert client.keys(f"{late}-schedules") == []
    make(client, early).set(queue, "EVERY:1h")


@pytest.mark.parametrize(
    ("one", "first", "other", "second"),
    [("a", "mail", "a-work", "A"), ("a", "working-x", "a-work", "A"), ("a", "work-x", "b-work", "x")],
)
def test_others_are_used_beside_each_other(client, one, first, other, second):
    for prefix, queue in ((one, first), (other, second), (one, first)):
        make(client, prefix).set(queue, "EVERY:1h")
    assert [client.hlen(f"{prefix}-schedules") for prefix in (one, other)] == [1, 1]


def test_who_may_not_see_the_other_keys_goes_on(client, server_url):
    client.execute_command("ACL", "SETUSER", "limited", "on", ">x", "~a-work-*", "&*", "+@all")
    try:
        bike = Redbike(Named("A"), "a-work", server_url.replace("unix://", "unix://limited:x@"))
        assert bike.set("mail", "NOW")
    finally:
        client.execute_command("ACL", "DELUSER", "limited")


@pytest.mark.parametrize("has_jobs", [True, False])
def test_what_looks_for_runs_in_flight_leaves_out_another_prefix(client, has_jobs):
    bike = make(client, "a-inflight", "mail")
    if has_jobs:
        bike.set("mail", "EVERY:1h")
        bike.set("other", "NOW")
    with make_worker(bike.store, bike.worker).presence:
        before, own = {*client.scan_iter()}, make(client, "a")
        own.set("mail", "EVERY:1h")
        assert list(own.repair()) == []
        own.flush()
        assert {*client.scan_iter()} == before
        assert list(bike.fsck()) == []
