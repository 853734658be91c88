"""Run the commands that steer jobs which exist: pause, resume."""

from collections.abc import Callable, Iterable
from functools import partial

from redbike.cli.arguments import Arguments, Command, parse_time
from redbike.cli.bike import open_bike
from redbike.cli.messages import DONE
from redbike.config import Config
from redbike.redbike import Redbike
from redbike.steering.operator import check_reason, check_until
from redbike.steering.patterns import Steered, expand, is_pattern


def pause_jobs(arguments: Arguments, config: Config) -> int:
    """Pause jobs."""
    bike = open_bike(config, needs_queues=True)
    until = check_until(parse_time(arguments["--until"], config), bike.store.timeline.read_clock())
    reason = check_reason(arguments["--reason"] or "")
    return _steer_named(bike, arguments, partial(bike.pause, until=until, reason=reason))


def resume_jobs(arguments: Arguments, config: Config) -> int:
    """Resume jobs."""
    bike = open_bike(config, needs_queues=True)
    return _steer_named(bike, arguments, bike.resume)


def _steer_named(bike: Redbike, arguments: Arguments, verb: Callable[..., list[Steered]]) -> int:
    """Call `verb` with the ids and patterns of the command line; print what these match, if one is a pattern."""
    texts = arguments["<JOBID>"]
    if arguments["--dry-run"]:
        return _print(expand(bike.store.questions, texts))
    steered = verb(*texts)
    return _print(jobid for jobid, _ in steered) if any(map(is_pattern, texts)) else DONE


def _print(jobids: Iterable[str]) -> int:
    for jobid in jobids:
        print(jobid)
    return DONE


COMMANDS: dict[str, Command] = {"pause": pause_jobs, "resume": resume_jobs}
