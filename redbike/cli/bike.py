"""Open the facade, and find the embedded server, as the config of a command says."""

import logging
import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from redbike.cli.messages import complain
from redbike.config.file import Config
from redbike.connection.client import aim_at, connect
from redbike.connection.embedded import EmbeddedServer, name_end
from redbike.control.operator import name_operator
from redbike.errors import BadConfig, RedbikeError, ServerError, Unreachable
from redbike.facade.redbike import Redbike
from redbike.loop.loop import FIRST_PAUSE, LONGEST_PAUSE
from redbike.loop.naming import NoWorker, open_store
from redbike.loop.worker_class import RoundRobin
from redbike.process import watchdog
from redbike.queries.closed import list_closed
from redbike.store.patterns import escape
from redbike.worker.loader import load_placer

log = logging.getLogger("redbike")


def open_bike(config: Config, needs_queues: bool = False, sets_jobs: bool = False) -> Redbike:
    """Return the facade for a command that makes changes. It starts the embedded server if that is configured.

    Pass `needs_queues` if the command needs the queues of jobs. Only then is the configured worker class imported. Pass
    `sets_jobs` if the command sets jobs without knowing their queues. Raise `RedbikeError` if the class cannot be
    loaded, or the server cannot be used.
    """
    return _open(config, load_to_steer(config) if needs_queues else NoWorker(), needs_queues or sets_jobs)


def open_when_up(config: Config, handler: Any = None) -> Redbike:
    """Return the facade for a long-running command. If the server is unreachable, wait for it.

    `handler` is the worker. Without it, the configured worker class is loaded, only to name queues. Meanwhile a signal
    ends the process at once, by its default action: nothing has begun, and a hanging server must not delay the end.
    """
    handler = load_to_steer(config) if handler is None else handler
    pause, is_told = FIRST_PAUSE, False
    while True:
        try:
            bike = _open(config, handler, needs_durability=True)
        except Unreachable as error:
            if not is_told:
                log.warning("%s; waiting for it", error)
                is_told = True
                watchdog.begin()
            watchdog.feed()
            time.sleep(pause * random.uniform(0.5, 1))  # not all of them at once
            pause = min(LONGEST_PAUSE, pause * 2)
        else:
            if is_told:
                log.warning("Redis is up")
            return bike


def _open(config: Config, handler: Any, needs_durability: bool) -> Redbike:
    server = find_embedded_server(config)
    if server:
        start_server(server, name_end(str(config.redis or "")), is_named=config.redis is not None)
    client = connect(config.redis)
    try:
        return Redbike.from_settings(handler, config.settings, client, needs_durability, noted_as=name_operator())
    except RedbikeError:
        # The embedded server does not stop as long as a client is connected.
        client.close()
        raise


def start_server(server: EmbeddedServer, end: str, is_named: bool = True) -> bool:
    """Start the embedded server, and print that, with how it `end`s. Return False if it was running already."""
    is_started = server.start() if is_named else server.start_unasked()
    if is_started:
        complain(f"started a server in {os.path.relpath(server.folder)!r}; {end}")
    return is_started


def open_to_look(config: Config, names_queues: bool = False, acts: bool = False) -> Redbike:
    """Return the facade for a command that only reads. It starts no server, and needs no worker class.

    With `names_queues`, the configured worker class names the queues of jobs; if it cannot be loaded, the queues of
    some jobs are unknown. With `acts`, changes are recorded in the log. Raise `ServerError` if no server runs.
    """
    check_embedded_server(config)
    handler = load_to_look(config) if names_queues else NoWorker()
    who = name_operator() if acts else None
    return Redbike.from_settings(handler, config.settings, connect(config.redis), durable=False, noted_as=who)


def check_embedded_server(config: Config) -> None:
    """Raise `ServerError` if the embedded server is configured but does not run."""
    if server := find_stopped_server(config):
        raise ServerError(
            f"no server runs in {str(server.folder)!r}; redbike up starts one, and so does redbike server start"
        )


def load_to_look(config: Config) -> Any:
    """Return a handler that names queues as the configured worker class does, or a `NoWorker` if that cannot load."""
    if not config.settings.worker:
        return NoWorker()
    try:
        return load_placer(config.settings.worker, config.folder, RoundRobin)
    except BadConfig as error:
        complain(f"{error}; without it, the queues of some jobs are unknown")
        return NoWorker("the worker class cannot be loaded")


def load_to_steer(config: Config) -> Any:
    """Return such a handler for a command that moves jobs to queues. Raise `BadConfig` if the class cannot load."""
    spec = config.settings.worker
    return load_placer(spec, config.folder, RoundRobin) if spec else NoWorker()


def find_embedded_server(config: Config) -> EmbeddedServer | None:
    """Return the embedded server, running or not; None if another server is configured."""
    if config.redis is None:
        return EmbeddedServer()
    if isinstance(config.redis, str) and config.redis.startswith("embedded:"):
        folder = config.redis.partition(":")[2]
        return EmbeddedServer(folder) if folder else EmbeddedServer()
    return None


def find_stopped_server(config: Config) -> EmbeddedServer | None:
    """Return the embedded server if it is configured but does not run, else None."""
    server = find_embedded_server(config)
    return server if server and not server.status()["running"] else None


def note_pauses(bike: Redbike, jobids: Sequence[str], due: float | None = None) -> None:
    """Print which queues of these jobs are paused at `due` (epoch seconds; None is now), or that everything is.

    Errors are ignored, as this is only advice.
    """
    with suppress(RedbikeError):
        for said in list_closed(bike.store, jobids, bike.settings.timezone, due):
            complain(said)


def list_names(config: Config, are_jobs: bool, beginning: str) -> Iterator[str]:
    """Yield the job ids with this beginning, or the names of all queues; nothing if the embedded server is down."""
    if find_stopped_server(config):
        return
    client = connect(config.redis)
    settings = replace(config.settings, prefix=aim_at(client, config.settings.prefix))
    store = open_store(client, settings, NoWorker())
    pattern = f"{escape(beginning)}*"
    jobs, queues = store.catalog, store.queue_limits
    names = jobs.list_matching(pattern, also_bad=True) if are_jobs else iter(queues.list_queues())
    for name in names:
        # Leave out names that could control the terminal, or that look like an option.
        if name.isprintable() and name[:1] != "-":
            yield name
