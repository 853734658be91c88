"""Redbike runs jobs on cron, iCal RRULE and one-off schedules, with Redis or Valkey as the only moving part.

Usage:
  redbike [options] set [--after=<TIMESTAMP>] [--tz=<ZONE>] [--data=<JSON>] [--timeout=<DURATION>]
                        [--on-timeout=<POLICY>] [--on-error=<POLICY>] [--retries=<N>] [--backoff=<DURATION>]
                        [--on-lost=<POLICY>] [--catchup=<POLICY>] [--catchup-limit=<N>] [--stop-after=<N>]
                        [--grace=<DURATION>] [--overlap=<POLICY>] [--spread=<DURATION>] [--history=<N>]
                        [--] <JOBID> <SCHEDULE>
  redbike [options] unset [--] <JOBID>
  redbike [options] load <CSV> [--after=<TIMESTAMP>] [--tz=<ZONE>]
  redbike [options] dispatch [<WORKER>] [--schedules=<CSV>] [--after=<TIMESTAMP>]
  redbike [options] work [<WORKER>] [--concurrency=<N>] [--processes=<N>]
  redbike [options] up [<WORKER>] [--schedules=<CSV>] [--concurrency=<N>] [--processes=<N>]
  redbike [options] statuses [--before=<TIMESTAMP>]
  redbike [options] schedules [--full]
  redbike [options] tell [--] <JOBID>
  redbike [options] next [--count=<N>] [--after=<TIMESTAMP>] [--tz=<ZONE>] [--] <SCHEDULE>
  redbike [options] failures
  redbike [options] log [--limit=<N>] [--] [<JOBID>]
  redbike [options] workers
  redbike [options] queues
  redbike [options] runs [--since=<TIMESTAMP>] [--failed] [--limit=<N>] [--] [<PATTERN>...]
  redbike [options] run [--dry-run] [--] (<JOBID>... | --failed [<PATTERN>])
  redbike [options] cancel [--dry-run] [--] <JOBID>...
  redbike [options] pause [--until=<TIME>] [--reason=<TEXT>] [--dry-run] [--] (<JOBID>... | --queue=<QUEUE> | --all)
  redbike [options] resume [--dry-run] [--] (<JOBID>... | --queue=<QUEUE> | --all)
  redbike [options] limit [--at-once=<N>] [--rate=<RATE>] [--] <QUEUE>
  redbike [options] fsck [--repair]
  redbike [options] control <SIGNAL>
  redbike [options] server (start | stop | status)
  redbike (-h | --help)
  redbike --version

Commands:
  set        Enter a job: its id and when it runs. It need not wait for a dispatcher.
  unset      Take a job out of the rotation; a run in flight completes.
  load       Set the JOBID,SCHEDULE rows of a CSV file, - for standard input; bad rows are named, the others are set.
             Under a header as schedules --full prints it, the further columns are options and data.
  dispatch   Move due jobs to their queues, until halted.
  work       Work the jobs in the queues, until halted.
  up         A dispatcher and workers in one foreground command; Ctrl-C stops them all.
  statuses   The last event of every job, as CSV: jobid,event,timestamp.
  schedules  The schedule of every job, as CSV that load reads back: jobid,schedule. With --full also options and data.
  tell       All about one job, as JSON.
  next       When a schedule runs next, and what it says in words; also for the id of a job. Needs no server.
  failures   The jobs that have failed and not succeeded since, a JSON object a line.
  log        What people have changed, or have changed of a job, newest first, as CSV: time,who,action,jobid,detail.
  workers    Every dispatcher and worker, as CSV: id,kind,host,pid,queues,state,since,seen,jobs. Lost ones come first.
  queues     Every queue, as CSV: queue,waiting,oldest_due,in_flight,paused,at_once,rate. Of a paused one since when;
             the rate is how many runs have ended in the last minute.
  runs       The last ended runs of all jobs, or of those named, newest first, as CSV:
             jobid,due,started,took,outcome,attempt,error,worker. Times are epoch seconds.
  run        Run jobs once now, and forget their failures. A JOBID may be a pattern with *, ? and [...].
  cancel     Drop the occurrences of jobs that wait or run; their schedules go on, and nothing has failed.
  pause      Hold jobs until they are resumed, a queue, or everything; runs in flight complete.
  resume     Let what is paused go on. What came due meanwhile was missed: the setting catchup decides.
  limit      Limit how many jobs of a queue run, across all workers; without an option print its limits.
  fsck       Check that every job is in its one place; prints what is not, and exits 1 then.
             With --repair, bring it there, and exit 1 only if that cannot be done for all.
  control    HALT stops every dispatcher and worker that runs now, each after its current job.
  server     The embedded server in .redbike/ of the current folder.

Options:
  -c --config=<CONF>       The config file [default is .redbike.conf, if there is one].
  --url=<URL>              The server: redis://, unix://, redis+sentinel://, redis+cluster:// or embedded:;
                           with TLS: rediss://, rediss+sentinel://, redis+clusters://
  -a --after=<TIMESTAMP>   From when occurrences count.
  --tz=<ZONE>              The zone of times that name none, such as Europe/Berlin.
  --data=<JSON>            What its worker is given, any JSON value.
  --timeout=<DURATION>     How long a run may take.
  --on-timeout=<POLICY>    After a timeout: stop, reschedule, requeue.
  --on-error=<POLICY>      After a failure: stop, reschedule, retry.
  --retries=<N>            How often on-error=retry runs it again.
  --backoff=<DURATION>     The pause before the first retry.
  --on-lost=<POLICY>       After its worker died: requeue, reschedule, stop.
  --catchup=<POLICY>       Which missed occurrences run: last, none, all.
  --catchup-limit=<N>      How many missed occurrences catchup=all runs.
  --stop-after=<N>         Stop it after so many failed occurrences in a row, each with its retries.
  --grace=<DURATION>       Skip an occurrence that is later than this.
  --overlap=<POLICY>       An occurrence that is due during a run: skip, queue.
  --spread=<DURATION>      Run it later by a fixed share of this, hashed from its id.
  --history=<N>            How many ended runs are kept.
  -s --schedules=<CSV>     Rows of JOBID,SCHEDULE that are set first.
  --count=<N>              How many instants [default is 5].
  --failed                 All jobs that have failed for good; with runs those that went wrong.
  --since=<TIMESTAMP>      Only runs that started then or later.
  --limit=<N>              How many rows [default is 100 for runs, all for log].
  --queue=<QUEUE>          A queue by its full name, such as work-A; with the stock workers A will do.
  --all                    Everything: no job is enqueued, and none is taken.
  --until=<TIME>           When the pause ends by itself.
  --reason=<TEXT>          Why, for whoever looks at it.
  --at-once=<N>            How many jobs of the queue may run at once; none takes the limit back.
  --rate=<RATE>            How many may begin in a time: 100/m, 5/s, 1/h; none takes the limit back.
  --dry-run                Only print the jobs that are meant.
  --full                   All columns under a header, as a backup.
  --repair                 Put right what is wrong; dispatchers and workers may go on meanwhile.
  -b --before=<TIMESTAMP>  Only jobs whose last event was before.
  --concurrency=<N>        Jobs at once in each process [default is 1, with Commands 10].
  --processes=<N>          Worker processes [default is 1].
  -h --help                Show this.
  --version                Show the version.

The options from --data to --history are those of the job, and override the settings. It keeps those that are not given;
"default" takes one back, and "null" the data. A DURATION is seconds, or a text such as 15m or 2h.

A SCHEDULE is NOW, AT:<TIMESTAMP>, CONTINUE, STOP, EVERY:<DURATION>[@<TIMESTAMP>], five to seven fields of cron, or the
lines of an iCal RRULE. A TIMESTAMP is epoch seconds or ISO 8601. A WORKER is package.module:Class('init string').

Exit status: 0 done, 1 failed, 2 bad usage or bad input.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from docopt import DocoptExit, docopt

from redbike import __version__
from redbike.cli.messages import BAD, FAILED, INTERRUPTED, complain, log_to
from redbike.config import load
from redbike.errors import RedbikeError
from redbike.processes import streams
from redbike.processes.child import SUPERVISED
from redbike.processes.signals import die_as_process_1, reap_children

if TYPE_CHECKING:
    from redbike.cli.arguments import Command

# For each command, the module of this folder that runs it.
COMMANDS = {
    "set": "set",
    "unset": "set",
    "load": "set",
    "dispatch": "run",
    "work": "run",
    "up": "run",
    "statuses": "look",
    "schedules": "look",
    "tell": "look",
    "next": "next",
    "failures": "look",
    "log": "look",
    "workers": "look",
    "queues": "look",
    "runs": "look",
    "run": "steer",
    "cancel": "steer",
    "pause": "steer",
    "resume": "steer",
    "limit": "steer",
    "fsck": "keep",
    "control": "keep",
    "server": "keep",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit status. `argv` are its arguments, by default those of the process."""
    die_as_process_1()
    streams.prepare()
    reap_children()
    try:
        try:
            return _run(list(sys.argv[1:] if argv is None else argv))
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as head, has closed the pipe.
        streams.replace_by_null(sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except (RedbikeError, OSError) as error:
        complain(streams.take_output_error() or str(error))
        return BAD if isinstance(error, ValueError) else FAILED


def _run(argv: list[str]) -> int:
    try:
        arguments = docopt(__doc__, argv, version=__version__)
    except DocoptExit:
        return _explain_usage(argv)
    command = next(name for name in COMMANDS if arguments[name])
    if COMMANDS[command] != "steer":
        # docopt makes a list of the ids for every command, because some commands take several.
        arguments["<JOBID>"] = next(iter(arguments["<JOBID>"]), None)
    config = load(arguments["--config"], os.environ, url=arguments["--url"], worker=arguments.get("<WORKER>"))
    log_to(sys.stderr, config.settings.log_level)
    if SUPERVISED not in os.environ:
        for warning in config.warnings:
            complain(warning)
    return _import_family(COMMANDS[command])[command](arguments, config)


def _import_family(family: str) -> "Mapping[str, Command]":
    """Import one family, and return its commands. Most families load redis-py; ``--help`` and ``next`` do not need it.

    A family imports all that it needs at once: after it has loaded a worker class, an import searches the current
    folder before the installed packages.
    """
    match family:
        case "set":
            from redbike.cli.set import COMMANDS as commands
        case "run":
            from redbike.cli.run import COMMANDS as commands
        case "look":
            from redbike.cli.look import COMMANDS as commands
        case "next":
            from redbike.cli.next import COMMANDS as commands
        case "steer":
            from redbike.cli.steer import COMMANDS as commands
        case _:
            from redbike.cli.keep import COMMANDS as commands
    return commands


def _explain_usage(argv: list[str]) -> int:
    from redbike.cli.diagnosis import diagnose

    message, lines = diagnose(__doc__, argv)
    complain(message)
    for line in ["Usage:", *(f"  {line}" for line in lines)] if lines else []:
        print(line, file=sys.stderr)
    return BAD
