"""Run the commands that run until they are halted: dispatch, work, up."""

import contextlib
import os
import sys
from pathlib import Path
from typing import Any

from redbike.cli.arguments import Arguments, parse_count, parse_time, prepare_time
from redbike.cli.bike import find_embedded_server, open_when_up, start_server
from redbike.cli.load import load_rows, set_schedules
from redbike.cli.messages import DONE, complain
from redbike.config.file import Config
from redbike.config.ping_urls import check_dispatcher_url
from redbike.connection.embedded import EmbeddedServer, name_end
from redbike.errors import BadConfig, RedbikeError
from redbike.facade.redbike import Redbike
from redbike.loop.naming import NoWorker
from redbike.loop.queues import Queues
from redbike.loop.worker_class import check_worker, read_concurrency
from redbike.process import leaving, streams, supervisor, watchdog
from redbike.process.child import SUPERVISED, watch_parent
from redbike.process.outlet import Outlet, log_without_waiting
from redbike.text.printable import name_number
from redbike.worker.loader import check_spec, load_early, load_worker

DISPATCHER = "dispatch"  # the name of the dispatcher among the children of `up`
PING_URL = "REDBIKE_DISPATCHER_PING_URL"  # an environment variable, because the URL may be a secret


def dispatch(arguments: Arguments, config: Config) -> None:
    """Move due jobs to their queues, until halted."""
    check_folder()
    watchdog.enable(os.environ, feeds=True)
    ping_url, schedules = _find_ping_url(arguments), _find_schedules(arguments)
    prepare_time(arguments["--after"], config)
    bike = open_when_up(config)
    after = parse_time(arguments["--after"], config, read_clock=bike.store.timeline.read_clock)
    watch_parent()
    streams.forgive_output()
    if schedules:
        load_rows(bike, schedules, after)
    with log_without_waiting():
        bike.dispatch(after, ping_url=ping_url)


def work(arguments: Arguments, config: Config) -> int:
    """Run the jobs in the queues, in this process or in several, until halted."""
    concurrency = None if arguments["--concurrency"] is None else parse_count(arguments, "--concurrency")
    processes = parse_count(arguments, "--processes")
    check_folder()
    warn_as_process_1()
    if processes == 1:
        leaving.enable(None if SUPERVISED in os.environ else _call(*sys.argv[1:]))
    watchdog.enable(os.environ, feeds=processes == 1)
    spec = _require_worker(config)
    streams.forgive_output()
    if processes == 1:
        handler = load_worker(spec, config.folder)
        watch_parent()
        bike = open_when_up(config, handler)
        with log_without_waiting():
            bike.work(concurrency)
        return DONE
    return _supervise(_make_worker_commands(arguments, processes), arguments, open_when_up(config, NoWorker()))


def run_all(arguments: Arguments, config: Config) -> int:
    """Run a dispatcher and workers, until halted. Start the embedded server if it is configured. Return the status."""
    processes = parse_count(arguments, "--processes")
    if arguments["--concurrency"] is not None:
        parse_count(arguments, "--concurrency")  # workers refuse a bad one only when the dispatcher runs already
    watchdog.enable(os.environ, feeds=False)
    check_folder()
    warn_as_process_1()
    spec = _require_worker(config)
    worker = _make_worker(spec, config)
    _find_ping_url(arguments)
    schedules = _find_schedules(arguments)
    streams.forgive_output()
    server = find_embedded_server(config)
    is_started = server is not None and start_server(server, "it ends with this command, unless others use it")
    if worker is None and schedules is None:
        worker = NoWorker()
    try:
        bike = open_when_up(config, worker)
        with contextlib.closing(bike.client):
            set_schedules(bike, spec)
            if schedules:
                load_rows(bike, schedules, None)
            dispatcher = {DISPATCHER: _make_command(arguments, "dispatch")}
            status = _supervise(dispatcher | _make_worker_commands(arguments, processes), arguments, bike)
    finally:
        if server and is_started:
            server.stop_if_unused()
    # Standard error may be a full pipe that nobody reads. Do not wait for a reader.
    outlet = Outlet(sys.stderr.fileno())
    ended = (
        f"the dispatcher and {name_number(processes, 'worker')} have ended{_tell_server(server, is_started, config)}"
    )
    outlet.put(f"redbike: {ended}".encode())
    outlet.close()
    return status


def _make_worker(spec: str, config: Config) -> Any:
    """Return the worker if it can be loaded here, else None. Raise `BadConfig` if it is not valid.

    Without this check, the workers would refuse it only after the dispatcher has moved jobs to their queues.
    """
    worker = load_early(spec, config.folder)
    if worker is not None:
        check_worker(worker)
        read_concurrency(worker)
        Queues(worker, config.settings.default_timeout).refresh()
    return worker


def _tell_server(server: EmbeddedServer | None, is_started: bool, config: Config) -> str:
    """Return the part of a message that says whether the embedded server still runs, and why."""
    if server is None:
        return ""
    if not server.status()["running"]:
        return ", and the embedded server too"
    why = "others use it" if is_started else "it ran before"
    return f"; the embedded server runs on, as {why}: {name_end(str(config.redis or ''))}"


def check_folder() -> None:
    """Raise `RedbikeError` if the current folder was deleted, where worker classes and files would be searched."""
    try:
        os.getcwd()
    except OSError:
        raise RedbikeError("the current folder does not exist any more") from None


def warn_as_process_1() -> None:
    """Print a warning if this is process 1 of a container. Orphans become its children, and it does not reap them."""
    if os.getpid() == 1:
        complain("as process 1, it reaps no orphans, which commands may leave: start it with an init, such as tini")


def _find_ping_url(arguments: Arguments) -> str | None:
    """Return the URL that the dispatcher calls each minute; None for none. Raise `BadConfig` for a bad URL."""
    url = arguments["--ping-url"]
    if url is None:
        # An empty variable counts as not set.
        url = os.environ.get(PING_URL) or None
    return None if url is None else check_dispatcher_url(url)


def _find_schedules(arguments: Arguments) -> str | None:
    """Return the name of the CSV file; None for none. Raise `BadConfig` for "", which an unset shell variable gives."""
    if arguments["--schedules"] == "":
        raise BadConfig("bad --schedules '': the name of a file is needed")
    filename: str | None = arguments["--schedules"]
    return filename


def _require_worker(config: Config) -> str:
    """Return the specification of the worker class, without importing it. Raise `BadConfig` if there is none."""
    if not config.settings.worker:
        kinds = "as in 'package.module:Class(\"A:B\")', or package.module:jobs for an instance"
        raise BadConfig(f"no worker: name one, {kinds}, here or in the config file")
    check_spec(config.settings.worker)
    return config.settings.worker


def _supervise(commands: dict[str, list[str]], arguments: Arguments, bike: Redbike) -> int:
    def is_halted() -> bool:
        try:
            return bike.is_halted()
        finally:
            # Keep no connection. At its end, `up` stops the server only if no client is connected.
            bike.client.close()

    bike.client.close()
    # Not as an argument: every user of the machine may read the arguments of a process.
    given = {"REDBIKE_URL": arguments["--url"], PING_URL: arguments.get("--ping-url")}
    environment = {name: value for name, value in given.items() if value}
    # The dispatcher ends last, so that jobs which are due while workers end are dispatched, not missed.
    last = [name for name in commands if name == DISPATCHER]
    tags = bike.settings.log_format == "text"
    return supervisor.supervise(commands, environment, is_halted, tags, last)


def _make_worker_commands(arguments: Arguments, processes: int) -> dict[str, list[str]]:
    """Return the command lines of `processes` worker processes, by name."""
    concurrency = ["--concurrency", arguments["--concurrency"]] if arguments["--concurrency"] else []
    return {f"work-{number}": [*_make_command(arguments, "work"), *concurrency] for number in range(1, processes + 1)}


def _call(*arguments: str) -> list[str]:
    # With a full path and -P: a redbike.py or a queue.py in the current folder must not be imported.
    return [sys.executable, "-P", str(Path(__file__).parents[1] / "__main__.py"), *arguments]


def _make_command(arguments: Arguments, command: str) -> list[str]:
    config = ["--config", arguments["--config"]] if arguments["--config"] else []
    # A worker in the config file stays there, as arguments are not secret.
    worker = [arguments["<WORKER>"]] if arguments["<WORKER>"] else []
    return _call(*config, command, *worker)
