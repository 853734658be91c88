"""Operators pause, resume and limit queues, and pause everything."""

from contextlib import suppress
from typing import Any, Unpack

from redbike.config.queue_limits import LIMITS, Limits
from redbike.config.settings import Settings
from redbike.control.blackouts import check_together, end_blackout, make_blackout, set_blackout
from redbike.control.operator import check_reason, check_until, name_operator
from redbike.errors import BadQueueName, RedbikeError
from redbike.loop.worker_class import find_queue
from redbike.schedule.moments import DurationLike, InstantLike, read_instant
from redbike.schedule.objects import ScheduleLike
from redbike.store.blackouts import OF_QUEUE, Blackout
from redbike.store.every_host import is_base
from redbike.store.host_names import name_host_queue, split_host
from redbike.store.names import check_queue_name
from redbike.store.queue_limits import QueueLimits
from redbike.store.store import Store


def is_unused(store: Store, queue: str) -> bool:
    """Tell whether a queue was never used; "" is everything. It is False if the server does not answer."""
    with suppress(RedbikeError):  # it is only advice
        return bool(queue) and queue not in store.queue_limits.list_queues()
    return False


class QueueController:
    """Steers the queues of `store`. `worker` is an instance of a worker class; it may define short names of queues."""

    def __init__(self, store: Store, worker: Any, settings: Settings | None = None) -> None:
        self.store = store
        self.worker = worker
        self._settings = settings or Settings()

    def find_queue(self, queue: str) -> str:
        """Return the full name of a queue. With stock workers, ``A`` stands for ``work-A``. Raise `BadQueueName`."""
        check_queue_name(queue)
        return find_queue(self.worker, queue, self.store.queue_limits.list_queues())

    def find_held(self, queue: str) -> str:
        """`find_queue` for a queue that is to be paused or limited. Raise `BadQueueName` if no job can wait in it."""
        name = self.find_queue(queue)
        if is_base(name) and name not in self.store.queue_limits.find_used([name]):
            own = name_host_queue(split_host(name)[0], "HOST")
            raise BadQueueName(f"bad queue name {name!r}: no job waits there; each host has a queue, as {own!r}")
        return name

    def pause_queue(
        self, queue: str, until: InstantLike | None = None, reason: str = "", *,
        every: ScheduleLike | None = None, lasting: DurationLike | None = None
    ) -> bool:  # fmt: skip
        """Pause a queue: no job is taken from it. Return False if it was paused already: then nothing is changed.

        At `until`, it is resumed. With `every` and `lasting`, set a blackout as `Redbike.pause` does for jobs. Then
        return False if this replaces another blackout.
        """
        return self.pause(self.find_held(queue), until, reason, every=every, lasting=lasting)

    def resume_queue(self, queue: str, *, every: bool = False) -> bool:
        """Resume a queue. Return False if it was not paused; with `every`, end its blackout; False if it had none."""
        return self.resume(self.find_queue(queue), every)

    def pause_all(
        self, until: InstantLike | None = None, reason: str = "", *,
        every: ScheduleLike | None = None, lasting: DurationLike | None = None
    ) -> bool:  # fmt: skip
        """Pause everything: no job is enqueued, and none is taken. Return False if everything was paused already.

        At `until`, everything is resumed. With `every` and `lasting`, set a blackout, as `pause_queue` does.
        """
        return self.pause("", until, reason, every=every, lasting=lasting)

    def resume_all(self, *, every: bool = False) -> bool:
        """Resume everything, except jobs and queues that have pauses of their own. Return False if it was not paused.

        With `every`, end the blackout of everything, or return False if there is none.
        """
        return self.resume("", every)

    def set_blackout(self, name: str, blackout: Blackout) -> bool:
        """Set the blackout of the queue of this full name, or of everything (""). False if it replaces another one."""
        return set_blackout(self.store, [f"{OF_QUEUE}{name}"], blackout, self._settings) == ["set"]

    def end_blackout(self, name: str) -> bool:
        """End the blackout of the queue of this full name, or of everything (""). Return whether there was one."""
        return end_blackout(self.store, [f"{OF_QUEUE}{name}"], self._settings) == ["ended"]

    def pause(
        self, name: str, until: InstantLike | None = None, reason: str = "", *,
        every: ScheduleLike | None = None, lasting: DurationLike | None = None
    ) -> bool:  # fmt: skip
        """Pause the queue of this full name, or everything (""), as `pause_queue` does. Raise `BadConfig`.

        Return False if it was paused already: then nothing changes. At `until`, it is resumed.
        """
        check_together(until, every, lasting)
        if every is not None:
            return self.set_blackout(name, make_blackout(self.store, every, lasting, reason, self._settings.timezone))
        instant = check_until(read_instant("until", until), self.store.timeline.read_clock())
        return self.store.queue_limits.pause(name, instant, self.store.who or name_operator(), check_reason(reason))

    def resume(self, name: str, every: bool = False) -> bool:
        """Resume the queue of this full name, or everything (""), as `resume_queue` does."""
        return self.end_blackout(name) if every else self.store.queue_limits.open(name, resume=True)

    def limit(self, queue: str, **limits: Unpack[Limits]) -> QueueLimits:
        """Limit a queue, for all workers: ``at_once=5``, ``rate="100/m"``; None removes a limit.

        Return the pause and the limits of the queue after this. Raise `BadConfig`, `BadQueueName` and `TypeError`.
        """
        if unknown := limits.keys() - LIMITS:
            raise TypeError(f"no limit {sorted(unknown)[0]!r}: {' and '.join(LIMITS)} are limits")
        given: dict[str, Any] = {key: LIMITS[key](value) or False for key, value in limits.items()}
        name = self.find_held(queue) if any(given.values()) else self.find_queue(queue)
        if given:
            self.store.queue_limits.limit(name, **given)
        return self.store.queue_limits.read(name)

    def queue_limits(self) -> list[QueueLimits]:
        """Return all pauses and limits: first those of everything, with "" as the queue, then of queues by name."""
        return self.store.queue_limits.list_all()
