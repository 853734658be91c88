"""Two prefixes whose keys could be the same are not used on one server."""

import pytest

from redbike import Redbike, RoundRobin
from redbike.errors import BadQueueName


class Named(RoundRobin):
    """The job id is the name of its queue."""

    def queue_for(self, jobid):
        return jobid


def make(client, prefix):
    return Redbike(Named("A"), prefix, client)


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
