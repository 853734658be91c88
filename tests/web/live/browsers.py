"""Debian's Chromium, as tests drive it."""

import os
import shutil
from contextlib import contextmanager

import pytest
from playwright.sync_api import sync_playwright

from tests.waiting import wait_until

CHROMIUM = shutil.which("chromium")
NEEDS_CHROMIUM = [
    pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed"),
    pytest.mark.timeout(300),
]
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1440, "height": 900}

BUSY = 30_000  # milliseconds on a machine that does a lot else
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>'\"&lt;" + "x" * 400 + ":A"
TURNED = "\u202egnp.exe:A"
PATHS = [
    "",
    "jobs",
    "job?id=hello:A",
    "agenda",
    "agenda?span=week",
    "runs",
    "failures",
    "failures?as=list",
    "queues",
    "workers",
    "log",
    "job?id=nobody:A",
    "at/now",
    "rehearse?action=resume&paused=1",
]
WRITING = [
    "",
    "jobs",
    "job?id=hello:A",
    "failures",
    "queues",
    "set",
    "set?id=hello:A",
    "rehearse?action=run&id=hello:A",
]


@contextmanager
def open_chromium():
    """Give a browser without a window."""
    # Chromium has no sandbox for root, and little shared memory in a container.
    options = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


def wait_for_stream(page, number=1):
    """Wait until so many pages listen."""
    state = page.application.state.live
    wait_until(lambda: sum(len(view.viewers) for view in state.list_views(only_new=False)) == number, BUSY / 1000)
