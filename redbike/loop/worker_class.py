"""What a worker class is: it names queues, says which jobs wait in which, and does the jobs."""

import inspect
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, Protocol

from redbike.errors import BadConfig, BadJobId
from redbike.loop.retries import read_class_rules
from redbike.store.names import check_queue_name
from redbike.store.run import Run
from redbike.text.parsing import is_whole_number
from redbike.text.printable import quote

METHODS = ("queue_for", "queue_names", "work", "timeout")
_ARGUMENTS = {"queue_for": ("jobid",), "queue_names": (), "work": ("jobid",), "timeout": ("queue_name",)}
Manager = AbstractContextManager[Any] | AbstractAsyncContextManager[Any]
Middleware = Callable[[Run], Manager]  #: Makes the context manager of a run, sync or async, for `Jobs`.
MOST_AT_ONCE = 1000  # jobs in one process
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class WorkerClass(Protocol):
    """What an instance of a worker class must have. `work` may be a coroutine function.

    It may also have:

    - ``settings_for(run, settings) -> Settings``: Return the settings of one run, for example another ``on_error`` for
      some jobs, by ``run.base``. `run` is what `redbike.current_run` returns. The options of a job override them.
    - ``reads_options``: An attribute: true if ``settings_for`` itself applies ``run.options``.
    - ``ended(run, end)``: Get notified how a run has ended: `run` as above, `end` a `redbike.End`. It is called at
      least once for each run, in any thread, also for runs of lost workers. It may be a coroutine function.
    - ``concurrency``: An attribute: how many jobs to run at once in a process if ``--concurrency`` is not given.
    - ``limits() -> dict[str, Limit]``: Return limits by the names of queues; with stock workers, ``A`` is short
      for ``work-A``. A worker sets them in Redis when it starts, for all workers, unless an operator has set others. An
      empty dict removes what a class has set before. Without this method, limits stay as they are.
    - ``revision``: An attribute whose value changes whenever `timeout` returns another value than before. Without it,
      `timeout` is called again only when the names of queues change.
    - ``strict``: An attribute: True to take from a queue only while those that are named before it have no job.
    - ``startup()`` and ``shutdown()``: Open and close what the jobs of a worker share. They are called once for each
      call of `Redbike.work`: before the first job, and after the last one. They may be coroutine functions. A worker
      whose ``startup`` fails ends.
    - ``middleware``: An attribute: functions that get the run and return a context manager, sync or async. They are
      entered around `work`, the first one outermost, and see what it raises.
    - ``retry_on`` and ``stop_on``: Attributes: an exception type, or a tuple of some. Only errors of ``retry_on`` are
      retried; without it, all are. One of ``stop_on`` ends its job at once.
    - ``use_folder(folder)``: Look for files with relative names in this folder, which is that of the config file. It
      is called if the config file names the worker.
    - ``abort()``: End all jobs that run, within about two seconds: the process is about to end. It may be called in
      any thread, while `work` goes on in others. What `work` returns or raises after that changes nothing.
    - ``cancel(run)``: End this run soon: somebody has cancelled it. It is called once, in a thread of its own, while
      `work` goes on. What `work` raises after that is no failure. A `work` without this looks at
      ``current_run().cancelled`` from time to time.
    """

    def queue_for(self, jobid: str) -> str:
        """Return the name of the queue for `jobid`."""
        ...

    def queue_names(self) -> Iterable[str]:
        """Return the names of the queues to work, in turn. A name that comes twice is worked twice as often.

        It is called again at least once a second between jobs.
        """
        ...

    @property
    def work(self) -> Callable[..., Any]:
        """The method that does the job: ``work(jobid)``, or ``work(jobid, data)`` with the data of the job.

        The number returned with ``CONTINUE`` is a pause in seconds.
        """
        ...

    def timeout(self, queue_name: str) -> float | None:
        """Return the seconds that a job of the queue may take; None means the default."""
        ...


class Checkable:
    """A worker class that can be checked by ``redbike check``."""

    def examine(self) -> list[BadConfig]:
        """Return all problems with it as errors; the other methods raise only the first one."""
        return []

    def find_missing(self) -> list[str]:
        """Return a sentence for each thing that this host does not have."""
        return []


class RoundRobin:
    """Works queues in turn: ``RoundRobin("A:A:B")`` takes from A twice as often as from B while both have jobs.

    The part of a job id after its last ``:`` says its queue: ``backup:A`` waits in the queue named ``work-A``.
    """

    def __init__(self, initstring: str) -> None:
        names = initstring.split(":") if isinstance(initstring, str) else [""]
        if not all(names):
            raise BadConfig(f"bad queues {initstring!r}: names with colons between them, as in 'A:A:B', are needed")
        for name in names:
            check_queue_name(f"work-{name}")
        self.initstring = initstring

    def name_queue(self, code: str) -> str:
        """Return the name of the queue for `code`, which is a part of the init string or the end of a job id."""
        return "work-" + code  # an f-string has the name of an enum, not its text

    def queue_for(self, jobid: str) -> str:
        """Return the queue of `jobid`. Raise `BadJobId` for an id that ends in ``:``."""
        code = jobid.rpartition(":")[2]
        if not code:
            raise BadJobId(f"bad job id {jobid!r}: nothing after its last ':' names a queue")
        return self.name_queue(code)

    def queue_names(self) -> Iterable[str]:
        """Return the queues, in the order of the init string."""
        return [self.name_queue(code) for code in self.initstring.split(":")]

    def work(self, jobid: str, *args: Any, **kwargs: Any) -> Any:
        """Do the job. Your class overrides this by ``work(self, jobid)`` or ``work(self, jobid, data)``."""
        raise NotImplementedError(f"{type(self).__name__} has no work() of its own")

    def timeout(self, queue_name: str) -> float | None:
        """Return the seconds that a job may take; None means the default."""
        return None


class Priority(RoundRobin):
    """Works queues in strict order: ``Priority("high:low")`` takes from low only while high has no job."""

    strict = True


def find_queue(worker: Any, name: str, used: Collection[str]) -> str:
    """Return the full name of the queue that a user calls `name`: with stock workers, ``A`` is short for ``work-A``.

    `used` are the queues that were ever used. Raise `BadQueueName` for a name that no queue can have.
    """
    expand = getattr(worker, "name_queue", None)
    if name in used or not callable(expand) or name in worker.queue_names():
        return name
    full = check_queue_name(expand(name))
    # A queue that was never used may be named in full, too.
    return name if full not in used and name.startswith(expand("")) else full


def read_concurrency(worker: WorkerClass) -> int:
    """Return how many jobs of `worker` run at once by default. Raise `BadConfig` for an invalid number."""
    return check_concurrency(getattr(worker, "concurrency", 1), f" of {type(worker).__name__}")


def check_concurrency(number: Any, owner: str = "") -> int:
    """Return `number` if so many jobs may run at once in a process, else raise `BadConfig`, which names its `owner`."""
    if not is_whole_number(number) or not 1 <= number <= MOST_AT_ONCE:
        raise BadConfig(f"bad concurrency {quote(number)}{owner}: 1 to {MOST_AT_ONCE} are allowed")
    return number


def takes_data(worker: WorkerClass) -> bool:
    """Tell whether `work` has a second parameter, which is for the data of the job."""
    try:
        return _has_second(inspect.signature(worker.work))
    except (TypeError, ValueError):
        return False


def _has_second(signature: inspect.Signature) -> bool:
    parameters = [*signature.parameters.values()]
    return len(parameters) > 1 and parameters[1].kind in _POSITIONAL


def check_worker(worker: Any) -> None:
    """Raise `BadConfig` for anything but a worker: also for the class in place of an instance.

    A worker must have all methods of a worker class, and each must take its arguments.
    """
    if isinstance(worker, type):
        name = worker.__name__
        raise BadConfig(f"bad worker: {name} is a class, an instance is needed, such as {name}('A')")
    if missing := find_missing_method(worker):
        raise BadConfig(f"bad worker: {type(worker).__name__} has no method {missing}()")
    for name, arguments in _ARGUMENTS.items():
        if name == "work" and takes_data(worker):
            arguments = (*arguments, "data")
        if why := _find_mismatch(getattr(worker, name), arguments):
            called = f"{type(worker).__name__}.{name}({', '.join(arguments)})"
            raise BadConfig(f"bad worker: {called} is how Redbike calls it, but {why}")
    check_hooks(worker)
    read_class_rules(worker)


def check_hooks(worker: Any) -> None:
    """Raise `BadConfig` for a method that would never run, as it has a ``yield``, and for hooks that are unusable."""
    kind = type(worker).__name__
    for name in ("work", "ended", "cancel", "abort", "startup", "shutdown"):
        # A property may read a file.
        method = inspect.getattr_static(worker, name, None)
        function = getattr(method, "__func__", method)
        if has_yield(function):
            raise BadConfig(f"bad {name} of {kind}: {name}() has a yield: a call would run none of its code")
        if name in ("cancel", "abort") and is_coroutine_function(function):
            raise BadConfig(f"bad {name} of {kind}: {name}() is called in a thread, which awaits nothing: omit async")
    for name in ("startup", "shutdown"):
        method = getattr(worker, name, None)
        if method is not None and not callable(method):
            raise BadConfig(f"bad {name} of {kind}: {quote(method)} is no function")
    middleware = getattr(worker, "middleware", None)
    if middleware is None:
        return
    if isinstance(middleware, str) or not isinstance(middleware, Iterable):
        raise BadConfig(f"bad middleware of {kind}: a list of functions is needed, not {quote(middleware)}")
    for each in middleware:
        if not callable(each):
            raise BadConfig(f"bad middleware of {kind}: {quote(each)} is no function")
        if isinstance(each, type) and _is_to_be_made(each):
            raise BadConfig(f"bad middleware of {kind}: {each.__name__} is a class: {each.__name__}() is needed")


def has_yield(function: object) -> bool:
    """Tell whether a call of `function` runs none of its code, but makes a generator."""
    called = function, inspect.getattr_static(function, "__call__", None)
    return any(inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in called)


def is_coroutine_function(function: object) -> bool:
    """Tell whether `function`, or the object that is called as one, was written with ``async def``."""
    while isinstance(function, partial):
        function = function.func
    is_object = callable(function) and inspect.iscoroutinefunction(type(function).__call__)
    return is_object or inspect.iscoroutinefunction(function)


def check_result(name: str, result: object) -> None:
    """Raise `TypeError` if `result` is code that nobody runs: what `name` was to do is not done."""
    if isinstance(result, GeneratorType | AsyncGeneratorType | CoroutineType):
        if isinstance(result, CoroutineType):
            result.close()  # so that Python does not warn of it
        raise TypeError(f"{name}() returned the {type(result).__name__} of {result.__qualname__}(), which nobody runs")


def _is_to_be_made(middleware: type) -> bool:
    """Tell whether instances of this class are functions, and it is not itself a function that makes managers."""
    if not any("__call__" in vars(each) for each in middleware.__mro__):
        return False
    is_manager = issubclass(middleware, AbstractContextManager | AbstractAsyncContextManager)
    return not is_manager or bool(_find_mismatch(middleware, ("run",)))


def _find_mismatch(method: Callable[..., Any], arguments: tuple[str, ...]) -> str:
    """Return why `method` cannot be called with these arguments; "" if it can."""
    try:
        signature = inspect.signature(method)
    except (TypeError, ValueError):
        # Some callables in C do not tell.
        return ""
    try:
        signature.bind(*arguments)
    except TypeError as error:
        return str(error)
    return ""


def find_missing_method(worker: object) -> str | None:
    """Return the name of a method that a worker class must have, and that `worker` lacks; None if it has all."""
    return next((method for method in METHODS if not callable(getattr(worker, method, None))), None)
