"""What a second signal does to a worker: what runs is ended, and its runs are handed back before the process ends.

A planned stop is no loss: another worker runs these occurrences again, at once, and nothing is counted against them.
"""

import logging
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field

from redbike.config.settings import Settings
from redbike.connection.client import connect
from redbike.errors import RedbikeError
from redbike.loop.policies import place_handed_back
from redbike.store.run import EndedRun, Run
from redbike.store.store import Store
from redbike.worker.ends import commit

log = logging.getLogger("redbike.worker")


@dataclass(slots=True)
class Left:
    """The runs that a worker has, at the instant at which it is ended."""

    ended: list[EndedRun] = field(default_factory=list)  # the server was not told of their ends yet
    begun: list[Run] = field(default_factory=list)
    waiting: list[Run] = field(default_factory=list)  # taken, but not begun


def hand_back(
    store: Store, left: Left, settings_for: Callable[[Run], Settings], sign_off: Callable[[Store], object]
) -> None:
    """Tell the server what becomes of runs, over a connection of its own: what was interrupted may hold the others.

    Then `sign_off` is called: a worker that has left nothing behind is not lost.
    """
    with closing(connect(store.client)) as client:
        own = Store(client, store.keys.prefix, store.queue_for)
        try:
            for run, placement in left.ended:
                commit(own, run, placement, settings_for(run))
            for run in left.begun:
                answer, _ = commit(own, run, place_handed_back(run), settings_for(run))
                if answer.word == "ok":
                    log.warning("%s: handed back, as its worker is ended", run.jobid)
            for tag in dict.fromkeys(run.tag for run in left.waiting):
                own.runs.release([run for run in left.waiting if run.tag == tag])
            sign_off(own)
        except RedbikeError as error:
            log.error("what ran cannot be handed back, so it counts as lost: %s", error)
