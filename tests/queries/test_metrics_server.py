"""The server for figures: what it does when more is asked at once than it answers."""

import threading
import urllib.error
import urllib.request
from functools import partial

import pytest

from redbike.queries.metrics_server import MOST_AT_ONCE, Address, Page, Server
from tests.loops import join, start
from tests.waiting import wait_until


@pytest.fixture
def busy():
    """A server whose page takes until the event is set; the event, and how many are at it."""
    free, at_it = threading.Event(), []

    def answer(given):
        at_it.append(given)
        free.wait(600)
        return Page(200, "done\n")

    with Server(Address("127.0.0.1", 0), {"/page": answer}) as server:
        thread = start(partial(server.serve_forever, poll_interval=0.01))
        yield server, free, at_it
        free.set()
        server.shutdown()
        join(thread)


def get(server):
    try:
        with urllib.request.urlopen(f"{server.url}/page", timeout=600) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_what_is_too_much_at_once_is_refused_and_not_queued(busy):
    server, free, at_it = busy
    answers = []
    threads = [start(lambda: answers.append(get(server))) for _ in range(MOST_AT_ONCE)]
    wait_until(lambda: len(at_it) == MOST_AT_ONCE)
    assert get(server) == 503
    free.set()
    join(*threads)
    assert answers == [200] * MOST_AT_ONCE
    assert get(server) == 200
