"""A worker made of functions: `Jobs` keeps them, with the schedules and options of their jobs, and calls them.

::

    from redbike import Jobs

    jobs = Jobs()

    @jobs.job("backup", every="1h", timeout="60s")
    def backup() -> None: ...

    @jobs.job("remind")
    def remind(jobid: str, data: dict[str, str]) -> None: ...

``redbike up module:jobs`` runs that.
"""

import inspect
import time
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar, Unpack

from redbike.config.limits import Limit
from redbike.config.options import JobOptions, format_options, parse_options, read_changes
from redbike.config.parameters import Value
from redbike.config.settings import Settings, check_zone, override
from redbike.errors import BadConfig, BadQueueName, BadSchedule, CommandFailed
from redbike.loop.naming import list_functions
from redbike.loop.policies import go_on_as_cron
from redbike.loop.queues import read_limits
from redbike.loop.worker_class import Middleware, RoundRobin, check_hooks, read_concurrency
from redbike.schedule.kinds import Schedule
from redbike.schedule.moments import ZoneLike, read_zone
from redbike.schedule.objects import CronLike, RuleLike, ScheduleLike, check_schedule, format_schedule
from redbike.schedule.parser import CronSchedule, RecurrenceSchedule, parse
from redbike.store.keys import check_jobid, check_queue_name
from redbike.store.run import Run

F = TypeVar("F", bound=Callable[..., Any])
Row = tuple[str, str, JobOptions]  # job id, schedule, options

GIVEN = ("jobid", "data")  # the parameters that a function may have
# The options that a worker decides on. The other ones count only if they are stored with a job.
_OF_WORKERS = (
    *("timeout", "on-timeout", "on-error", "retries", "backoff", "max-backoff", "jitter"),
    *("stop-after", "ping-url"),
)
_STOCK = RoundRobin("A")  # it names queues
_CLASSES: dict[str, type[Schedule]] = {"cron": CronSchedule, "rrule": RecurrenceSchedule}


def make_schedule(jobid: str, tz: ZoneLike | None, **kinds: object) -> str | None:
    """Return the text of the one schedule that is given among `kinds`; None if there is none.

    With `tz` the text names its zone. Raise `BadSchedule`, `BadConfig` for a bad zone, and `TypeError` for several
    kinds, for a value of another type, and for a zone without a schedule.
    """
    given = {kind: value for kind, value in kinds.items() if value is not None}
    if len(given) > 1:
        raise TypeError(f"job {jobid!r}: {' and '.join(given)} are given, but a job has one schedule")
    if not given:
        if tz is not None:
            raise TypeError(f"job {jobid!r}: tz is given, but no schedule")
        return None
    [(kind, value)] = given.items()
    zone = None if tz is None else check_zone(read_zone(tz))
    schedule = _write(kind, value)
    check_schedule(schedule, zone)
    text = format_schedule(schedule, zone or "UTC")
    try:
        return _complete(kind, text, zone, jobid)
    except BadSchedule as error:
        raise BadSchedule(f"job {jobid!r}: {error}") from None


def _write(kind: str, value: Any) -> Any:
    """Return the schedule of this kind that a value stands for: a text, or an object that is one."""
    if kind == "every" and not isinstance(value, timedelta):
        return f"EVERY:{value}"
    return f"AT:{value}" if kind == "at" and not isinstance(value, datetime) else value


def _complete(kind: str, text: str, zone: str | None, jobid: str) -> str:
    """Return `text`, with its zone if that is given. Raise `BadSchedule` if it is not of this kind."""
    parsed = parse(text, zone or "UTC", jobid, time.time())
    if not isinstance(parsed, _CLASSES.get(kind, Schedule)):
        raise BadSchedule(f"bad {kind} {text!r:.80}: it is a schedule of another kind")
    if zone is None:
        return text
    if parsed.anchor_span is None:
        return parsed.with_zone().text
    if isinstance(parsed, RecurrenceSchedule):
        example = "DTSTART:20260101T080000"
        raise BadSchedule(f"bad schedule {text!r:.80}: a rule with a tz needs a line such as {example!r}")
    return text


@dataclass(frozen=True, slots=True)
class _Function:
    call: Callable[..., Any]
    takes: tuple[str, ...]  # which of `GIVEN`
    queue: str
    schedule: str | None
    options: JobOptions
    own: Mapping[str, Value]  # the options by which a worker runs each of its jobs


class Jobs:
    """A worker made of functions, which `job` adds. It runs `concurrency` jobs at once in a process.

    A job id names its function: as a whole, or by its part before the first ``:``. So ``remind`` works the jobs
    ``remind`` and ``remind:anna``. Jobs wait in the queue that the stock workers give to the name of their function:
    the queue of ``remind`` and ``remind:anna`` is ``work-remind``. All these queues are worked in turn. `limits` has
    limits by the names of queues, such as ``{"remind": Limit(rate="100/m")}``. `startup`, `shutdown` and `middleware`
    are those of `WorkerClass`.

    After a failure or a timeout a recurring job goes on, as with cron, unless an option or a setting says otherwise.
    With the option ``retries``, its runs are retried so often before that. Raise `BadConfig` for bad arguments.
    """

    reads_options = True  # in `settings_for`

    def __init__(
        self,
        *,
        concurrency: int = 10,
        limits: Mapping[str, Limit] | None = None,
        startup: Callable[[], object] | None = None,
        shutdown: Callable[[], object] | None = None,
        middleware: Iterable[Middleware] = (),
    ) -> None:
        self.concurrency = concurrency
        self.startup, self.shutdown, self.middleware = startup, shutdown, middleware
        self._limits = {} if limits is None else limits
        self._functions: dict[str, _Function] = {}
        read_concurrency(self)
        read_limits(self)
        check_hooks(self)
        self.middleware = tuple(middleware)

    def job(
        self,
        jobid: str,
        *,
        every: float | str | timedelta | None = None,
        cron: str | CronLike | None = None,
        rrule: str | RuleLike | None = None,
        at: float | str | datetime | None = None,
        schedule: ScheduleLike | None = None,
        tz: ZoneLike | None = None,
        queue: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Callable[[F], F]:
        """Add the function below to the jobs, which stays as it is, and may be ``async``.

        It has a schedule of one kind: `every` (seconds, a duration such as ``"1h"``, or a timedelta), `cron`, `rrule`,
        `at` (epoch seconds, ISO 8601, or an aware datetime), or as `schedule` any that `Redbike.set` takes. `tz` is the
        zone of its times; without it that is the setting ``timezone``. Without a schedule, the function works jobs that
        are set elsewhere. `queue` names another queue, as ``A`` for ``work-A``. `options` are those of `Redbike.set`.

        The function is called with the parameters that it has: ``jobid``, ``data``, both or none.

        Raise `BadSchedule`, `BadJobId`, `BadQueueName`, `BadConfig` for a bad option or an id that is there already,
        and `TypeError` for what is no function, for other parameters, and for several kinds of schedule.
        """
        if callable(jobid):
            raise TypeError(f'@job is written @job("{getattr(jobid, "__name__", "backup")}"): it needs a job id')
        text = make_schedule(check_jobid(jobid), tz, every=every, cron=cron, rrule=rrule, at=at, schedule=schedule)
        changes = read_changes(options)
        if text is None:
            _check_own(jobid, options)
        place = _STOCK.queue_for(jobid) if queue is None else _find_queue(queue)

        def add(function: F) -> F:
            if jobid in self._functions:
                names = _name(self._functions[jobid].call), _name(function)
                raise BadConfig(f"the job id {jobid!r} is there twice: for {names[0]} and for {names[1]}")
            takes = find_parameters(function)
            self._functions[jobid] = _Function(function, takes, place, text, options, _list_own(changes.options))
            return function

        return add

    def schedules(self) -> list[Row]:
        """Return (job id, schedule, options) of each function with a schedule, in their order."""
        # Copies: whoever changes them changes nothing here.
        return [
            (jobid, each.schedule, deepcopy(each.options)) for jobid, each in self._functions.items() if each.schedule
        ]

    def name_queue(self, code: str) -> str:
        """Return the full name of the queue that `code` names."""
        return _STOCK.name_queue(code)

    def queue_for(self, jobid: str) -> str:
        """Return the queue of a job. One without a function waits in the first queue: its run says what is wrong."""
        function = self._find(jobid) or next(iter(self._functions.values()), None)
        if function is None:
            raise BadQueueName(f"no queue for {jobid!r}: there is no function yet, which @jobs.job adds")
        return function.queue

    def queue_names(self) -> Iterable[str]:
        """Return the queues of the functions, each once, in the order of the functions."""
        return list(dict.fromkeys(each.queue for each in self._functions.values()))

    def timeout(self, queue_name: str) -> float | None:
        """Return the longest timeout in seconds that a function of the queue has; None if none has one."""
        own = [each.own.get("timeout") for each in self._functions.values() if each.queue == queue_name]
        return max((float(seconds) for seconds in own if seconds is not None), default=None)

    def limits(self) -> Mapping[str, Limit]:
        """Return the limits of queues."""
        return self._limits

    def settings_for(self, run: Run, settings: Settings) -> Settings:
        """Return `settings`, overridden by the options of the function, and these by the options of the job."""
        function = self._find(run.jobid)
        given = {**(function.own if function else {}), **parse_options(run.options)}
        on_error, on_timeout, retries = (given.get(name) for name in ("on-error", "on-timeout", "retries"))
        return go_on_as_cron(
            run,
            override(settings, format_options(given)),
            None if on_error is None else str(on_error),
            None if on_timeout is None else str(on_timeout),
            None if retries is None else int(retries),
        )

    def work(self, jobid: str, data: Any = None) -> Any:
        """Call the function of `jobid`; of an async one return the coroutine. Without one raise `CommandFailed`."""
        function = self._find(jobid)
        if function is None:
            raise CommandFailed(f"no function for the job {jobid!r}: {list_functions(self._functions)}")
        given = {"jobid": jobid, "data": data}
        return function.call(**{name: given[name] for name in function.takes})

    def is_async(self, jobid: str) -> bool:
        """Tell whether the function of `jobid` is a coroutine function."""
        function = self._find(jobid)
        return function is not None and inspect.iscoroutinefunction(function.call)

    def name_functions(self) -> dict[str, str]:
        """Return the queue of each function, by its job id."""
        return {jobid: each.queue for jobid, each in self._functions.items()}

    def has_function(self, jobid: str) -> bool:
        """Tell whether there is a function for `jobid`."""
        return self._find(jobid) is not None

    def _find(self, jobid: str) -> _Function | None:
        return self._functions.get(jobid) or self._functions.get(jobid.partition(":")[0])


def find_parameters(function: object) -> tuple[str, ...]:
    """Return which of `GIVEN` the function takes. Raise `TypeError` for one that needs anything else."""
    if isinstance(function, type) or not callable(function):
        raise TypeError(f"a job is a function, not {function!r:.80}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{_name(function)} has a yield: nothing of it would run when it is called")
    taken = []
    for name, parameter in inspect.signature(function).parameters.items():
        is_filled = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if name in GIVEN and not is_filled and parameter.kind is not parameter.POSITIONAL_ONLY:
            taken.append(name)
        elif not is_filled and parameter.default is parameter.empty:
            allowed = "a job's function may have (), (jobid), (data) or (jobid, data)"
            raise TypeError(f"{_name(function)} has the parameter {name!r} without a default: {allowed}")
    return tuple(taken)


def _name(function: object) -> str:
    return f"{getattr(function, '__qualname__', type(function).__name__)}()"


def _find_queue(code: object) -> str:
    if not isinstance(code, str) or not code or ":" in code:
        raise BadQueueName(f"bad queue {code!r:.80}: a name such as 'A' is needed, without colons")
    return check_queue_name(_STOCK.name_queue(code))


def _check_own(jobid: str, options: JobOptions) -> None:
    """Raise `BadConfig` if an option is given that counts only where it is stored with a job."""
    for name in options:
        if name.replace("_", "-") not in _OF_WORKERS:
            raise BadConfig(f"job {jobid!r}: it has no schedule here, so {name!r} is to be set with each of its jobs")


def _list_own(options: Mapping[str, Value | None]) -> dict[str, Value]:
    return {name: value for name, value in options.items() if value is not None and name in _OF_WORKERS}
