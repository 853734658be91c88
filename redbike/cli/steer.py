"""Run the commands that control existing jobs and queues: run, cancel, pause, resume, limit."""

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from redbike.cli.arguments import Arguments, parse_time, prepare_time
from redbike.cli.asked import AskedRuns, print_ends
from redbike.cli.bike import find_embedded_server, note_pauses, open_bike
from redbike.cli.messages import DONE, FAILED, complain
from redbike.config.file import Config
from redbike.config.labels import read_filter
from redbike.config.queue_limits import NO_LIMIT, Limit, Limits, read_limit
from redbike.control import jobs
from redbike.control.blackouts import check_blackout, check_together, end_for_jobs, make_blackout, set_for_jobs
from redbike.control.jobs import find_failed, find_tries
from redbike.control.operator import check_reason, check_until, name_operator
from redbike.control.queues import is_unused
from redbike.errors import BadConfig, NoSuchJob
from redbike.facade.redbike import Redbike
from redbike.loop.host_jobs import say_nowhere
from redbike.queries.blackouts import describe_next
from redbike.schedule.clock import Clock
from redbike.store.enums import Event
from redbike.store.names import check_queue_name
from redbike.store.patterns import Steered, expand, is_pattern
from redbike.store.store import Store
from redbike.text.printable import name_number

Run = Callable[[Store, list[str]], list[Steered]]  # runs jobs once now

ENDED = "cancel has ended its backfill; a second cancel drops the occurrence of its schedule"
NO_BLACKOUT = "it had no blackout"
NOT_PAUSED = "it was not paused"
PAUSED = "it was paused already, and stays so; resume it first to give another end or reason"
REPLACED = "this takes the place of another blackout"


def run_jobs(arguments: Arguments, config: Config) -> int:
    """Run named or failed jobs once now. With ``--wait``, wait for their runs. Return the exit status."""
    if arguments["--wait"] and arguments["--dry-run"]:
        raise BadConfig("--dry-run runs nothing, so there is nothing to --wait for")
    bike = open_bike(config, needs_queues=True)
    asked = AskedRuns(bike.store) if arguments["--wait"] else None
    run = jobs.run_jobs if asked is None else asked.run
    if arguments["--failed"]:
        _run_failed(bike, arguments, run)
    elif not _run_named(bike, arguments, run):
        return FAILED
    return DONE if asked is None else print_ends(asked, bike.settings.timezone)


def _run_failed(bike: Redbike, arguments: Arguments, run: Run) -> None:
    pattern = arguments["<PATTERN>"]
    wanted = "*" if pattern is None else pattern
    tag, tags = arguments["--tag"], read_filter(arguments["--tag"])
    failed = list(find_failed(bike.store.catalog, wanted, tags))
    if tags and not failed:
        next(expand(bike.store.catalog, [], tags=tags))  # raises an error for a tag that no job has
    if not arguments["--dry-run"]:
        tries = find_tries(bike.store, failed)
        failed = [jobid for jobid, _ in run(bike.store.noted_as(name_operator()), failed)]
        if number := sum(jobid in tries for jobid in failed):
            complain(f"{name_number(number, 'job')}: a new try of the occurrence that failed")
        if number := sum(jobid not in tries for jobid in failed):
            complain(f"{name_number(number, 'job')}: a new run, because Redbike no longer keeps the failure")
    if pattern is not None and not failed:
        if not is_pattern(pattern):
            raise NoSuchJob(f"no job that has failed for good matches {pattern!r}")
        complain(f"no job that has failed for good matches {pattern!r}")
    elif tag is not None and not failed:
        complain(f"no job that has failed for good has the tag {tag!r}")
    elif failed and not arguments["--dry-run"]:
        note_pauses(bike, failed)
    _print(failed)


def _run_named(bike: Redbike, arguments: Arguments, run: Run) -> bool:
    """Run jobs once now. Print for each failed job whether that is a new try or a new run.

    Return whether any job runs. A job for every host runs nowhere if no host is there.
    """
    named = [text for text in arguments["<JOBID>"] if not is_pattern(text)]
    states = {} if arguments["--dry-run"] else {each.jobid: each for each in bike.store.questions.inspect(named)}
    tries = find_tries(bike.store, states)
    steered = _steer_named(bike, arguments, run)
    note_pauses(bike, steered)
    clock = Clock(0.0, bike.settings.timezone)
    for jobid, state in states.items():
        if jobid in tries:
            again = "its first try" if state.dropped is not None else "a new try"
            complain(f"{jobid}: {again} of the occurrence of {clock.name(tries[jobid])}")
        elif state.has_event(Event.DIE):
            complain(f"{jobid}: a new run, because Redbike no longer keeps the failure")
    return bool(steered or arguments["--dry-run"])


def cancel_jobs(arguments: Arguments, config: Config) -> None:
    """Cancel the waiting or running occurrences of the named jobs. Print a message for an id without one."""
    bike = open_bike(config)
    verb = partial(jobs.cancel_jobs, settings=bike.settings)
    _steer_named(bike, arguments, verb, idle="no occurrence of it waits or runs", ended=ENDED)


def pause(arguments: Arguments, config: Config) -> None:
    """Pause jobs, a queue, or everything. With ``--every``, set a blackout."""
    text = arguments["--until"]
    planned = prepare_time(text, config)
    _check_queue(arguments["--queue"])
    if arguments["--every"] is not None or arguments["--for"] is not None:
        return _set_blackout(arguments, config)
    if find_embedded_server(config):  # whose clock is that of this host
        check_until(planned, time.time(), text)
    bike = open_bike(config, needs_queues=True)
    now = bike.store.timeline.read_clock()
    until = check_until(parse_time(text, config, read_clock=lambda: now), now, text)
    given: dict[str, Any] = {"until": until, "reason": check_reason(arguments["--reason"] or "")}
    verbs = partial(bike.pause_queue, **given), partial(bike.pause_all, **given)
    return _steer(
        bike, arguments, *verbs, partial(jobs.pause_jobs, **given), PAUSED, told="unchanged", unchanged=PAUSED
    )


def resume(arguments: Arguments, config: Config) -> None:
    """Resume jobs, a queue, or everything. With ``--every``, end a blackout for good."""
    _check_queue(arguments["--queue"])
    bike = open_bike(config, needs_queues=True)
    every = arguments["--every"]
    verbs = partial(bike.resume_queue, every=every), partial(bike.resume_all, every=every)
    verb, idle = (end_for_jobs, NO_BLACKOUT) if every else (jobs.resume_jobs, NOT_PAUSED)
    return _steer(bike, arguments, *verbs, partial(verb, settings=bike.settings), idle, unchanged=idle)


def _set_blackout(arguments: Arguments, config: Config) -> None:
    """Set a blackout, and print when it begins next."""
    every, lasting, reason = arguments["--every"], arguments["--for"], arguments["--reason"] or ""
    check_together(arguments["--until"], every, lasting)
    check_blackout(every, lasting, None, reason, config.settings.timezone, time.time(), may_be_over=True)
    bike = open_bike(config, needs_queues=True)
    noted = bike.store.noted_as(name_operator())
    blackout = make_blackout(noted, every, lasting, reason, bike.settings.timezone)
    given: dict[str, Any] = {"every": every, "lasting": lasting, "reason": reason}
    verbs = partial(bike.pause_queue, **given), partial(bike.pause_all, **given)
    verb = partial(set_for_jobs, blackout=blackout, settings=bike.settings)
    _steer(bike, arguments, *verbs, verb, REPLACED, told="replaced", replaced=REPLACED)
    if not arguments["--dry-run"]:
        complain(describe_next(blackout, Clock(blackout.since, bike.settings.timezone)))


def limit_queue(arguments: Arguments, config: Config) -> None:
    """Limit a queue; without an option, print its limits."""
    given: Limits = {}
    if (text := arguments["--at-once"]) is not None:
        given["at_once"] = read_limit("at_once", text)
    if (text := arguments["--rate"]) is not None:
        given["rate"] = read_limit("rate", text)
    Limit(**given)  # refuses an invalid limit before a server is opened
    _check_queue(arguments["<QUEUE>"])
    bike = open_bike(config)
    limits = bike.limit(arguments["<QUEUE>"], **given)
    _warn_if_unknown(bike, limits.queue)
    if not given:
        print(f"{limits.queue}: at once {limits.at_once or NO_LIMIT}, rate {limits.rate or NO_LIMIT}")


def _steer(
    bike: Redbike,
    arguments: Arguments,
    of_queue: Callable[[str], bool],
    of_all: Callable[[], bool],
    of_jobs: Callable[..., list[Steered]],
    idle: str,
    **messages: str,
) -> None:
    """Call the function that the command line asks for. Print `idle` if a queue, or everything, does not change."""
    if arguments["--queue"] is not None:
        name = bike.find_queue(arguments["--queue"])
        if arguments["--dry-run"]:
            _print([name])
        elif not of_queue(name):
            complain(f"{name}: {idle}")
        _warn_if_unknown(bike, name)
    elif not arguments["--all"]:
        _steer_named(bike, arguments, of_jobs, **messages)
    elif not arguments["--dry-run"] and not of_all():
        complain(f"everything: {idle}")


def _check_queue(name: str | None) -> None:
    """Raise `BadQueueName` for an invalid name of a queue, before a server is opened."""
    if name is not None:
        check_queue_name(name)


def _warn_if_unknown(bike: Redbike, name: str) -> None:
    if is_unused(bike.store, name):
        complain(f"the queue {name!r} was never used")


def _steer_named(
    bike: Redbike, arguments: Arguments, verb: Callable[..., list[Steered]], told: str = "", **messages: str
) -> list[str]:
    """Call `verb` with the jobs of the command line, and return their ids. If a pattern or a tag is given, print them.

    Each id, pattern and tag has to match a job. `verb` returns a word for each job. `messages`, by these words, are
    printed for ids in the command line. For jobs that only match, the message for the word `told` is printed once.
    """
    texts, tags = arguments["<JOBID>"], read_filter(arguments["--tag"])
    jobids = expand(bike.store.catalog, texts, tags=tags)
    if arguments["--dry-run"]:
        _print(jobids)
        return []
    steered = verb(bike.store.noted_as(name_operator()), list(jobids))
    for jobid, word in steered:
        if word == jobs.NOWHERE:
            complain(f"{jobid}: {say_nowhere(bike.store, jobid)}")
        if word in messages and jobid in texts:
            complain(f"{jobid}: {messages[word]}")
    steered = [each for each in steered if each.word != jobs.NOWHERE]
    if number := sum(word == told and jobid not in texts for jobid, word in steered):
        complain(f"{number:,} of those that match: {messages[told]}")
    if tags or any(map(is_pattern, texts)):
        _print(jobid for jobid, _ in steered)
    return [jobid for jobid, _ in steered]


def _print(jobids: Iterable[str]) -> None:
    for jobid in jobids:
        print(jobid)
