"""Take a sample of the queues once a minute, also while nobody looks: so there is a chart of the last hour."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from redbike.errors import RedbikeError
from redbike.web.samples import STEP

log = logging.getLogger("redbike.web")

PATIENCE = 2.0  # seconds for which the end waits for a sample that is being taken


@contextmanager
def sample(look: Callable[[], object], pause: float = STEP) -> Iterator[None]:
    """Call `look` at once, and again every `pause` seconds, from a thread of its own, until this ends."""
    ending = threading.Event()
    thread = threading.Thread(target=_run, args=(look, pause, ending), name="redbike-web-samples", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join(PATIENCE)


def _run(look: Callable[[], object], pause: float, ending: threading.Event) -> None:
    while True:
        try:
            look()
        except RedbikeError as error:
            # Whoever looks at a page is told so. Here it would be a line each minute.
            log.debug("no sample of the queues: %s", error)
        except Exception:
            log.exception("no sample of the queues can be taken")
        if ending.wait(pause):
            return
