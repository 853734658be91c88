"""Calls of one name keep their order, hold up no others, and leave nothing behind."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from redbike.facade.in_order import InOrder
from redbike.facade.results import run_by


def test_calls_of_one_name_keep_their_order_and_hold_up_no_others():
    in_order, done, going_on, other = InOrder(), [], threading.Event(), threading.Event()
    with ThreadPoolExecutor(4) as threads:
        in_order.start(threads.submit, "a", lambda: going_on.wait(60) and done.append(0))
        for number in range(1, 20):
            in_order.start(threads.submit, "a", partial(done.append, number))
        in_order.start(threads.submit, "b", other.set)
        assert other.wait(60)
        assert done == []
        threads.shutdown(wait=False)  # what waits is done all the same
        going_on.set()
    assert done == list(range(20))
    assert in_order._waiting == {}


def test_a_call_that_cannot_start_holds_up_no_later_one():
    in_order, done = InOrder(), []
    threads = ThreadPoolExecutor(1)
    threads.shutdown()
    with pytest.raises(RuntimeError):
        in_order.start(threads.submit, "a", partial(done.append, 0))
    in_order.start(lambda run: run(), "a", partial(done.append, 1))
    assert done == [1]


def test_a_call_behind_one_that_cannot_start_fails_with_it():
    in_order, futures, closed = InOrder(), [], RuntimeError("the pool is closed")

    def close(run):
        # Another thread closes the pool, after another event loop has begun a call.
        futures.append(run_by(partial(in_order.start, close, "a"), list, "a"))
        raise closed

    async def begin():
        with pytest.raises(RuntimeError, match="the pool is closed"):
            in_order.start(close, "a", list)
        return await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), 60)

    assert asyncio.run(begin()) == [closed]
    assert in_order._waiting == {}
