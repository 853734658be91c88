"""A worker made of functions: `Jobs` keeps them, with the schedules and options of their jobs, and calls them.

::

    from redbike import Jobs

    jobs = Jobs()

    @jobs.job("backup", every="1h", timeout="60s")
    def backup() -> None: ...

    @jobs.job("remind")
    def remind(jobid: str, data: dict[str, str]) -> None: ...

``redbike up module:jobs`` runs these jobs.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ParamSpec, TypeVar, Unpack, cast

from redbike.config.definitions import Value
from redbike.config.options import COLUMNS, JobOptions, format_options, parse_options, read_changes
from redbike.config.queue_limits import Limit
from redbike.config.settings import Settings, override
from redbike.errors import BadConfig, BadJobId, BadQueueName, CommandFailed
from redbike.loop.naming import list_functions
from redbike.loop.policies import go_on_as_cron
from redbike.loop.queues import KEEP_LIMITS, read_limits
from redbike.loop.retries import ErrorRules, read_rules
from redbike.loop.worker_class import Middleware, RoundRobin, check_hooks, read_concurrency
from redbike.schedule.moments import ZoneLike
from redbike.schedule.objects import CronLike, RuleLike, ScheduleLike
from redbike.store.every_host import is_base
from redbike.store.names import check_jobid, check_queue_name, find_function
from redbike.store.run import Run
from redbike.worker.calls import AnyRedbike, AsyncJobFunction, Bikes, CallOptions, JobFunction
from redbike.worker.keyword_schedules import make_schedule
from redbike.worker.signatures import CallSignature, read_signature

P = ParamSpec("P")
R = TypeVar("R")

# The options that a worker reads from the function. The others count only if they are stored with a job.
_OF_WORKERS = (
    *("timeout", "on-timeout", "on-error", "retries", "backoff", "max-backoff", "jitter"),
    *("stop-after", "keep-result", "ping-url"),
)
# Those that are stored with each job that a method of the function sets. The rest are about the times of a schedule.
_OF_CALLS = (
    *("on-lost", "expires", "start-within", "finish-within", "overlap", "forget-after"),
    *("history", "output", "tags", "owner", "note"),
)
_STOCK = RoundRobin("A")  # it names queues


@dataclass(frozen=True, slots=True)
class _Function:
    call: Callable[..., Any]
    signature: CallSignature
    queue: str
    schedule: str | None
    options: JobOptions
    own: Mapping[str, Value]  # the options by which a worker runs each of its jobs
    rules: ErrorRules | None


class Jobs:
    """A worker made of functions, which `job` adds. It runs `concurrency` jobs at once in a process.

    A job id names its function: as a whole, or by its part before a ``:``. So ``remind`` works the jobs ``remind`` and
    ``remind:anna``. Of several functions, the one with the longest id works the job. Jobs wait in the queue that the
    stock workers give to the name of their function: the queue of ``remind`` and ``remind:anna`` is ``work-remind``.
    All these queues are worked in turn. `limits` has limits by the names of queues, such as ``{"remind":
    Limit(rate="100/m")}``; None changes no limit. `startup`, `shutdown` and `middleware` are as in `WorkerClass`.

    After a failure or a timeout a recurring job is rescheduled, as with cron, unless an option or a setting says
    otherwise. The option ``retries`` says how often it is retried before that. Raise `BadConfig` for bad arguments.
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
        self.startup, self.shutdown = startup, shutdown
        # Read once, as it may be an iterator. A value that is no list raises an error below.
        is_list = isinstance(middleware, Iterable) and not isinstance(middleware, str)
        self.middleware = tuple(middleware) if is_list else middleware
        self._limits = limits
        self._functions: dict[str, _Function] = {}
        self._bikes = Bikes()
        read_concurrency(self)
        read_limits(self)
        check_hooks(self)
        if middleware is None:
            raise BadConfig(f"bad middleware of {type(self).__name__}: a list of functions is needed, not None")
        for each in self.middleware:
            # For `Tracing`, whose module is only loaded if a program uses it.
            if getattr(each, "gives_traceparent", None) is True:
                self._bikes.find_traceparent = cast(Any, each).traceparent

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
        retry_on: type[BaseException] | Sequence[type[BaseException]] | None = None,
        stop_on: type[BaseException] | Sequence[type[BaseException]] | None = None,
        **options: Unpack[JobOptions],
    ) -> Callable[[Callable[P, R]], JobFunction[P, R]]:
        """Add the decorated function. It may be ``async``, and can be called as before; see `JobFunction`.

        Give at most one schedule: `every` (seconds, a duration such as ``"1h"``, or a timedelta), `cron`, `rrule`,
        `at` (epoch seconds, ISO 8601, or an aware datetime), or as `schedule` any that `Redbike.set` takes. `tz` is the
        zone of its times; the default is the setting ``timezone``. Without a schedule, the function runs jobs that are
        set elsewhere. `queue` names another queue, as ``A`` for ``work-A``. `options` are those of `Redbike.set`. All
        but those about the times of a schedule also apply to the jobs that methods of the function set.

        Only errors of the types `retry_on` are retried, as often as the option ``retries`` says; None means all errors.
        An error of a type of `stop_on` stops its job at once. Give one exception type or a tuple of types. The function
        is called with those parameters that it has: ``jobid``, and ``data`` or the arguments that the data name.

        Raise `BadSchedule`, `BadJobId`, `BadQueueName`, `BadConfig` for a bad option or an id that is there already,
        and `TypeError` if it is no function, for parameters that a job cannot give, for several kinds of schedule,
        and for a schedule without the data that the function needs.
        """
        if callable(jobid):
            raise TypeError(f'@job is written @job("{getattr(jobid, "__name__", "backup")}"): it needs a job id')
        home, jobid = _find_queue(jobid, queue), str.__str__(jobid)  # an f-string has the name of an enum
        text = make_schedule(jobid, tz, every=every, cron=cron, rrule=rrule, at=at, schedule=schedule)
        own, options = _list_own(read_changes(options).options), _use_underscores(options)
        _check_own(jobid, options if text is None else {})
        rules = read_rules(retry_on, stop_on, f" of the job {jobid!r}")
        make = partial(_Function, queue=home, schedule=text, options=options, own=own, rules=rules)
        return partial(self._add, jobid, make)

    def _add(
        self, jobid: str, make: Callable[[Callable[..., Any], CallSignature], _Function], function: Callable[P, R]
    ) -> JobFunction[P, R]:
        """Add a function, perhaps one that has another job id already; return the function of this job id."""
        plain: Callable[P, R] = function._function if isinstance(function, JobFunction) else function
        signature = read_signature(plain)
        made = make(plain, signature)
        if jobid in self._functions:
            names = self._functions[jobid].signature.name, signature.name
            raise BadConfig(f"the job id {jobid!r} is given twice: to {names[0]}() and to {names[1]}()")
        if made.schedule is not None and (wrong := signature.check(made.options.get("data"))):
            raise TypeError(f"job {jobid!r} has a schedule, but not the data that it needs: {wrong}")
        self._functions[jobid] = made
        kind = AsyncJobFunction if signature.is_async else JobFunction
        return kind(plain, jobid, signature, self._bikes, self._functions, _list_of_calls(made.options))

    def schedules(self) -> list[tuple[str, str, JobOptions]]:
        """Return (job id, schedule, options) of each function with a schedule, in their order.

        Options and data that it does not have are None, so that setting the job resets them.
        """
        absent = _use_underscores(dict.fromkeys(COLUMNS[2:]))
        return [
            # Copies: changing them changes nothing here.
            (jobid, each.schedule, cast(JobOptions, {**absent, **deepcopy(each.options)}))
            for jobid, each in self._functions.items()
            if each.schedule
        ]

    def name_queue(self, code: str) -> str:
        """Return the full name of the queue that `code` names."""
        return _STOCK.name_queue(code)

    def queue_for(self, jobid: str) -> str:
        """Return the queue of a job. A job without a function waits in the first queue: its run raises an error."""
        function = self._find(jobid) or next(iter(self._functions.values()), None)
        if function is None:
            raise BadQueueName(f"no queue for {jobid!r}: no function was added yet, with @jobs.job")
        return function.queue

    def queue_names(self) -> Iterable[str]:
        """Return the queues of the functions, each once, in the order of the functions."""
        return list(dict.fromkeys(each.queue for each in self._functions.values()))

    def timeout(self, queue_name: str) -> float | None:
        """Return the longest timeout in seconds that a function of the queue has; None if none has one."""
        own = [each.own.get("timeout") for each in self._functions.values() if each.queue == queue_name]
        return max((float(seconds) for seconds in own if seconds is not None), default=None)

    def _find_timeout(self, queue_name: str, default: float) -> float | None:
        """Return `timeout`, where `default` counts for functions of the queue that have none of their own."""
        longest = self.timeout(queue_name)
        if longest is None or type(self).timeout is not Jobs.timeout:  # a subclass decides itself
            return longest
        lacks = any(each.own.get("timeout") is None for each in self._functions.values() if each.queue == queue_name)
        return max(longest, default) if lacks else longest

    def limits(self) -> Mapping[str, Limit]:
        """Return the limits of queues, or `KEEP_LIMITS` if the argument is None."""
        return KEEP_LIMITS if self._limits is None else self._limits

    def settings_for(self, run: Run, settings: Settings) -> Settings:
        """Return `settings`, overridden by the options of the function, and these by the options of the job."""
        function = self._find(run.base)
        given = {**(function.own if function else {}), **parse_options(run.options)}
        on_error, on_timeout, retries = (given.get(name) for name in ("on-error", "on-timeout", "retries"))
        return go_on_as_cron(
            run,
            override(settings, format_options(given)),
            None if on_error is None else str(on_error),
            None if on_timeout is None else str(on_timeout),
            None if retries is None else int(retries),
        )

    def note_bike(self, bike: AnyRedbike) -> None:
        """Note a `Redbike` or `AsyncRedbike` that was made with this: it sets the jobs of the functions."""
        self._bikes.add(bike)

    def _find_error_rules(self, jobid: str) -> ErrorRules | None:
        """Return which errors of the function of `jobid` are retried, and which end its job; None if it names none."""
        function = self._find(jobid)
        return function.rules if function else None

    def work(self, jobid: str, data: Any = None) -> Any:
        """Call the function of `jobid`; of an async one return the coroutine.

        Raise `CommandFailed` if there is none, or if the data do not fit it.
        """
        function = self._find(jobid)
        if function is None:
            raise CommandFailed(f"no function for the job {jobid!r}: {list_functions(self._functions)}")
        return function.call(**function.signature.make_arguments(jobid, data))

    def is_async(self, jobid: str) -> bool:
        """Tell whether the function of `jobid`, or its ``__call__``, is ``async def``.

        A plain function that returns the coroutine of another function is not. Its run awaits that coroutine.
        """
        function = self._find(jobid)
        return function is not None and function.signature.is_async

    def name_functions(self) -> dict[str, str]:
        """Return the queue of each function, by its job id."""
        return {jobid: each.queue for jobid, each in self._functions.items()}

    def has_function(self, jobid: str) -> bool:
        """Tell whether there is a function for `jobid`."""
        return self.find_function(jobid) is not None

    def find_function(self, jobid: str) -> str | None:
        """Return the id of the function for `jobid`; None if there is none."""
        return find_function(jobid, self._functions)

    def _find(self, jobid: str) -> _Function | None:
        return self._functions.get(self.find_function(jobid) or "")


def _find_queue(jobid: str, code: object) -> str:
    if is_base(check_jobid(jobid)):
        raise BadJobId(f"bad job id {jobid!r}: no job of a function runs on every host")
    if code is None:
        return _STOCK.queue_for(jobid)
    if not isinstance(code, str) or not code or ":" in code:
        raise BadQueueName(f"bad queue {code!r:.80}: a name such as 'A' is needed, without colons")
    return check_queue_name(_STOCK.name_queue(code))


def _check_own(jobid: str, options: JobOptions) -> None:
    """Raise `BadConfig` if an option is given that counts only where it is stored with a job."""
    for name in options:
        if name.replace("_", "-") not in _OF_WORKERS:
            raise BadConfig(f"job {jobid!r}: @job gives it no schedule, so give {name!r} when you set a job of it")


def _use_underscores(options: Mapping[str, Any]) -> JobOptions:
    """Return options by their names in Python."""
    return cast(JobOptions, {name.replace("-", "_"): value for name, value in options.items()})


def _list_of_calls(options: JobOptions) -> CallOptions:
    """Return the options that are stored with each job that a method of the function sets."""
    return cast(CallOptions, {name: value for name, value in options.items() if name.replace("_", "-") in _OF_CALLS})


def _list_own(options: Mapping[str, Value | None]) -> dict[str, Value]:
    return {name: value for name, value in options.items() if value is not None and name in _OF_WORKERS}
