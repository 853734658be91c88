"""Actions: a form requests one, a person confirms it if it cannot be undone, and a note shows the result."""

from dataclasses import replace
from urllib.parse import urlencode

from starlette.responses import Response

from redbike.control.queues import is_unused
from redbike.errors import RedbikeError
from redbike.schedule.clock import Clock
from redbike.store.queue_limits import Pause
from redbike.text.printable import cut
from redbike.web.control import END, GOES_ON, USED_UP, Done, Sent, Steerer
from redbike.web.login import say
from redbike.web.memory import Note
from redbike.web.orders import ACTIONS, BLACKOUT_WORDS, Given, Order, count_words
from redbike.web.permits import explain_role
from redbike.web.rendering import describe_warnings, show_text
from redbike.web.requests import MOST_BACK
from redbike.web.selection import Found, Target, make_pause_digest

MOST = 10_000  # jobs that one form changes
NAMED = 50  # jobs that a confirmation names
WARNED = 5  # warnings in a note
ASKED, BAD, CHANGED = 200, 400, 409  # statuses
NONE = Note("No job matches any more, so nothing was done.", is_problem=True)
UNSELECTED = Note("No job was selected, so nothing was done.", is_problem=True)
TOO_MANY = Note(
    f"More than {MOST:,} jobs match, or the search took too long, so nothing was done. Narrow the filter, or use the "
    "command line.",
    is_problem=True,
)
PROCESSES = "all dispatchers and workers"
UNKNOWN = "The last step may have been done or not: check before you try again."


def carry_out(sent: Sent) -> Response:
    """Carry out the action of a form, or ask for a confirmation. If it raises `RedbikeError`, nothing was changed."""
    if sent.site.memory.is_used(sent.form.get("once", "")):
        # Check this first: the action may have changed the state so that it would be refused now.
        return sent.lead_back(Note(USED_UP["again"], is_problem=True))
    order, clock = Order.read(sent.form), sent.site.read_clock()
    if not sent.permit.may(order.role):
        return say(403, explain_role(sent.permit, order.role, sent.site.write))
    given = Given.read(order, clock)
    if order.target.is_of_jobs:
        return _act_on_jobs(sent, order, given, clock)
    return _act_on_queue(sent, order, given, clock)


def _act_on_queue(sent: Sent, order: Order, given: Given, clock: Clock) -> Response:
    steerer = sent.make_steerer()
    target = order.target
    if target.of == "queue":
        find = steerer.queues.find_held if order.action == "pause" else steerer.queues.find_queue
        target = replace(target, queue=find(target.queue))
    # Only a form of a rehearsal has the digest of a pause: that with which it was computed.
    pause = steerer.store.queue_limits.read(target.queue).pause if order.digest else None
    is_other = bool(order.digest) and order.digest != make_pause_digest(pause)
    if given.errors or is_other or (target.of == "all" and not order.is_confirmed):
        subject = PROCESSES if order.action == "halt" else target.describe()
        return _ask(sent, order, given, clock, subject, is_other=is_other, pause=pause)
    return sent.do_once(lambda: _steer_queue(steerer, order, given, target))


def _act_on_jobs(sent: Sent, order: Order, given: Given, clock: Clock) -> Response:
    found = order.target.selection.find(sent.site.bike, MOST)
    if not found.jobids:
        return sent.lead_back(UNSELECTED if order.target.selection.is_empty else NONE)
    if found.is_more:
        return sent.lead_back(TOO_MANY)
    is_other = bool(order.digest) and order.digest != found.digest
    if given.errors or is_other or not (order.is_confirmed or order.is_done_at_once(len(found.jobids))):
        return _ask(sent, order, given, clock, _name_jobs(found.jobids), found, is_other)
    # The page of a job that was unset cannot be shown.
    is_gone = order.action == "unset" and order.back.startswith("./job?")
    steerer = sent.make_steerer()
    return sent.do_once(lambda: _steer_jobs(steerer, order, given, found), "./jobs" if is_gone else None)


def _ask(
    sent: Sent,
    order: Order,
    given: Given,
    clock: Clock,
    subject: str,
    found: Found | None = None,
    is_other: bool = False,
    pause: Pause | None = None,
) -> Response:
    """Return a page that says what would happen, and asks for a confirmation. Nothing is changed yet."""
    changes = _compare(sent, order, found) if found and is_other else None
    if found:
        sent.site.memory.keep_set(found)
    return sent.site.answer(
        sent.request,
        "act_confirm.html",
        clock,
        BAD if given.errors else CHANGED if is_other else ASKED,
        here={"jobs": "jobs", "queue": "queues"}.get(order.target.of, ""),
        order=order,
        errors=given.errors,
        subject=subject,
        found=found,
        named=found.jobids[:NAMED] if found else (),
        followers=_list_followers(sent, found) if found and order.action == "unset" else (),
        changes=changes,
        is_other=is_other,
        pause=pause,
        rehearsal="" if order.texts.get("every") else _name_rehearsal(order),
        back=order.back.removeprefix("./"),
    )


def _list_followers(sent: Sent, found: Found) -> list[str]:
    """Return the first jobs that would wait if the jobs on the page were unset, and how many more there are.

    Followers of jobs that the page does not name are not listed, and the page says that.
    """
    states = sent.site.bike.store.questions.inspect(found.jobids[:NAMED])
    return cut(sorted({each for state in states for each in state.followers}.difference(found.jobids)), NAMED)


def _name_rehearsal(order: Order) -> str:
    """Return a link to the rehearsal of an order; "" if it cannot be rehearsed."""
    link = f"rehearse?{urlencode(order.params(), errors='surrogateescape')}"
    return link if order.action in ACTIONS and order.action != END and len(link) <= MOST_BACK else ""


def _compare(sent: Sent, order: Order, found: Found) -> list[tuple[str, list[str], int]]:
    """Return how a set of jobs has changed since it was shown: for each kind its name, some of the jobs, the number."""
    before, now = sent.site.memory.get_set(order.digest), set(found.jobids)
    if before is None:
        return []
    kinds = ("new", sorted(now - before)), ("gone, or no longer matching", sorted(before - now))
    return [(how, jobids[:NAMED], len(jobids)) for how, jobids in kinds if jobids]


def _steer_jobs(steerer: Steerer, order: Order, given: Given, found: Found) -> Note:
    done = steerer.steer(order.action, found.jobids, given.until, given.reason, given.blackout)
    return _describe(order, given, found, done, cut(done.warnings, WARNED) + steerer.list_closed(done.run))


def _describe(order: Order, given: Given, found: Found, done: Done, warnings: list[str]) -> Note:
    """Return a note with the results, the instant that was understood, and the warnings."""
    words = count_words(BLACKOUT_WORDS if given.blackout else ACTIONS[order.action].words, done.words)
    if len(found.jobids) == 1 and len(words) == 1:
        said = f"{show_text(found.jobids[0])}: {words[0][0]}."
    else:
        counts = ", ".join(f"{number:,} {word}" for word, number in words)
        said = f"{order.verb} {_name_jobs(found.jobids)}: {counts or 'nothing was done'}."
    known = describe_warnings(warnings, found.jobids[0] if len(found.jobids) == 1 else "")
    if done.error:
        return Note(f"{said}{known} Then an error ended it: {done.error}. {UNKNOWN}", is_problem=True)
    return Note(f"{said}{given.said}{known}", is_open=GOES_ON in done.words)


def _steer_queue(steerer: Steerer, order: Order, given: Given, target: Target) -> Note:
    """Carry out an action on a queue, which has its full name, or on everything."""
    queues, name = steerer.queues, target.queue
    what = target.title
    try:
        if given.blackout:
            is_first = queues.set_blackout(name, steerer.sign(given.blackout))
            said = "has a blackout now" if is_first else "has this blackout now, in place of another one"
        elif order.action == END:
            said = "has no blackout any more" if queues.end_blackout(name) else "had no blackout"
        elif order.action == "pause":
            said = "is paused" if queues.pause(name, given.until, given.reason) else "was paused already"
        elif order.action == "halt":
            queues.store.signals.halt()
            return Note(f"{PROCESSES.capitalize()} stop after their current jobs.")
        elif order.action == "resume":
            said = "goes on" if queues.resume(name) else "was not paused"
        else:
            limits = queues.limit(name, **given.limits)
            said = f"has these limits now: at once {limits.at_once or 'none'}, rate {limits.rate or 'none'}"
    except RedbikeError as error:
        return Note(f"{what}: {error}. {UNKNOWN}", is_problem=True)
    unused = " It was never used." if is_unused(queues.store, name) else ""
    return Note(f"{what} {said}.{unused}{given.said}")


def _name_jobs(jobids: tuple[str, ...]) -> str:
    return f"the job {show_text(jobids[0])}" if len(jobids) == 1 else f"{len(jobids):,} jobs"
