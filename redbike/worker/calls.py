"""The functions of `redbike.worker.functions.Jobs` for a program, which calls them, or sets and enqueues their jobs.

The `Redbike` or `AsyncRedbike` that was made with the `Jobs` sets the jobs; within a job, the one that runs it does.
"""

import asyncio
import hashlib
import inspect
import json
import time
import weakref
from collections.abc import Callable, Container, Coroutine, Generator
from datetime import datetime, timedelta
from functools import partial, update_wrapper
from operator import methodcaller
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, Self, TypeVar, Unpack, cast
from uuid import UUID

from redbike.config.definitions import OPTIONS
from redbike.config.options import DATA, JobOptions, format_data, read_changes
from redbike.errors import BadJobId, RedbikeError
from redbike.loop.requests import GROUP_OF
from redbike.schedule.moments import DurationLike
from redbike.schedule.objects import ScheduleLike
from redbike.store.names import check_jobid, find_function
from redbike.worker.current import current_run, is_in_loop, is_in_run
from redbike.worker.keyword_schedules import make_schedule
from redbike.worker.signatures import CallSignature

if TYPE_CHECKING:  # only type checkers have the package
    import typing_extensions

    from redbike.store.history import PastRun

    W = typing_extensions.TypeVar("W", default=PastRun)
else:
    W = TypeVar("W")
P = ParamSpec("P")
R = TypeVar("R", covariant=True)

JobKey = str | int | UUID
"""What names one job of a function: the part of its id behind that of the function, and a colon."""

_DIGITS = 20  # of the digest that stands for arguments


class AnyRedbike(Protocol):
    """A `Redbike` or an `AsyncRedbike`."""

    @property
    def is_closed(self) -> bool:
        """Tell whether it was closed."""

    def _shares_jobs(self, other: Any) -> bool:
        """Tell whether another `Redbike` has the same jobs."""

    @property
    def set(self) -> Callable[..., Any]:
        """The method ``set``; a coroutine function for an `AsyncRedbike`."""

    @property
    def enter(self) -> Callable[..., Any]:
        """The method ``enter``."""

    @property
    def wait(self) -> Callable[..., Any]:
        """The method ``wait``."""


class CallOptions(JobOptions, total=False):
    """What `JobFunction.options` takes: the options of a job, and these.

    `key` names the job, `after` or `at` says when it runs, `bike` which `Redbike` or `AsyncRedbike` sets it.
    """

    key: JobKey | None
    after: float | str | timedelta | None
    at: float | str | datetime | None
    bike: AnyRedbike | None


_OF_ENQUEUE = ("key", "after", "at")
_NOT_OF_JOBS = (*_OF_ENQUEUE, "bike")
# What a call does not give is reset: an option of an earlier call, or of an earlier version of the program.
_DEFAULTS = dict.fromkeys(name.replace("-", "_") for name in OPTIONS if name != GROUP_OF)

# Seconds by a clock that nobody sets. Where the system has such a clock, it also runs while the host sleeps.
read_clock = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class JobHandle(str, Generic[W]):
    """The id of a job that was set. With an `AsyncRedbike`, await it in the same event loop: then the job is stored.

    For type checkers: if the handle was awaited, `wait` must be awaited, too; if not, `wait` returns the run.
    """

    _stored: "asyncio.Future[Any] | None" = None
    _bike: "AnyRedbike | None" = None
    asked_at: float | None = None  # `read_clock` just before its run was requested; None if unknown

    def __reduce__(self) -> tuple[type["JobHandle"], tuple[str]]:
        return JobHandle, (str(self),)  # a Redbike cannot be pickled

    def __copy__(self, memo: object = None) -> Self:
        return self  # as for a text

    __deepcopy__ = __copy__

    def wait(self, timeout: DurationLike | None = None) -> W:
        """Wait until the run of the job has ended, and return it, a `PastRun`; see `Redbike.wait`.

        Raise `NoSuchJob` if the job never runs because it was withdrawn or cancelled, or has expired. With an
        `AsyncRedbike`, await this call.
        """
        if self._bike is None:
            raise RedbikeError(f"nobody has set {str(self)!r} here: Redbike.wait() waits for any job")
        return cast(W, self._bike.wait(self, timeout) if self._stored is None else self._wait(self._bike, timeout))

    async def _wait(self, bike: "AnyRedbike", timeout: DurationLike | None) -> Any:
        # In another loop, await a call that does nothing: it follows the call of the same name that stores the job.
        await (self if self._is_of_this_loop() else cast(Any, bike)._start(bool, f"storing the job {str(self)!r}"))
        return await bike.wait(self, timeout)

    def _is_of_this_loop(self) -> bool:
        stored = cast("asyncio.Future[Any]", self._stored)
        return stored.done() or stored.get_loop() is asyncio.get_running_loop()

    def __await__(self) -> "Generator[Any, None, JobHandle[Coroutine[Any, Any, PastRun]]]":
        if self._stored is not None:
            if not self._is_of_this_loop():
                raise RedbikeError(f"{str(self)!r} is set in another event loop: await it there, or wait() for its run")
            yield from asyncio.shield(self._stored).__await__()
        return cast("JobHandle[Coroutine[Any, Any, PastRun]]", self)


class Bikes:
    """The Redbikes that were made with one `Jobs`, as long as the program keeps them."""

    def __init__(self) -> None:
        self._all: list[weakref.ref[AnyRedbike]] = []
        self.find_traceparent: Callable[[], str | None] | None = None  # that of the current span, if jobs are traced

    def add(self, bike: AnyRedbike) -> None:
        """Note a Redbike that was made. One that is noted already becomes the last one."""
        self._all = [each for each in self._all if each() not in (None, bike)]
        self._all.append(weakref.ref(bike))

    def find(self, name: str) -> AnyRedbike:
        """Return the Redbike that sets jobs of the function `name`: in an event loop an `AsyncRedbike`, if one exists.

        Raise `RedbikeError` if there is none, or if there are several for different jobs.
        """
        found = [bike for each in self._all if (bike := each()) is not None]
        if is_in_run() and any(bike._shares_jobs(current_run().bike) for bike in found):
            return cast(AnyRedbike, current_run().bike)
        opened = [bike for bike in found if not bike.is_closed]
        awaited = [bike for bike in opened if inspect.iscoroutinefunction(bike.set)]
        chosen = [bike for bike in opened if bike not in awaited]
        if is_in_loop():
            chosen = awaited or chosen
        elif awaited and not chosen:
            raise RedbikeError(f"{name} has an AsyncRedbike: set its jobs in a coroutine, with await")
        if not chosen:
            why = "it is closed, or nothing keeps it: bike = Redbike(jobs) does"
            raise RedbikeError(f"no Redbike was made with the Jobs of {name}, or {why}")
        if not all(bike._shares_jobs(chosen[-1]) for bike in chosen):
            raise RedbikeError(f"several Redbikes were made with the Jobs of {name}: say which, by options(bike=…)")
        return chosen[-1]


class JobFunction(Generic[P, R]):
    """A function that `Jobs.job` has decorated. Calling it calls the function at once, without any job.

    Its other methods set jobs, for workers to run. They take the arguments of the function, except ``jobid``, which
    the worker passes. Type checkers do not know this, so a typed program reads ``current_run().base``. The arguments
    must be JSON. They become the job's data: an object of them by name, or the value of the parameter ``data``.
    """

    def __init__(
        self,
        function: Callable[P, R],
        jobid: str,
        signature: CallSignature,
        bikes: Bikes,
        functions: Container[str],
        options: CallOptions | None = None,
    ) -> None:
        update_wrapper(self, function)
        self._function, self._jobid, self._signature, self._bikes = function, jobid, signature, bikes
        self._functions = functions  # the ids of all functions of the same `Jobs`
        self._options: CallOptions = {} if options is None else options

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<job {self._jobid!r}: {self._signature}>"

    def __reduce__(self) -> str:
        return self._signature.name  # it is pickled as functions are: by its name

    def jobid(self, key: JobKey) -> str:
        """Return the id of the job that `key` names: ``remind:anna`` of ``remind``.

        Raise `TypeError` for a bad key, and `BadJobId` for an id that is bad or of another function: ``remind:boss``.
        """
        if isinstance(key, bool) or not isinstance(key, JobKey):
            raise TypeError(f"bad key {key!r:.80} of a job of {self._signature.name}: a text, number or UUID is needed")
        text = str.__str__(key) if isinstance(key, str) else int.__repr__(key) if isinstance(key, int) else key
        jobid = check_jobid(f"{self._jobid}:{text}")
        if (taker := find_function(jobid, self._functions)) != self._jobid:
            name = self._signature.name
            raise BadJobId(f"bad key {key!r:.80} of a job of {name}: {jobid!r} is a job of the function {taker!r}")
        return jobid

    def options(self, **options: Unpack[CallOptions]) -> "JobFunction[P, R]":
        """Return the same function, whose jobs are set with these options.

        `enqueue` runs the job `after` a time from now, by the server's clock (seconds, a duration such as ``"30s"``, or
        a timedelta; 0 is at once), or `at` an instant (epoch seconds, ISO 8601, or an aware datetime). `key` names the
        job. `bike` is the `Redbike` or `AsyncRedbike` that sets it. The others are those of `Redbike.set`. Raise
        `BadConfig` and `BadSchedule` for bad values; `TypeError` for ``data``, an unknown option, `after` with `at`.
        """
        if DATA in options:
            raise TypeError(f"the data of a job of {self._signature.name} are its arguments")
        known = cast(CallOptions, {**self._options, **options})
        if (key := known.get("key")) is not None:
            self.jobid(key)
        bike = known.get("bike")
        if bike is not None and (isinstance(bike, type) or not callable(getattr(bike, "enter", None))):
            raise TypeError(f"bad bike {bike!r:.80}: a Redbike or an AsyncRedbike is needed")
        read_changes(_leave_out(known))
        _make_one_off(self._jobid, known)
        return type(self)(self._function, self._jobid, self._signature, self._bikes, self._functions, known)

    def set(self, key: JobKey, schedule: ScheduleLike, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        """Set the job that `key` names: the function is called with these arguments whenever `schedule` says so.

        The job loses all options that are not given here, except its group.
        Raise `TypeError` for arguments that do not fit, `BadConfig` for arguments that are no JSON, `BadSchedule`,
        `BadJobId`, and `RedbikeError` without a `Redbike`.
        """
        if misplaced := [name for name in _OF_ENQUEUE if self._options.get(name) is not None]:
            raise TypeError(f"{', '.join(misplaced)}: only enqueue() takes that; set() takes a key and a schedule")
        data = self._signature.bind(args, kwargs)
        return self._store("enter", self.jobid(key), schedule, data)

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        """Run the function once with these arguments, soon; `options` may name another time, and the job.

        Without a key, a digest of the arguments names the job; arguments that equal their defaults do not count. So
        an equal call adds no second job while the job waits; while it runs, the call makes it run once more. To run
        the function for each call, give each call its own `key`. Raise as `set` does.
        """
        data = self._signature.bind(args, kwargs)
        key = self._options.get("key")
        jobid = self.jobid(_digest(self._signature.drop_defaults(data)) if key is None else key)
        return self._store("set", jobid, _make_one_off(jobid, self._options) or "NOW", data)

    def _store(self, method: str, jobid: str, schedule: ScheduleLike, data: Any) -> JobHandle:
        format_data(data)  # checked before it is sent: the caller gets the error
        bike = self._options.get("bike") or self._bikes.find(self._signature.name)
        options = _DEFAULTS | _leave_out(self._options)
        if self._bikes.find_traceparent and "traceparent" not in self._options:
            options["traceparent"] = self._bikes.find_traceparent()
        handle: JobHandle = JobHandle(jobid)
        handle._bike = bike
        handle.asked_at = read_clock() if method == "set" else None
        store = methodcaller(method, jobid, schedule, **options, data=data)
        if inspect.iscoroutinefunction(getattr(bike, method)):
            handle._stored = cast(Any, bike)._start(store, f"storing the job {jobid!r}")
        else:
            store(bike)
        return handle


class AsyncJobFunction(JobFunction[P, R]):
    """A coroutine function that was decorated: `inspect` also takes it for a coroutine function."""

    async def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Any:  # type: ignore[override]
        return await cast(Any, self._function(*args, **kwargs))


def _leave_out(options: CallOptions) -> dict[str, Any]:
    """Return the options of a job among `options`."""
    return {name: value for name, value in options.items() if name not in _NOT_OF_JOBS}


def _make_one_off(jobid: str, options: CallOptions) -> str | None:
    """Return the schedule that `after` or `at` means; None without them."""
    return make_schedule(jobid, None, after=options.get("after"), at=options.get("at"))


def _digest(data: Any) -> str:
    text = json.dumps(json.loads(format_data(data) or "null"), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
