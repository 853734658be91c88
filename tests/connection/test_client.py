"""The ways to a server: what they build, and that no password shows."""

import pytest
import redis

from redbike.connection.check import check_server
from redbike.connection.client import connect
from redbike.connection.cluster import add_braces
from redbike.connection.pools import Sentinels
from redbike.connection.urls import redact
from redbike.errors import BadConfig, ServerError, Unreachable


def complaint_of(url):
    """What is said of a URL, if anything is wrong with it."""
    try:
        connect(url)
    except BadConfig as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("redbike", "{redbike}"),
        ("my{app}", "my{app}"),
        ("{}", "{{}}"),
        ("a{b", "{a{b}"),
        ("}{", "{}{}"),
    ],
)
def test_in_a_cluster_a_prefix_has_a_part_in_braces_that_says_its_slot(prefix, expected):
    assert add_braces(prefix) == expected


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis+cluster://u:hunter2@127.0.0.1:1,127.0.0.1:2", r"^cannot reach .*127\.0\.0\.1:1: .*; 127\.0\.0\.1:2: "),
        ("redis+sentinel://u:hunter2@127.0.0.1:1/service", r"127\.0\.0\.1:1"),
        ("unix:///tmp/nowhere/redis.sock", "nowhere"),
    ],
)
def test_what_is_not_there_is_said_in_a_few_words(url, said):
    with pytest.raises(Unreachable, match=said) as refused:
        check_server(connect(url))
    assert len(str(refused.value)) < 180
    assert "\n" not in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_client_is_used_without_being_changed(server_url):
    given = redis.Redis.from_url(server_url, decode_responses=True)
    before = dict(given.connection_pool.connection_kwargs)
    client = connect(given)
    assert client.connection_pool.connection_kwargs["path"] == given.connection_pool.connection_kwargs["path"]
    assert client.connection_pool.connection_kwargs["retry"].get_retries() == 0
    assert given.connection_pool.connection_kwargs == before
    assert given.echo("x") == "x"
    assert client.echo("x") == b"x"


@pytest.mark.parametrize(
    "url",
    [
        "redis://u:hunter2@h/0",
        "redis://h?password=hunter2",
        "redis+sentinel://u:hunter2@h1,h2/s/0",
        "redis://u:hun@ter2@h",
        "redis://u:hun/ter2@h",
        "redis://u:hun?ter2@h",
        "redis://u:12?hunter2@h",
        "redis://u:hun/ter2w==@h:1/0",
        "redis://u:h@n/ter2@h",
        "redis://u:hun?ter2=@h",
        "redis://u:h[ter2]@h",
        "redis://[u:hunter2@h",
        "redis//:hunter2@h",
        "redis:/u:hunter2@h",
        "hunter2@h",
        "rediss://h?ssl_password=hun@ter2&db=port",
    ],
)
def test_no_password_shows_even_where_the_url_is_wrong(url):
    assert "ter2" not in redact(url)
    assert "h" in redact(url)
    complaint = complaint_of(url)
    assert "ter2" not in complaint
    assert redact(url) in complaint or complaint == ""


@pytest.mark.parametrize(
    "url", ["redis://u:12?34@h", "redis://u:1/2@h:7", "redis+sentinel://u:1/2@h/service", "redis://:1/2=@h"]
)
def test_a_password_that_would_be_taken_for_something_else_is_explained(url):
    with pytest.raises(BadConfig, match="%2F"):
        connect(url)


def test_a_wrong_password_is_said_without_saying_it(client, server_url):
    client.acl_setuser("guest", enabled=True, passwords=["+right"], categories=["+@all"], keys=["*"])
    try:
        with pytest.raises(ServerError) as refused:
            check_server(connect(server_url.replace("unix://", "unix://guest:hunter2@")))
        assert "hunter2" not in str(refused.value)
        assert check_server(connect(server_url.replace("unix://", "unix://guest:right@"))) == []
    finally:
        client.acl_deluser("guest")


def test_the_sentinel_that_answers_is_asked_first_and_no_thread_sees_a_list_without_it():
    sentinels = Sentinels([("a", 1), ("b", 1), ("c", 1)])
    first, second, third = before = sentinels.sentinels
    state = {"is_master": True, "is_sdown": False, "is_odown": False, "num-other-sentinels": 2, "ip": "m", "port": 1}
    first.sentinel_masters, second.sentinel_masters = dict, lambda: {"service": state}
    assert sentinels.discover_master("service") == ("m", 1)
    assert sentinels.sentinels == [second, first, third]
    # Another thread may have been about to go through it.
    assert before == [first, second, third]
