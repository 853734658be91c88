"""The facade that users import: it wires a worker class, a store and the two loops.

Redis' own clock decides what is due. Workers and dispatchers meet only in Redis; any of them may die at any
instant. ``docs/architecture.rst`` shows the life of a job.
"""

import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from os import PathLike, fspath
from typing import Any, Self, Unpack

import redis

from redbike.config.options import JobOptions, read_changes
from redbike.config.ping_urls import check_dispatcher_url
from redbike.config.settings import Settings, find_prefix, find_server, load
from redbike.connection.check import check_server, describe_address
from redbike.connection.client import aim_at, connect
from redbike.control.repair import Repair
from redbike.control.setter import Setter
from redbike.control.sync.syncer import Syncer
from redbike.dispatcher.dispatcher import Dispatcher
from redbike.errors import BadConfig, BadSchedule
from redbike.facade.control import Steering
from redbike.facade.loops import Running, refuse_when_closed
from redbike.facade.queries import Looking
from redbike.facade.results import Results
from redbike.facade.sync import Syncing
from redbike.importers.rows import Source, get_name
from redbike.loop.lifecycle import Stay
from redbike.loop.naming import NoWorker
from redbike.loop.worker_class import WorkerClass, check_worker
from redbike.schedule.objects.instants import InstantLike, ZoneLike, read_instant, read_zone
from redbike.schedule.objects.schedules import ScheduleLike
from redbike.store import rights
from redbike.store.inspection.fsck import fsck
from redbike.store.log import check_who
from redbike.worker.loader import load_worker

log = logging.getLogger("redbike")

DEFAULTS = Settings()


@refuse_when_closed
class Redbike(Looking, Steering, Syncing, Running):
    """Schedules for the jobs under one prefix of one Redis server.

    `worker` is an instance of a worker class (see `RoundRobin`), `redis_config` a URL, a dict of redis-py's arguments
    or a client. None is what ``REDBIKE_URL`` or ``REDIS_URL`` in the environment names, or else the embedded server in
    ``.redbike/``. The default of `prefix` is ``REDBIKE_PREFIX``, or else ``redbike``. The other arguments are the
    settings of the same names, see `redbike.Settings`; `from_config` reads them. The log names `noted_as`, such as
    ``user@host``, for what this changes, but not for what its loops do. Raises `BadConfig` for what cannot be used,
    `ServerError` for a server that cannot.
    """

    def __init__(
        self,
        worker: WorkerClass,
        prefix: str | None = None,
        redis_config: "str | dict[str, Any] | redis.Redis | None" = None,
        timefile: "str | PathLike[str] | None" = None,
        default_timeout: float = DEFAULTS.default_timeout,
        *,
        group: str | None = DEFAULTS.group,
        timezone: str = DEFAULTS.timezone,
        catchup: str = DEFAULTS.catchup,
        catchup_limit: int = DEFAULTS.catchup_limit,
        on_error: str | None = DEFAULTS.on_error,
        retries: int | None = DEFAULTS.retries,
        backoff: float = DEFAULTS.backoff,
        on_timeout: str | None = DEFAULTS.on_timeout,
        on_lost: str = DEFAULTS.on_lost,
        max_losses: int = DEFAULTS.max_losses,
        stop_after: int = DEFAULTS.stop_after,
        grace: float = DEFAULTS.grace,
        overlap: str = DEFAULTS.overlap,
        forget_after: float | str = DEFAULTS.forget_after,
        history: int = DEFAULTS.history,
        ping_url: str | None = DEFAULTS.ping_url,
        stop_within: float = DEFAULTS.stop_within,
        failures_limit: int = DEFAULTS.failures_limit,
        log_level: str = DEFAULTS.log_level,
        log_format: str = DEFAULTS.log_format,
        noted_as: str | None = None,
    ) -> None:
        settings = Settings(
            prefix=find_prefix(os.environ) if prefix is None else prefix,
            timefile=None if timefile is None else fspath(timefile),
            default_timeout=default_timeout,
            group=group,
            timezone=timezone,
            catchup=catchup,
            catchup_limit=catchup_limit,
            on_error=on_error,
            retries=retries,
            backoff=backoff,
            on_timeout=on_timeout,
            on_lost=on_lost,
            max_losses=max_losses,
            stop_after=stop_after,
            grace=grace,
            overlap=overlap,
            forget_after=forget_after,
            history=history,
            ping_url=ping_url,
            stop_within=stop_within,
            failures_limit=failures_limit,
            log_level=log_level,
            log_format=log_format,
        )
        # Before a server is started for it.
        check_worker(worker)
        check_who(noted_as)
        server = find_server(os.environ) if redis_config is None else redis_config
        self._begin(worker, settings, connect(server), durable=True, noted_as=noted_as, is_own=True)

    @classmethod
    def from_config(cls, path: "str | PathLike[str] | None" = None, worker: WorkerClass | None = None) -> Self:
        """A Redbike with the settings and the server of the command line.

        They are those of the config file at `path`, or else of ``.redbike.conf`` in the current folder if it is there;
        the environment overrides it: ``REDBIKE_URL``, ``REDIS_URL``, and ``REDBIKE_PREFIX`` and so on for settings.
        Without `worker`, that is the one of the config; without any it sets jobs and looks, but works none. Raises
        `BadConfig` for what cannot be used, `ServerError` for a server that cannot.
        """
        config = load(None if path is None else fspath(path), os.environ)
        for warning in config.warnings:
            log.warning("%s", warning)
        if worker is None:
            spec = config.settings.worker
            worker = load_worker(spec, config.folder) if spec else NoWorker()
        check_worker(worker)
        bike = cls.__new__(cls)
        bike._begin(worker, config.settings, connect(config.redis), durable=True, noted_as=None, is_own=True)
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

        `close` leaves this client open. Without `durable` it does not matter whether the server keeps anything on disk.
        """
        check_worker(worker)
        bike = cls.__new__(cls)
        bike._begin(worker, settings, client, durable, check_who(noted_as), is_own=False)
        return bike

    def _begin(
        self,
        worker: WorkerClass,
        settings: Settings,
        client: "redis.Redis",
        durable: bool,
        noted_as: str | None,
        is_own: bool,
    ) -> None:
        self._given_prefix = settings.prefix
        self.settings = settings = replace(settings, prefix=aim_at(client, settings.prefix))
        self.worker = worker
        self.client = client
        for warning in check_server(client, durable):
            log.warning("%s", warning)
        self._is_own = is_own
        self.store = self._make_store()
        # Not for the loops: what a dispatcher or a worker changes is no change by a person.
        self._noted = self.store.noted_as(noted_as)
        self._setter = Setter(self._noted, settings)
        self._syncer = Syncer(self._noted, settings)
        self._control_at_start = self.store.read_control()
        self._prepare()

    @property
    def prefix(self) -> str:
        """The prefix of all keys."""
        return self.settings.prefix

    @property
    def timefile(self) -> str | None:
        """The path of the timefile; None without one."""
        return self.settings.timefile

    @property
    def redis(self) -> "redis.Redis":
        """The client of the server."""
        return self.client

    # Entering and removing jobs

    def set(
        self, jobid: str, schedule: ScheduleLike | None, after: InstantLike | None = None, tz: ZoneLike | None = None,
        **options: Unpack[JobOptions]
    ) -> bool:  # fmt: skip
        """Enter `jobid` with `schedule`; None unsets it. False, and a line of log, for a bad schedule.

        `schedule` is a text, an aware datetime, a timedelta, a rule of dateutil or a croniter. `after` is from when
        occurrences count: epoch seconds, or an aware datetime. `tz` is the zone of floating times, also of a naive
        datetime or rule. Of `options` and data, the job keeps those that are not given; None takes one back. Raises
        `BadJobId`, `BadConfig` for a bad zone, option or data, and `TypeError` for anything that is no schedule.
        """
        try:
            self._setter.set(jobid, schedule, read_instant("after", after), read_zone(tz), read_changes(options))
        except BadSchedule as error:
            log.error("%s: %s", jobid, error)
            return False
        return True

    def enter(
        self, jobid: str, schedule: ScheduleLike | None, after: InstantLike | None = None, tz: ZoneLike | None = None,
        **options: Unpack[JobOptions]
    ) -> bool:  # fmt: skip
        """`set`, but a bad schedule raises `BadSchedule`; whether the job had a run to come."""
        return self._setter.enter(jobid, schedule, read_instant("after", after), read_zone(tz), read_changes(options))

    def set_many(
        self, pairs: Iterable[tuple[str, ScheduleLike | None]],
        after: InstantLike | None = None, tz: ZoneLike | None = None
    ) -> Results[tuple[str, bool | ValueError]]:  # fmt: skip
        """`set` for a stream of (job id, schedule) of any length, a batch in each round trip; None unsets one by one.

        It happens as the results are read: (job id, True), or in place of True the `BadSchedule` or `BadJobId` because
        of which it was not set. An unchanged job that has failed for good stays so; `set` lets it run again, and so
        does `run`. Raises `TypeError` for what is no pair or no schedule; then no job of its batch, up to 500, is set.
        """
        return Results("set_many()", self._setter.set_many(pairs, read_instant("after", after), read_zone(tz)))

    def unset(self, jobid: str) -> bool:
        """Take `jobid` out of the rotation; a run in flight completes. False if there is no such job."""
        return self._setter.unset(jobid)

    # Keeping

    def fsck(self) -> Iterator[str]:
        """Whatever is wrong with the jobs, a line for each thing; nothing is changed."""
        return fsck(self.store)

    def repair(self) -> Iterator[tuple[str, bool]]:
        """Put right what `fsck` finds: for each job a line with what was done, and whether it is well now.

        Dispatchers and workers may go on meanwhile. It happens as the lines are asked for.
        """
        return Repair(self._noted, self._setter.compute_repair_start(), self._setter.compute_first_due).run()

    def acknowledge(self) -> list[str]:
        """Return a line for each time that the server went back, and do not tell it any more: somebody knows of it."""
        found = self._noted.rewinds.list_all()
        self._noted.rewinds.acknowledge(found)
        return [rewind.describe() for rewind in found]

    # Running

    def dispatch(
        self, after: InstantLike | None = None, csvfilename: Source | None = None, ping_url: str | None = None
    ) -> None:
        """Dispatch until halted or stopped; the rows of `csvfilename` are set first, a bad one is logged.

        The first pass moves what is due by `after`. `ping_url` is called once a minute for as long as the dispatcher
        goes round. Raises `BadConfig` for a bad one.
        """
        with self._loops.run() as stay:
            self._dispatch(stay, after, csvfilename, ping_url)

    def _dispatch(
        self, stay: Stay, after: InstantLike | None, csvfilename: Source | None, ping_url: str | None
    ) -> None:
        since = read_instant("after", after)
        if ping_url is not None:
            check_dispatcher_url(ping_url)
        if stay.is_stopped:
            return
        self._check_rights("dispatcher", rights.DISPATCHER)
        with self._open_store() as store:
            dispatcher = Dispatcher(store, self.settings, ping_url)
            stay.attach(dispatcher.loop.stopping)
            self._introduce_dispatcher()
            if csvfilename is not None:
                for line, jobid, result in self.load(csvfilename, since, mark_bad=True):
                    if result is not True:
                        log.error("%s line %d: %s: %s", get_name(csvfilename), line, jobid, result)
            dispatcher.dispatch(since)

    def _introduce_dispatcher(self) -> None:
        log.info("dispatches the prefix %r, on %s", self.prefix, describe_address(self.client))
        if self.prefix != self._given_prefix:
            log.info("in a cluster all keys must be in one slot: the prefix is %r", self.prefix)

    # Control

    def control(self, signal: str) -> None:
        """Give ``HALT`` to every dispatcher and worker that runs now. Raises `BadConfig` for another signal."""
        if not isinstance(signal, str) or signal.upper() != "HALT":
            raise BadConfig(f"bad signal {signal!r}: HALT is the only one")
        self._noted.halt()

    def clear_control(self) -> None:
        """Take back a HALT for those that have not seen it yet."""
        self.store.clear_control()

    def is_halted(self) -> bool:
        """Whether a HALT was given after this object was made."""
        control = self.store.read_control()
        return bool(control) and control != self._control_at_start

    def flush(self) -> int:
        """Delete all keys under the prefix and no others; how many there were."""
        return self.store.upkeep.flush()
