"""Debian's Chromium, as tests drive it."""

import os
import shutil
from contextlib import contextmanager

import pytest

from tests.waiting import wait_until

CHROMIUM = shutil.which("chromium")
NEEDS_CHROMIUM = [
    pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed"),
    pytest.mark.timeout(300),
]
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1440, "height": 900}

YEARLY = "0 3 1 1 *"  # nothing of it is due while a test goes on: no dispatcher runs
PERSON = "page@127.0.0.1"  # whom the log names for what a browser does

BUSY = 30_000  # milliseconds on a machine that does a lot else
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>'\"&lt;" + "x" * 400 + ":A"
TURNED = "\u202egnp.exe:A"
PATHS = [
    *("", "jobs", "job?id=hello:A", "agenda", "agenda?span=week", "runs", "failures", "failures?as=list", "queues"),
    *("workers", "log", "job?id=nobody:A", "run?id=bad:A&began=failure", "at/now", "rehearse?action=resume&paused=1"),
    *("timeline", "timeline?lanes=job"),
]
STEERING = ["set", "set?id=hello:A", "rehearse?action=run&id=hello:A"]  # which those alone have who may change jobs


@contextmanager
def open_chromium():
    """Give a browser without a window."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=BUSY)
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


def wait_for_scripts(tab):
    """Wait until the scripts of a page hear keys that is shown already; one that was visited has waited for that."""
    tab.wait_for_load_state()


def press(tab, name):
    """Click the button with exactly this text."""
    tab.get_by_role("button", name=name, exact=True).click()


def expect_note(tab, text):
    """Wait until the page says what became of an action."""
    from playwright.sync_api import expect

    expect(tab.locator("main .note")).to_have_text(text)


def expect_title(tab, text):
    """Wait until the page with this title is shown."""
    from playwright.sync_api import expect

    expect(tab.get_by_role("heading", level=1)).to_have_text(text)


def read_log(bike):
    """What was changed by the page: the actions and their jobs, in order."""
    return [(entry.action, entry.jobid) for entry in bike.log() if entry.who == PERSON][::-1]
