"""The verbs of the API for queues and for everything: pause, resume, limit, halt."""

from typing import Any

from redbike.config.limits import LIMITS, Limits
from redbike.control.queues import is_unused
from redbike.web.api.calls import Answer, Call
from redbike.web.api.jobs import add_warnings, read_every, read_pause


def pause_queue(call: Call) -> Answer:
    """Pause a queue."""
    given, (until, reason, every, lasting) = call.params["name"], read_pause(call)
    name = call.steerer.queues.find_queue(given)
    done = call.steerer.queues.pause_queue(given, until, reason, every=every, lasting=lasting)
    return _answer(call, _name_pause(done, every), name)


def resume_queue(call: Call) -> Answer:
    """Resume a queue."""
    given, every = call.params["name"], read_every(call)
    name = call.steerer.queues.find_queue(given)
    done = call.steerer.queues.resume_queue(given, every=every)
    return _answer(call, _name_resume(done, every), name)


def pause_all(call: Call) -> Answer:
    """Pause everything."""
    until, reason, every, lasting = read_pause(call)
    done = call.steerer.queues.pause_all(until, reason, every=every, lasting=lasting)
    return _answer(call, _name_pause(done, every))


def resume_all(call: Call) -> Answer:
    """Resume everything."""
    every = read_every(call)
    return _answer(call, _name_resume(call.steerer.queues.resume_all(every=every), every))


def limit_queue(call: Call) -> Answer:
    """Limit a queue; what is not given stays as it is."""
    given: Any = {name: call.body[name] for name in LIMITS if name in call.body}
    limits: Limits = given
    found = call.steerer.queues.limit(call.params["name"], **limits)
    call.site.drop_seen()
    limits_now = {"queue": found.queue, "at_once": found.at_once, "rate": found.rate}
    return Answer(add_warnings(limits_now, _list_remarks(call, found.queue)))


def halt(call: Call) -> Answer:
    """Stop every dispatcher and worker that runs now."""
    call.steerer.store.signals.halt()
    return Answer(status=204)


def _name_pause(done: bool, every: str | None) -> str:
    if every is None:
        return "paused" if done else "unchanged"
    return "set" if done else "replaced"


def _name_resume(done: bool, every: bool) -> str:
    return ("ended" if every else "resumed") if done else "unchanged"


def _answer(call: Call, word: str, name: str = "") -> Answer:
    # By now something is done: nothing may turn that into an error.
    call.site.drop_seen()
    return Answer(add_warnings({"queue": name, "word": word}, _list_remarks(call, name)))


def _list_remarks(call: Call, name: str) -> list[str]:
    return [f"the queue {name!r} was never used"] if is_unused(call.steerer.store, name) else []
