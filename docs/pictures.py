"""Make the pictures of the page in ``docs/pictures``: ``make pictures``. It needs Chromium.

A server of its own has believable jobs with a past of some hours, of which one has failed and one is paused.
"""

import logging
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from uvicorn import Config, Server

from redbike import Redbike, RoundRobin
from redbike.connection.embedded import EmbeddedServer
from redbike.store.entries import pack_entry
from redbike.store.enums import Outcome
from redbike.store.history import pack_run
from redbike.web import app

FOLDER = Path(__file__).parent / "pictures"
DESK, PHONE = (1200, 750), (390, 844)
# The name of the picture, the page, and the size of the window.
PICTURES = (
    ("overview", "", DESK),
    ("jobs", "jobs?sort=next", DESK),
    ("timeline", "timeline?lanes=job&every=5m", DESK),
    ("job", "job?id=billing:invoices", DESK),
    ("jobs-phone", "jobs", PHONE),
)
JOBS = {
    "backup:database": "0 3 * * *",
    "backup:files": "30 3 * * *",
    "billing:invoices": "0 6 1 * *",
    "billing:reminders": "0 9 * * MON-FRI",
    "mail:digest": "0 7 * * *",
    "mail:newsletter": "0 10 * * TUE",
    "reports:daily": "15 5 * * *",
    "reports:weekly": "0 6 * * MON",
    "search:index": "EVERY:15m",
    "sync:calendars": "EVERY:5m",
    "sync:contacts": "EVERY:10m",
    "thumbnails:new": "EVERY:1m",
}
KINDS = sorted({jobid.partition(":")[0] for jobid in JOBS})
FAILING, ERROR = "billing:invoices", "db-3 refused the connection: 512 of 512 clients"
HISTORY, PAST_HOURS = 100, 6
# How far their runs of the last hours lie apart, and how long they took, in seconds.
PAST = {
    "backup:database": (9000, 1500),
    "backup:files": (9000, 2400),
    "billing:invoices": (3600, 40),
    "billing:reminders": (7200, 300),
    "mail:digest": (5000, 60),
    "reports:daily": (6000, 1200),
    "search:index": (900, 120),
    "sync:calendars": (300, 20),
    "sync:contacts": (600, 30),
    "thumbnails:new": (60, 10),
}


class Worker(RoundRobin):
    """Works for a moment."""

    def work(self, jobid: str) -> None:
        """Fail if it is the one that fails."""
        time.sleep(0.02)
        if jobid == FAILING:
            raise ConnectionError(ERROR)

    def queue_for(self, jobid: str) -> str:
        """Return the queue of its kind."""
        return self.name_queue(jobid.partition(":")[0])


def remember(bike: Redbike) -> None:
    """Keep runs of the last hours, as workers would have."""
    chance, now = random.Random(1), bike.store.timeline.read_clock()
    runs = []
    for jobid, (period, took) in PAST.items():
        due = now - PAST_HOURS * 3600 + chance.uniform(0, period)
        while due < now - 2 * took:
            outcome = Outcome.FAILED if chance.random() < (0.4 if jobid == FAILING else 0.03) else Outcome.OK
            error = ERROR if outcome is Outcome.FAILED else ""
            run = pack_run(due, chance.uniform(0, 2), took * chance.uniform(0.5, 1.5), outcome, 1, error)
            runs.append((due, (jobid, bike.store.queue_for(jobid), HISTORY, run)))
            due += period
    runs.sort()
    for first in range(0, len(runs), 100):
        entry = pack_entry("web1:4711:Ownerw01", [run for _, run in runs[first : first + 100]])
        bike.client.rpush(bike.store.keys.journal, entry)


def fill(bike: Redbike) -> None:
    """Set the jobs, and let each run once now."""
    for jobid, schedule in JOBS.items():
        bike.set(jobid, schedule, history=HISTORY, on_error="reschedule")
    remember(bike)
    bike.run(*JOBS)
    while bike.work_one():
        pass
    bike.pause("mail:newsletter", reason="the new template is not ready")


@contextmanager
def serve(bike: Redbike) -> Iterator[str]:
    """Serve the page; give its URL."""
    page = app(bike)
    server = Server(Config(page, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    page.state.live.stop()
    server.should_exit = True
    thread.join()


def draw(browser: Browser, url: str) -> None:
    """Make the pictures."""
    for name, path, (width, height) in PICTURES:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="light",
            reduced_motion="reduce",
        )
        tab = context.new_page()
        tab.goto(url + path)
        tab.locator("body:not(:has([data-again])) > dialog#help").wait_for(state="attached")
        tab.screenshot(path=FOLDER / f"{name}.png")
        context.close()


def main() -> None:
    """Make them all."""
    program = shutil.which("chromium")
    if program is None:
        sys.exit("chromium is not installed")
    logging.disable(logging.ERROR)  # one of the jobs is to fail
    FOLDER.mkdir(exist_ok=True)
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = EmbeddedServer(folder)
        server.start()
        browser = playwright.chromium.launch(executable_path=program, args=options)
        with Redbike(Worker(":".join(KINDS)), redis_config=server.url, noted_as="ada@example") as bike:
            fill(bike)
            loops = [threading.Thread(target=loop) for loop in (bike.dispatch, bike.work)]
            for loop in loops:
                loop.start()
            with serve(bike) as url:
                draw(browser, url)
            bike.stop()
            for loop in loops:
                loop.join()
        browser.close()
        server.stop()


if __name__ == "__main__":
    main()
