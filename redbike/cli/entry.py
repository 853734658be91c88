"""Redbike runs jobs on cron, iCal RRULE and one-off schedules, with Redis or Valkey as the only moving part.

Usage:
  redbike [options] set [--after=<TIMESTAMP>] [--tz=<ZONE>] [--] <JOBID> <SCHEDULE>
  redbike [options] unset [--] <JOBID>
  redbike [options] load <CSV> [--after=<TIMESTAMP>] [--tz=<ZONE>]
  redbike [options] dispatch [<WORKER>] [--schedules=<CSV>] [--after=<TIMESTAMP>]
  redbike [options] work [<WORKER>] [--concurrency=<N>] [--processes=<N>]
  redbike [options] up [<WORKER>] [--schedules=<CSV>] [--concurrency=<N>] [--processes=<N>]
  redbike [options] statuses [--before=<TIMESTAMP>]
  redbike [options] schedules
  redbike [options] tell [--] <JOBID>
  redbike [options] next [--count=<N>] [--after=<TIMESTAMP>] [--tz=<ZONE>] [--] <SCHEDULE>
  redbike [options] failures
  redbike [options] requeue [--] <JOBID>
  redbike [options] fsck [--repair]
  redbike [options] control <SIGNAL>
  redbike [options] server (start | stop | status)
  redbike (-h | --help)
  redbike --version

Commands:
  set        Enter a job: its id and when it runs. It need not wait for a dispatcher.
  unset      Take a job out of the rotation; a run in flight completes.
  load       Set the JOBID,SCHEDULE rows of a CSV file, - for standard input; bad rows are named, the others are set.
  dispatch   Move due jobs to their queues, until halted.
  work       Work the jobs in the queues, until halted.
  up         A dispatcher and workers in one foreground command; Ctrl-C stops them all.
  statuses   The last event of every job, as CSV: jobid,event,timestamp.
  schedules  The schedule of every job, as CSV that load reads back: jobid,schedule.
  tell       All about one job, as JSON.
  next       When a schedule runs next, and what it says in words; also for the id of a job. Needs no server.
  failures   The jobs that have failed and not succeeded since, a JSON object a line.
  requeue    Run a job once now, and forget its failure.
  fsck       Check that every job is in its one place; prints what is not, and exits 1 then.
             With --repair, bring it there, and exit 1 only if that cannot be done for all.
  control    HALT stops every dispatcher and worker that runs now, each after its current job.
  server     The embedded server in .redbike/ of the current folder.

Options:
  -c --config=<CONF>       The config file [default is .redbike.conf, if there is one].
  --url=<URL>              The server: redis://, rediss://, unix://, redis+sentinel://, redis+cluster:// or embedded:
  -a --after=<TIMESTAMP>   From when occurrences count.
  --tz=<ZONE>              The zone of times that name none, such as Europe/Berlin.
  -s --schedules=<CSV>     Rows of JOBID,SCHEDULE that are set first.
  --count=<N>              How many instants [default is 5].
  --repair                 Put right what is wrong; dispatchers and workers may go on meanwhile.
  -b --before=<TIMESTAMP>  Only jobs whose last event was before.
  --concurrency=<N>        Jobs at once in each process [default is 1, with Commands 10].
  --processes=<N>          Worker processes [default is 1].
  -h --help                Show this.
  --version                Show the version.

A SCHEDULE is NOW, AT:<TIMESTAMP>, CONTINUE, STOP, EVERY:<DURATION>[@<TIMESTAMP>], five to seven fields of cron, or the
lines of an iCal RRULE. A TIMESTAMP is epoch seconds or ISO 8601. A WORKER is package.module:Class('init string').

Exit status: 0 done, 1 failed, 2 bad usage or bad input.
"""

import csv
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, TextIO

from docopt import DocoptExit, docopt

from redbike import __version__
from redbike.cli.usage import diagnose
from redbike.config import Config, check_zone, load
from redbike.errors import BadConfig, BadJobId, BadSchedule, NoSuchJob, RedbikeError, ServerError
from redbike.processes import streams, supervisor
from redbike.processes.child import SUPERVISED, watch_parent
from redbike.processes.signals import reap_children
from redbike.redbike import Redbike
from redbike.schedule.forecast import describe_job, list_runs
from redbike.schedule.parser import parse, parse_stored, parse_timestamp
from redbike.serving.connection import connect
from redbike.serving.embedded import EmbeddedServer
from redbike.texts import harmless, trace_of
from redbike.working.queues import RoundRobin
from redbike.working.worker_class import check_spec, load_placer, load_worker

DONE, FAILED, BAD = 0, 1, 2

Arguments = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit status."""
    streams.prepare()
    reap_children()
    try:
        try:
            return _run(list(sys.argv[1:] if argv is None else argv))
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as head, has seen enough.
        streams.replace_by_null(sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        return 130
    except (RedbikeError, OSError) as error:
        _complain(streams.take_output_error() or str(error))
        return BAD if isinstance(error, ValueError) else FAILED


def _run(argv: list[str]) -> int:
    try:
        arguments = docopt(__doc__, argv, version=__version__)
    except DocoptExit:
        message, lines = diagnose(__doc__, argv)
        _complain(message)
        for line in ["Usage:", *(f"  {line}" for line in lines)] if lines else []:
            print(line, file=sys.stderr)
        return BAD
    command = next(name for name in COMMANDS if arguments[name])
    config = load(arguments["--config"], os.environ, url=arguments["--url"], worker=arguments.get("<WORKER>"))
    _log_to(sys.stderr, config.settings.log_level)
    if SUPERVISED not in os.environ:
        for warning in config.warnings:
            _complain(warning)
    return COMMANDS[command](arguments, config)


def _set(arguments: Arguments, config: Config) -> int:
    bike = _bike(config, placing=True)
    jobid, schedule, tz = arguments["<JOBID>"], arguments["<SCHEDULE>"], arguments["--tz"]
    state = bike.enter(jobid, schedule, _time(arguments["--after"], config, tz), tz)
    if state.status and state.status.startswith("STP") and schedule.strip().upper() != "STOP":
        _complain(f"{jobid}: nothing is left to run of {schedule!r}")
    return DONE


def _unset(arguments: Arguments, config: Config) -> int:
    jobid = arguments["<JOBID>"]
    if not _bike(config, placing=True).unset(jobid):
        raise NoSuchJob(f"no such job: {jobid!r}")
    return DONE


def _load(arguments: Arguments, config: Config) -> int:
    bike = _bike(config, placing=True)
    return _load_into(
        bike, arguments["<CSV>"], _time(arguments["--after"], config, arguments["--tz"]), arguments["--tz"]
    )


def _load_into(bike: Redbike, csvfilename: str, after: float | None, tz: str | None = None) -> int:
    name, source = ("standard input", _stdin()) if csvfilename == "-" else (csvfilename, csvfilename)
    refused = done = 0
    for line, jobid, result in bike.load(source, after, tz):
        if result is True:
            done += 1
        else:
            refused += 1
            _complain(f"{name} line {line}: {f'{jobid!r}: ' if jobid else ''}{result}")
    bad = f", {refused} row{'s' * (refused != 1)} refused" if refused else ""
    _complain(f"{name}: {done} job{'s' * (done != 1)} set{bad}")
    return BAD if refused else DONE


def _stdin() -> IO[bytes]:
    if sys.stdin is None:
        raise BadConfig("cannot read standard input: it is closed")
    return sys.stdin.buffer


def _dispatch(arguments: Arguments, config: Config) -> int:
    bike = _bike(config, placing=True)
    after = _time(arguments["--after"], config)
    watch_parent()
    streams.forgive_output()
    if arguments["--schedules"]:
        _load_into(bike, arguments["--schedules"], after)
    bike.dispatch(after)
    return DONE


def _work(arguments: Arguments, config: Config) -> int:
    concurrency = None if arguments["--concurrency"] is None else _count(arguments, "--concurrency")
    processes = _count(arguments, "--processes")
    _required_worker(config)
    streams.forgive_output()
    if processes == 1:
        handler = _worker(config)
        watch_parent()
        _bike(config, handler=handler).work(concurrency)
        return DONE
    return _supervise(_workers(arguments, processes), arguments, _bike(config))


def _up(arguments: Arguments, config: Config) -> int:
    processes = _count(arguments, "--processes")
    _required_worker(config)
    streams.forgive_output()
    server = EmbeddedServer(_embedded_folder(config)) if _is_embedded(config) else None
    started = server.start() if server else False
    try:
        bike = _bike(config, placing=bool(arguments["--schedules"]))
        if arguments["--schedules"]:
            _load_into(bike, arguments["--schedules"], None)
        dispatch = {"dispatch": _child(arguments, "dispatch")}
        return _supervise(dispatch | _workers(arguments, processes), arguments, bike)
    finally:
        if server and started:
            server.stop_if_unused()


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


def _statuses(arguments: Arguments, config: Config) -> int:
    rows = csv.writer(sys.stdout, lineterminator="\n")
    rows.writerows(_bike(config).get_statuses(_time(arguments["--before"], config)))
    return DONE


def _schedules(arguments: Arguments, config: Config) -> int:
    rows = csv.writer(sys.stdout, lineterminator="\n")
    rows.writerows(_bike(config).get_schedules())
    return DONE


def _tell(arguments: Arguments, config: Config) -> int:
    told = _bike(config).tell(arguments["<JOBID>"])
    print(json.dumps(told, indent=2, ensure_ascii=False))
    known = told["status"] or told["schedule"] or told["working"]
    return DONE if known else FAILED


def _next(arguments: Arguments, config: Config) -> int:
    now = time.time()
    given, zone = arguments["<SCHEDULE>"], config.settings.timezone
    zone = zone if arguments["--tz"] is None else check_zone(arguments["--tz"])
    after = _time(arguments["--after"], config, arguments["--tz"])
    count = _count(arguments, "--count", 5)
    stored, where = None, ""
    try:
        schedule = parse(given, zone, anchor=now)
    except BadSchedule as error:
        told = _job_of_id(given, config, error)
        stored, (where, goes_on) = told["next_run"], describe_job(told, now)
        if not goes_on:
            print(where)
            return DONE
        schedule = parse_stored(told["schedule"])
    for line in filter(None, (schedule.explain(), where)):
        print(line)
    if not where and schedule.runs_once and after is None and not schedule.is_immediate and schedule.next(now) is None:
        print("That is past: it is due at once when it is set.")
        return DONE
    local = schedule.timezone or zone
    start = now if after is None else after
    lines = [] if where and schedule.is_immediate else list(list_runs(schedule, start, now, count, local, stored))
    for line in lines:
        print(line)
    if len(lines) < count and not schedule.is_immediate:
        _complain("no further runs")
    return DONE


def _job_of_id(jobid: str, config: Config, error: BadSchedule) -> dict[str, Any]:
    """What is told of the job of this id; raises `error`, why it is no schedule, if there is none, or no server."""
    if _is_embedded(config) and not EmbeddedServer(_embedded_folder(config)).status()["running"]:
        raise error
    try:
        told = _bike(config).tell(jobid)
    except (BadJobId, ServerError):
        raise error from None
    if told["schedule"] is None and told["status"] is None:
        # Text with blanks is unlikely to be a job id.
        raise error if " " in jobid else BadSchedule(f"{error}; nor is there a job {jobid!r:.80}") from None
    return told


def _failures(arguments: Arguments, config: Config) -> int:
    for failure in _bike(config).failures():
        print(json.dumps(failure, ensure_ascii=False))
    return DONE


def _requeue(arguments: Arguments, config: Config) -> int:
    _bike(config, placing=True).requeue(arguments["<JOBID>"])
    return DONE


def _fsck(arguments: Arguments, config: Config) -> int:
    bike = _bike(config, placing=arguments["--repair"])
    status = DONE
    for line, well in bike.repair() if arguments["--repair"] else ((line, False) for line in bike.fsck()):
        print(line)
        status = status if well else FAILED
    return status


def _control(arguments: Arguments, config: Config) -> int:
    _bike(config).control(arguments["<SIGNAL>"])
    return DONE


def _server(arguments: Arguments, config: Config) -> int:
    if not _is_embedded(config):
        raise BadConfig("the embedded server is not in use: a server is configured, which is not ours to control")
    server = EmbeddedServer(_embedded_folder(config))
    if arguments["start"]:
        print(f"{'started' if server.start() else 'runs already'}: {server.url}")
        return DONE
    if arguments["stop"]:
        print("stopped" if server.stop() else "it was not running")
        return DONE
    status = server.status()
    print(json.dumps(status, indent=2))
    return DONE if status["running"] else FAILED


COMMANDS: dict[str, Callable[[Arguments, Config], int]] = {
    "set": _set,
    "unset": _unset,
    "load": _load,
    "dispatch": _dispatch,
    "work": _work,
    "up": _up,
    "statuses": _statuses,
    "schedules": _schedules,
    "tell": _tell,
    "next": _next,
    "failures": _failures,
    "requeue": _requeue,
    "fsck": _fsck,
    "control": _control,
    "server": _server,
}


def _bike(config: Config, placing: bool = False, handler: Any = None) -> Redbike:
    """The facade. Only commands that name queues need the configured worker class; the others do not import it."""
    durable = placing or handler is not None
    if handler is None:
        spec = config.settings.worker if placing else None
        handler = load_placer(spec, config.folder, RoundRobin) if spec else RoundRobin("A")
    return Redbike.from_settings(handler, config.settings, connect(config.redis), durable)


def _worker(config: Config) -> Any:
    return load_worker(_required_worker(config), config.folder)


def _required_worker(config: Config) -> str:
    if not config.settings.worker:
        raise BadConfig("no worker: name one, as in 'package.module:Class(\"A:B\")', here or in the config file")
    check_spec(config.settings.worker)
    return config.settings.worker


def _is_embedded(config: Config) -> bool:
    return config.redis is None or (isinstance(config.redis, str) and config.redis.startswith("embedded:"))


def _embedded_folder(config: Config) -> str:
    folder = config.redis.partition(":")[2] if isinstance(config.redis, str) else ""
    return folder or ".redbike"


def _workers(arguments: Arguments, processes: int) -> dict[str, list[str]]:
    concurrency = ["--concurrency", arguments["--concurrency"]] if arguments["--concurrency"] else []
    return {f"work-{number}": [*_child(arguments, "work"), *concurrency] for number in range(1, processes + 1)}


def _child(arguments: Arguments, command: str) -> list[str]:
    config = ["--config", arguments["--config"]] if arguments["--config"] else []
    # One from the config file stays there: every user of the machine may read the arguments of a process.
    worker = [arguments["<WORKER>"]] if arguments["<WORKER>"] else []
    # By its path, and without the current folder: a redbike.py or a queue.py there must not come in between.
    return [sys.executable, "-P", str(Path(__file__).parents[1] / "__main__.py"), *config, command, *worker]


def _time(given: str | None, config: Config, zone: str | None = None) -> float | None:
    if given is None:
        return None
    return parse_timestamp(given, config.settings.timezone if zone is None else check_zone(zone))


def _count(arguments: Arguments, name: str, default: int = 1) -> int:
    given = arguments[name]
    if given is None:
        return default
    if not (given.isascii() and given.isdecimal() and 1 <= int(given[:9]) <= 1000):
        raise BadConfig(f"bad {name} {given!r}: 1 to 1000 are allowed")
    return int(given)


def _complain(message: str) -> None:
    print(f"redbike: {_visible(' '.join(message.splitlines()))}", file=sys.stderr)


def _visible(line: str) -> str:
    return line if line.isprintable() else harmless(line.encode(errors="backslashreplace"))


class _Formatter(logging.Formatter):
    """One line for each message of ours: whoever writes to Redis may put ids there that would forge or colour lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        line = super().formatMessage(record)
        return _visible(line) if record.name.partition(".")[0] == "redbike" else line

    def formatException(self, ei: Any) -> str:
        return trace_of(ei[1]).rstrip("\n") if ei[1] else super().formatException(ei)


def _log_to(stream: TextIO, level: str) -> None:
    formatter = _Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
    formatter.converter = time.gmtime
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
