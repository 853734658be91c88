"""Run the commands that steer jobs which exist: run, cancel."""

from collections.abc import Callable, Iterable

from redbike.cli.arguments import Arguments, Command
from redbike.cli.bike import open_bike
from redbike.cli.messages import DONE, complain
from redbike.config import Config
from redbike.redbike import Redbike
from redbike.steering.patterns import Steered, expand, is_pattern
from redbike.steering.rerunning import find_failed


def run_jobs(arguments: Arguments, config: Config) -> int:
    """Run jobs once now: those that are named, or those that have failed for good."""
    bike = open_bike(config, needs_queues=True)
    if not arguments["--failed"]:
        return _steer_named(bike, arguments, bike.run)
    pattern = arguments["<PATTERN>"] or "*"
    if arguments["--dry-run"]:
        return _print(find_failed(bike.store.questions, pattern))
    return _print(jobid for jobid, _ in bike.run_failed(pattern))


def cancel_jobs(arguments: Arguments, config: Config) -> int:
    """Cancel what waits or runs of the jobs that are named; print a message for an id of which nothing does."""
    bike = open_bike(config)

    def cancel(*texts: str) -> list[Steered]:
        steered = bike.cancel(*texts)
        for jobid, word in steered:
            if word == "idle" and jobid in texts:
                complain(f"{jobid}: nothing of it waits or runs")
        return steered

    return _steer_named(bike, arguments, cancel)


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


COMMANDS: dict[str, Command] = {"cancel": cancel_jobs, "run": run_jobs}
