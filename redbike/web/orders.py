"""The order in a form: an action on jobs, a queue or everything, and the words in which the page describes it."""

from dataclasses import dataclass, field
from typing import Self
from urllib.parse import parse_qsl

from redbike.config.queue_limits import Limits, read_limit
from redbike.control.blackouts import check_blackout, check_together, read_length
from redbike.control.operator import check_reason, check_until
from redbike.errors import BadConfig, BadSchedule
from redbike.queries.blackouts import describe_next
from redbike.schedule.clock import Clock
from redbike.store.blackouts import Blackout
from redbike.store.tokens import Role
from redbike.web.control import END, GOES_ON, TRIED
from redbike.web.requests import Form, read_back, read_moment
from redbike.web.selection import Target

FIELDS = ("until", "every", "lasting", "reason", "at_once", "rate")
BLACKOUT_WORDS = {
    "set": "given a blackout",
    "replaced": "given this blackout in place of another one",
    "missing": "gone",
}


@dataclass(frozen=True, slots=True)
class Action:
    """An action on jobs, in words."""

    verb: str
    says: str  # what will happen to each job
    words: dict[str, str]  # texts for the results of the library; an unknown result gets the first text
    is_final: bool = False  # whether it cannot be undone, so that even one job needs a confirmation


NOWHERE = "without a job on any host"
ACTIONS = {
    "run": Action(
        "Run",
        "Each runs once, now, whatever its schedule says; the schedule stays, and its last failure is forgotten. "
        "One that runs already runs once more after that.",
        {
            "queued": "queued",
            TRIED: "queued as a new try of the old occurrence",
            "owed": "will run once more when the run in flight ends",
            "nowhere": NOWHERE,
            "missing": "gone",
        },
    ),
    "cancel": Action(
        "Cancel",
        "What waits or runs of each is dropped, and counted as cancelled. A run in flight ends within 5 seconds. "
        "The schedule goes on.",
        {
            "cancelled": "cancelled",
            GOES_ON: "cancelled; the run has not ended yet",
            "unchanged": "cancelled before; the run has not ended yet",
            "ended": "ended a backfill of, whose schedules go on",
            "idle": "without anything that waits or runs",
            "nowhere": NOWHERE,
            "missing": "gone",
        },
        is_final=True,
    ),
    "pause": Action(
        "Pause",
        "None is enqueued until it is resumed. What waits in a queue is held; a run in flight completes.",
        {"paused": "paused", "unchanged": "paused already", "missing": "gone"},
    ),
    "resume": Action(
        "Resume",
        "Each goes on. What came due meanwhile was missed: the option catchup decides what of it runs now.",
        {"resumed": "resumed", "unchanged": "not paused", "missing": "gone"},
    ),
    END: Action(
        "End the blackouts of",
        "The blackout of each ends for good. A job that it pauses now goes on.",
        {"ended": "without its blackout from now on", "unchanged": "without a blackout"},
    ),
    "unset": Action(
        "Unset",
        "Each is forgotten, with its schedule, options and data. A run in flight completes.",
        {"unset": "unset", "missing": "gone", "of a base": "left as it is: unset the job of all hosts, ending in @all"},
        is_final=True,
    ),
}
QUEUE_SAYS = {
    "pause": "No job is taken from it until it is resumed. Runs in flight complete.",
    "resume": "Workers take jobs from it again.",
    END: "Its blackout ends for good. If that pauses it now, it goes on.",
    "limit": "The limits hold across all workers.",
    "unlimit": "The limits that people have set are removed.",
}
ALL_SAYS = {
    END: QUEUE_SAYS[END],
    "pause": "No job is enqueued, and none is taken from any queue, until everything is resumed. Runs in flight "
    "complete.",
    "resume": "The timeline and all queues go on, except what was paused on its own. What came due meanwhile runs as "
    "the option catchup says.",
    "halt": "Each dispatcher and worker that runs now stops, after its current jobs. Nothing runs until you "
    "start others. A supervisor such as systemd may restart them at once.",
}
WRITES = ("unset", "limit", "unlimit", "halt")  # actions that need the role ``write``
SAYS = {"jobs": {name: action.says for name, action in ACTIONS.items()}, "queue": QUEUE_SAYS, "all": ALL_SAYS}


@dataclass(frozen=True, slots=True)
class Order:
    """An order as a form has sent it. Its texts are not checked yet."""

    action: str
    target: Target
    texts: dict[str, str] = field(default_factory=dict)  # of `FIELDS`
    digest: str = ""  # of the jobs that were shown, or of the pause of a queue
    number: int | None = None  # how many jobs were shown
    is_confirmed: bool = False
    back: str = "./"

    @classmethod
    def read(cls, form: Form) -> Self:
        """Read a form. Raise `BadConfig` for an unknown action, and what `Target.read` raises."""
        if asked := form.get("do"):
            # A button in a live fragment has the whole order as its value.
            form = Form([*form.multi_items(), *parse_qsl(asked)])
        action, target = form.get("action", ""), Target.read(form)
        known = SAYS[target.of]
        if action not in known:
            raise BadConfig(f"bad action {action!r:.40}: {', '.join(known)} are allowed for {target.of}")
        return cls(
            action,
            target,
            {name: form.get(name, "").strip() for name in FIELDS},
            form.get("digest", ""),
            int(number) if (number := form.get("number", "")[:12]).isascii() and number.isdecimal() else None,
            # A confirmation for jobs must have the digest of their set.
            bool(form.get("confirmed") and (not target.is_of_jobs or form.get("digest"))),
            read_back(form),
        )

    @property
    def verb(self) -> str:
        """The name of the action for people."""
        verbs = {"limit": "Limit", "unlimit": "Remove the limits of", "halt": "Halt"}
        return verbs.get(self.action) or ACTIONS[self.action].verb

    @property
    def role(self) -> Role:
        """The role that the sender needs."""
        return "write" if self.action in WRITES else "operate"

    @property
    def says(self) -> str:
        """Sentences that say what the action will do."""
        return SAYS[self.target.of][self.action]

    @property
    def fields(self) -> list[str]:
        """The names in `FIELDS` that the action uses."""
        return {"pause": ["until", "every", "lasting", "reason"], "limit": ["at_once", "rate"]}.get(self.action, [])

    def is_done_at_once(self, number: int) -> bool:
        """Tell whether the order needs no confirmation: it is for one job by its id, and can be undone."""
        return number == 1 and bool(self.target.selection.jobids) and not ACTIONS[self.action].is_final

    def params(self) -> list[tuple[str, str]]:
        """Return the parameters with which a form repeats this order, besides `fields`."""
        return [("action", self.action), *self.target.params()]


@dataclass(slots=True)
class Given:
    """The parsed fields of an order, and their errors by field."""

    until: float | None = None
    reason: str = ""
    blackout: Blackout | None = None
    limits: Limits = field(default_factory=Limits)
    errors: dict[str, str] = field(default_factory=dict)
    said: str = ""  # a sentence: the instant of `until` if its text is not exact, or when the blackout begins

    @classmethod
    def read(cls, order: Order, clock: Clock) -> Self:
        """Read the texts of an order. Times are in the zone of the clock. The order then has exact times."""
        given = cls()
        for name in order.fields:
            try:
                given._add(name, order.texts, clock)
            except (BadConfig, BadSchedule) as error:
                given.errors[name] = str(error)
        if order.action == "pause":
            given._read_blackout(order.texts, clock)
        if order.action == "limit" and not (given.limits or given.errors):
            given.errors["at_once"] = "neither a number at once nor a rate is given"
        if order.action == "unlimit":
            given.limits = {"at_once": None, "rate": None}
        return given

    def _read_blackout(self, texts: dict[str, str], clock: Clock) -> None:
        """Read a blackout, if the order has one."""
        until, every, lasting = (texts.get(name) or None for name in ("until", "every", "lasting"))
        if every is None and lasting is None:
            return
        field_name = "lasting" if every is not None and lasting is None else "every"
        try:
            check_together(until, every, lasting)
            assert every is not None
            field_name = "lasting"
            read_length(lasting)
            field_name = "every"
            self.blackout = check_blackout(every, lasting, "page", self.reason, clock.zone, clock.now)
            self.said = f" It is {describe_next(self.blackout, clock)}."
        except (BadConfig, BadSchedule) as error:
            self.errors[field_name] = str(error)

    def _add(self, name: str, texts: dict[str, str], clock: Clock) -> None:
        text = texts.get(name, "")
        if name == "reason":
            self.reason = check_reason(text)
        elif not text or name in ("every", "lasting"):
            return
        elif name == "until":
            moment, exact = read_moment(text, clock)
            self.until = check_until(moment, clock.now, text)
            if exact != text:
                self.said = f" The time {text!r:.80} is {clock.name(moment)}."
                texts[name] = exact
        elif name == "rate":
            self.limits["rate"] = read_limit(name, text)
        else:
            self.limits["at_once"] = read_limit(name, text)


def count_words(known: dict[str, str], words: dict[str, int]) -> list[tuple[str, int]]:
    """Return a text and the number of jobs for each result, in the order of `known`."""
    first = next(iter(known.values()))
    found = dict.fromkeys(known.values(), 0)
    for word, number in words.items():
        found[known.get(word, first)] += number
    return [(said, number) for said, number in found.items() if number]
