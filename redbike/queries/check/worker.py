"""Check the worker class: can it be imported and made, does it name its queues, are its commands there?"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from redbike.config.settings import Settings
from redbike.errors import RedbikeError
from redbike.loop.limits import read_limits
from redbike.loop.naming import knows_commands, knows_functions
from redbike.loop.queues import Queues
from redbike.loop.worker_class import Checkable, RoundRobin, read_concurrency
from redbike.queries.check.findings import Finding, Needed, note


class WorkerCheck:
    """Checks an instance of a worker class."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker
        self.queues: list[str] | None = None  # that it names; None if that is not known
        self.needed: Needed | None = None  # what it must have for each job; None for nothing

    def run(self, settings: Settings) -> Iterator[Finding]:
        """Yield what was found."""
        works = getattr(type(self._worker), "work", None) is not RoundRobin.work
        if not works:
            name = type(self._worker).__name__
            yield Finding(f"the worker class {name} has no work() of its own, so all of its jobs would fail")
        checks: list[Callable[[], Any]] = [partial(read_concurrency, self._worker), partial(read_limits, self._worker)]
        queues = Queues(self._worker, settings.default_timeout)
        own = self._worker if isinstance(self._worker, Checkable) else Checkable()
        bad = own.examine()
        yield from (Finding(str(problem)) for problem in bad)
        if not bad:
            # With bad commands it would only fail once more: the timeouts are theirs.
            checks.append(queues.refresh)
            # The worker may be on another host, so it is only a note.
            yield from map(note, own.find_missing())
            self.needed = _find_needed(self._worker)
        for check in checks:
            try:
                check()
            except RedbikeError as error:
                yield Finding(f"the worker class: {error}")
        self.queues = queues.names() or None if works else None


def _find_needed(worker: Any) -> Needed | None:
    if knows_commands(worker):
        return Needed("command", worker.has_command)
    return Needed("function", worker.has_function) if knows_functions(worker) else None
