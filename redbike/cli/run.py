"""The commands that go on until they are halted: dispatch, work, up."""

import sys
from pathlib import Path

from redbike.cli.arguments import Arguments, Command, read_count, read_time
from redbike.cli.bike import find_embedded_server, open_bike
from redbike.cli.messages import DONE
from redbike.cli.set import load_rows
from redbike.config import Config
from redbike.errors import BadConfig
from redbike.processes import streams, supervisor
from redbike.processes.child import watch_parent
from redbike.redbike import Redbike
from redbike.working.worker_class import check_spec, load_worker


def dispatch(arguments: Arguments, config: Config) -> int:
    """Move due jobs to their queues."""
    bike = open_bike(config, placing=True)
    after = read_time(arguments["--after"], config)
    watch_parent()
    streams.forgive_output()
    if arguments["--schedules"]:
        load_rows(bike, arguments["--schedules"], after)
    bike.dispatch(after)
    return DONE


def work(arguments: Arguments, config: Config) -> int:
    """Work the jobs in the queues, in this process or in several."""
    concurrency = None if arguments["--concurrency"] is None else read_count(arguments, "--concurrency")
    processes = read_count(arguments, "--processes")
    spec = _require_worker(config)
    streams.forgive_output()
    if processes == 1:
        handler = load_worker(spec, config.folder)
        watch_parent()
        open_bike(config, handler=handler).work(concurrency)
        return DONE
    return _supervise(_name_workers(arguments, processes), arguments, open_bike(config))


def run_all(arguments: Arguments, config: Config) -> int:
    """Run a dispatcher and workers, with the embedded server if that is the one."""
    processes = read_count(arguments, "--processes")
    _require_worker(config)
    streams.forgive_output()
    server = find_embedded_server(config)
    started = server.start() if server else False
    try:
        bike = open_bike(config, placing=bool(arguments["--schedules"]))
        if arguments["--schedules"]:
            load_rows(bike, arguments["--schedules"], None)
        dispatcher = {"dispatch": _compose_child(arguments, "dispatch")}
        return _supervise(dispatcher | _name_workers(arguments, processes), arguments, bike)
    finally:
        if server and started:
            server.stop_if_unused()


def _require_worker(config: Config) -> str:
    """Return the specification of the worker class. Raises `BadConfig` if there is none; nothing is imported."""
    if not config.settings.worker:
        raise BadConfig("no worker: name one, as in 'package.module:Class(\"A:B\")', here or in the config file")
    check_spec(config.settings.worker)
    return config.settings.worker


def _supervise(commands: dict[str, list[str]], arguments: Arguments, bike: Redbike) -> int:
    def is_halted() -> bool:
        try:
            return bike.is_halted()
        finally:
            # At the end of `up` it is asked who else uses the server.
            bike.client.close()

    bike.client.close()
    # Not as an argument: every user of the machine may read those.
    environment = {"REDBIKE_URL": arguments["--url"]} if arguments["--url"] else {}
    return supervisor.supervise(commands, environment, is_halted)


def _name_workers(arguments: Arguments, processes: int) -> dict[str, list[str]]:
    """Return the commands of that many workers, by their names."""
    concurrency = ["--concurrency", arguments["--concurrency"]] if arguments["--concurrency"] else []
    return {f"work-{number}": [*_compose_child(arguments, "work"), *concurrency] for number in range(1, processes + 1)}


def _compose_child(arguments: Arguments, command: str) -> list[str]:
    config = ["--config", arguments["--config"]] if arguments["--config"] else []
    # One from the config file stays there: every user of the machine may read the arguments of a process.
    worker = [arguments["<WORKER>"]] if arguments["<WORKER>"] else []
    # By its path, and without the current folder: a redbike.py or a queue.py there must not come in between.
    return [sys.executable, "-P", str(Path(__file__).parents[1] / "__main__.py"), *config, command, *worker]


COMMANDS: dict[str, Command] = {"dispatch": dispatch, "work": work, "up": run_all}
