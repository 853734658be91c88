"""The handlers of the API for queues and for everything: pause, resume, limit, halt."""

from collections.abc import Callable
from typing import Any

from redbike.config.queue_limits import LIMITS, Limits
from redbike.control.queues import is_unused
from redbike.web.api.calls import Answer, Call
from redbike.web.api.jobs import add_warnings, read_every, read_pause


def pause_queue(call: Call) -> Answer:
    """Pause a queue."""
    return _pause(call)


def resume_queue(call: Call) -> Answer:
    """Resume a queue."""
    return _resume(call)


def pause_all(call: Call) -> Answer:
    """Pause everything."""
    return _pause(call)


def resume_all(call: Call) -> Answer:
    """Resume everything."""
    return _resume(call)


def limit_queue(call: Call) -> Answer:
    """Limit a queue. A limit that is not given does not change."""
    given: Any = {name: call.body[name] for name in LIMITS if name in call.body}
    limits: Limits = given
    found = call.steerer.queues.limit(call.params["name"], **limits)
    return _answer(call, {"queue": found.queue, "at_once": found.at_once, "rate": found.rate})


def halt(call: Call) -> Answer:
    """Stop every dispatcher and worker that runs now."""
    call.steerer.store.signals.halt()
    return Answer(status=204)


def _pause(call: Call) -> Answer:
    until, reason, every, lasting = read_pause(call)
    name = _find(call, call.steerer.queues.find_held)
    done = call.steerer.queues.pause(name, until, reason, every=every, lasting=lasting)
    words = {True: "paused", False: "unchanged"} if every is None else {True: "set", False: "replaced"}
    return _answer(call, {"queue": name, "word": words[done]})


def _resume(call: Call) -> Answer:
    every = read_every(call)
    name = _find(call, call.steerer.queues.find_queue)
    done = call.steerer.queues.resume(name, every)
    return _answer(call, {"queue": name, "word": ("ended" if every else "resumed") if done else "unchanged"})


def _find(call: Call, find: Callable[[str], str]) -> str:
    """Return the full name of the queue that the path names; "" for everything."""
    return find(call.params["name"]) if "name" in call.params else ""


def _answer(call: Call, found: dict[str, Any]) -> Answer:
    # The change is done, so no later failure may turn the answer into an error.
    call.site.drop_seen()
    is_of_unused = is_unused(call.steerer.store, found["queue"])
    return Answer(add_warnings(found, [f"the queue {found['queue']!r} was never used"] if is_of_unused else []))
