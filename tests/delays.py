"""A plugin of pytest that holds up each test once, at one of its lines: one that relies on its own pace fails.

``python -m pytest -p tests.delays`` holds it up for three seconds, or ``REDBIKE_DELAY``. The report of a test that
fails names the line. ``REDBIKE_RANDOM=1`` chooses other lines each time.
"""

import os
import random
import sys
import threading
import time
import types

import pytest

SECONDS = float(os.environ.get("REDBIKE_DELAY", "3"))


def list_lines(code):
    """The lines of a function and of those within it, each with its code."""
    yield from {(code, line) for *_, line in code.co_lines() if line not in (None, code.co_firstlineno)}
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from list_lines(inner)


class Delay:
    """Sleeps where a thread first comes to a line."""

    def __init__(self, code, line):
        self.code, self.line, self.has_slept = code, line, False

    def trace(self, frame, event, arg):
        return self._look if frame.f_code is self.code and not self.has_slept else None

    def _look(self, frame, event, arg):
        if frame.f_lineno == self.line and not self.has_slept:
            self.has_slept = True
            time.sleep(SECONDS)
        return self._look


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Choose a line of the test, and call it."""
    code = getattr(getattr(item, "function", None), "__code__", None)
    lines = sorted(list_lines(code), key=lambda each: each[1]) if code else []
    # Hypothesis measures how long its examples take.
    if not lines or hasattr(item.function, "hypothesis"):
        return (yield)
    seed = os.environ.get("REDBIKE_RANDOM") and random.random()
    delay = Delay(*random.Random(f"{seed} {item.nodeid}").choice(lines))
    before = sys.gettrace()
    sys.settrace(delay.trace)
    threading.settrace(delay.trace)
    try:
        return (yield)
    finally:
        sys.settrace(before)
        threading.settrace(None)
        item.add_report_section("call", "delay", f"at line {delay.line}" if delay.has_slept else "nowhere")
