"""The facade that users import: it wires a worker class, a store and the two loops.

Redis' own clock decides what is due. Workers and dispatchers meet only in Redis; any of them may die at any
instant. ``docs/architecture.rst`` shows the life of a job.
"""

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from importlib import import_module
from os import PathLike, fspath
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

import redis

from redbike.config.file import find_prefix, load
from redbike.config.settings import KeywordSettings, Settings
from redbike.connection.check import check_any, describe_address
from redbike.connection.client import aim_at, connect
from redbike.control.queues import QueueController
from redbike.control.sync.syncer import Syncer
from redbike.errors import RedbikeError
from redbike.facade.arguments import DEFAULTS, check_path, name_settings, read_server, refuse_unknown
from redbike.facade.control import Control, Maintenance
from redbike.facade.kept import Kept
from redbike.facade.loops import Awaited, Loops
from redbike.facade.override import Clock, Overridable, find_override
from redbike.facade.queries import Queries
from redbike.facade.schedules import Schedules, Sync
from redbike.loop.naming import NoWorker, open_store
from redbike.loop.worker_class import WorkerClass, check_worker
from redbike.store.log import check_who
from redbike.store.store import Store
from redbike.worker.current import is_in_run
from redbike.worker.loader import load_worker

log = logging.getLogger("redbike")

P = ParamSpec("P")
T = TypeVar("T")


def _of(
    part: str, method: Callable[Concatenate[Any, P], T], also_closed: bool = False
) -> Callable[Concatenate["Redbike", P], T]:
    """Return a method of `Redbike` that calls `method` of its attribute `part`. A closed one refuses the call."""

    @wraps(method)
    def call(self: "Redbike", /, *args: P.args, **kwargs: P.kwargs) -> T:
        if not also_closed:
            self._refuse_if_closed()
        return method(getattr(self, part), *args, **kwargs)

    return call


class Redbike(Overridable):
    """Schedules for the jobs under one prefix of one Redis server.

    `worker` is an instance of a worker class (see `RoundRobin`), `redis_config` a URL, a dict of redis-py's arguments
    or a client. None means the server of ``REDBIKE_URL`` or ``REDIS_URL`` in the environment, or else the embedded
    server in ``.redbike/``. The default of `prefix` is ``REDBIKE_PREFIX``, or else ``redbike``. The other arguments
    are settings, see `redbike.Settings`. Only `from_config` reads them from a file. The log names `noted_as`, such as
    ``user@host``, for each change by a call, but not for the work of the loops. Raises `BadConfig` for invalid
    settings, `ServerError` for a server that Redbike cannot use.
    """

    _state = (
        *("settings", "client", "store", "worker", "_given_prefix", "_is_own", "_noted", "_schedules", "_sync"),
        *("_queries", "_kept", "_control", "_maintenance", "_loops"),
    )

    @name_settings
    def __init__(
        self,
        worker: WorkerClass,
        prefix: str | None = None,
        redis_config: "str | dict[str, Any] | redis.Redis | None" = None,
        timefile: "str | PathLike[str] | None" = None,
        default_timeout: float = DEFAULTS.default_timeout,
        *,
        noted_as: str | None = None,
        **settings: Unpack[KeywordSettings],
    ) -> None:
        refuse_unknown(Redbike, settings)
        all_settings = Settings(
            prefix=find_prefix(os.environ) if prefix is None else prefix,
            timefile=None if timefile is None else fspath(timefile),
            default_timeout=default_timeout,
            **settings,
        )
        # Before a server is started for it.
        check_worker(worker)
        check_who(noted_as)
        server = read_server(prefix) if redis_config is None else redis_config
        self._prepare((worker, all_settings, server, noted_as), worker)

    @classmethod
    def from_config(cls, path: "str | PathLike[str] | None" = None, worker: WorkerClass | None = None) -> Self:
        """A Redbike with the settings and the server of the command line.

        The config file is `path`, or else ``.redbike.conf`` in the current folder, if there is one. The environment
        overrides this file: ``REDBIKE_URL`` or ``REDIS_URL``, and ``REDBIKE_PREFIX`` and so on for settings.
        Without `worker`, the one of the config is used. If that has none either, this Redbike sets and shows jobs, but
        runs none. Raises `BadConfig` for invalid settings, `ServerError` for a server that Redbike cannot use.
        """
        config = load(check_path(path), os.environ)
        for warning in config.warnings:
            log.warning("%s", warning)
        if worker is None:
            spec = config.settings.worker
            worker = load_worker(spec, config.folder) if spec else NoWorker()
        check_worker(worker)
        bike = cls.__new__(cls)
        bike._prepare((worker, config.settings, config.redis, None), worker)
        return bike

    @classmethod
    def from_settings(
        cls,
        worker: WorkerClass,
        settings: Settings,
        client: "redis.Redis",
        durable: bool = True,
        noted_as: str | None = None,
    ) -> Self:
        """A Redbike from settings that are read already, and a client that `redbike.connection.client.connect` made.

        `close` leaves this client open. With `durable`, a warning is logged if the server keeps nothing on disk.
        """
        check_worker(worker)
        bike = cls.__new__(cls)
        bike._begin(worker, settings, client, durable, check_who(noted_as), is_own=False)
        return bike

    def _assemble(self) -> None:
        worker, given, server, noted_as = self._make
        settings, client, clock = find_override(given, lambda: connect(server))
        self._begin(worker, settings, client, clock is None, noted_as, clock is None, clock)

    def _begin(
        self,
        worker: WorkerClass,
        settings: Settings,
        client: "redis.Redis",
        durable: bool,
        noted_as: str | None,
        is_own: bool,
        clock: Clock | None = None,
    ) -> None:
        self._given_prefix = settings.prefix
        self.settings = settings = replace(settings, prefix=aim_at(client, settings.prefix))
        self.client = client
        self._is_own = is_own
        store = open_store(client, settings, worker).follow(clock)
        for warning in check_any([shard.client for shard in store.shards], durable):
            log.warning("%s", warning)
        store.agreement.check()
        # The loops use `store`: the log notes changes by people, and not those by a dispatcher or a worker.
        self._compose(store, store.noted_as(noted_as), worker)
        if note := getattr(worker, "note_bike", None):
            note(self)

    def _compose(self, store: Store, noted: Store, worker: WorkerClass) -> None:
        """Make the parts. The methods of this object call theirs."""
        self.store, self._noted, self.worker = store, noted, worker
        settings = self.settings
        self._schedules = Schedules(noted, settings)
        self._sync = Sync(Syncer(noted, settings), settings)
        self._kept = Kept(self)
        self._queries = Queries(self, settings, lambda: self._loops.is_closing)
        self._control = Control(self, noted, self._schedules)
        self._maintenance = Maintenance(self, noted, self._schedules)
        self._loops = Loops(
            self, settings, self.client,
            is_own=self._is_own, given_prefix=self._given_prefix, load=self._sync.load,
            make_awaited=self._make_awaited
        )  # fmt: skip

    def _make_awaited(self) -> Awaited:
        # Imported here by its name: that module imports this one, and most programs do not need it.
        kind = import_module("redbike.facade.asynchronous").AsyncRedbike
        shared: Awaited = kind.__new__(kind)
        shared._prepare(lambda: self)
        shared._is_known = True  # `Jobs` know this Redbike, which sets their jobs outside of runs
        shared._open()
        return shared

    def __enter__(self) -> Self:
        self._refuse_if_closed()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refuse_if_closed(self) -> None:
        """Raise `RedbikeError` if this Redbike is closed. Its jobs that still run may call it."""
        if self._loops.is_closing and not is_in_run():
            raise RedbikeError("this Redbike is closed")

    @property
    def _queue_controller(self) -> QueueController:
        return QueueController(self._noted, self.worker, self.settings)

    @property
    def prefix(self) -> str:
        """The prefix of all keys."""
        return self.settings.prefix

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._loops.is_closing

    @property
    def place(self) -> object:
        """Address, database and prefix of its jobs. Two Redbikes with the same place have the same jobs."""
        database = self.client.connection_pool.connection_kwargs.get("db", 0)
        return describe_address(self.client), database, self.settings.prefix

    @property
    def timefile(self) -> str | None:
        """The path of the timefile; None without one."""
        return self.settings.timefile

    @property
    def redis(self) -> "redis.Redis":
        """The client of the server."""
        return self.client

    # Entering and removing jobs

    set = _of("_schedules", Schedules.set)
    enter = _of("_schedules", Schedules.enter)
    set_many = _of("_schedules", Schedules.set_many)
    group = _of("_schedules", Schedules.group)
    unset = _of("_schedules", Schedules.unset)
    unset_many = _of("_control", Control.unset_many)
    load = _of("_sync", Sync.load)
    sync_file = _of("_sync", Sync.sync_file)
    sync = _of("_sync", Sync.sync)

    # Looking

    tell = _of("_queries", Queries.tell)
    get_many = _of("_queries", Queries.get_many)
    is_working = _of("_queries", Queries.is_working)
    get_statuses = _of("_queries", Queries.get_statuses)
    get_schedules = _of("_queries", Queries.get_schedules)
    get_rows = _of("_queries", Queries.get_rows)
    jobs = _of("_queries", Queries.jobs)
    why = _of("_queries", Queries.why)
    runs = _of("_queries", Queries.runs)
    result = _of("_kept", Kept.result)
    output = _of("_kept", Kept.output)
    wait = _of("_queries", Queries.wait)
    events = _of("_queries", Queries.events)
    failures = _of("_queries", Queries.failures)
    queues = _of("_queries", Queries.queues)
    workers = _of("_queries", Queries.workers)
    health = _of("_queries", Queries.health)
    metrics = _of("_queries", Queries.metrics)
    agenda = _of("_queries", Queries.agenda)
    check = _of("_queries", Queries.check)
    log = _of("_queries", Queries.log)

    # Steering

    run = _of("_control", Control.run)
    run_failed = _of("_control", Control.run_failed)
    cancel = _of("_control", Control.cancel)
    backfill = _of("_control", Control.backfill)
    pause = _of("_control", Control.pause)
    resume = _of("_control", Control.resume)
    pause_queue = _of("_queue_controller", QueueController.pause_queue)
    resume_queue = _of("_queue_controller", QueueController.resume_queue)
    pause_all = _of("_queue_controller", QueueController.pause_all)
    resume_all = _of("_queue_controller", QueueController.resume_all)
    limit = _of("_queue_controller", QueueController.limit)
    find_queue = _of("_queue_controller", QueueController.find_queue)
    queue_limits = _of("_queue_controller", QueueController.queue_limits)

    # Keeping, running, control

    fsck = _of("_maintenance", Maintenance.fsck)
    repair = _of("_maintenance", Maintenance.repair)
    acknowledge = _of("_maintenance", Maintenance.acknowledge)
    dispatch = _of("_loops", Loops.dispatch)
    work = _of("_loops", Loops.work)
    dispatch_due = _of("_loops", Loops.dispatch_due)
    work_one = _of("_loops", Loops.work_one)
    stop = _of("_loops", Loops.stop, also_closed=True)
    close = _of("_loops", Loops.close, also_closed=True)
    control = _of("_control", Control.control)
    clear_control = _of("_control", Control.clear_control)
    is_halted = _of("_control", Control.is_halted)
    flush = _of("_maintenance", Maintenance.flush)
