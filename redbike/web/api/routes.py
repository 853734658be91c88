"""The table of the API. Each route has a method, a path, its parameters, its reply, and the role that it needs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from redbike.queries.forecast import MOST_HOURS
from redbike.store.tokens import Role
from redbike.web.api import jobs, lists, queues
from redbike.web.api.calls import LIMIT, MOST, Answer, Call
from redbike.web.api.schemas import ANYTHING, COUNT, FLAG, NUMBER, SAID_TIME, TEXT, Body, Schema, or_null, refer

PREFIX = "/api"

Handle = Callable[[Call], Answer]


@dataclass(frozen=True, slots=True)
class Given:
    """A parameter in the query of a URL."""

    name: str
    schema: Schema
    text: str
    may_repeat: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """A route of the API. If it `is_whole`, it is about more than single jobs, and refuses tokens for some jobs."""

    method: str
    path: str  # below `PREFIX`; {id} and {name} are whole segments
    role: Role
    handle: Handle
    summary: str
    reply: str = ""  # the name of the schema; "" for none
    query: Sequence[Given] = ()
    body: Body | None = None
    is_whole: bool = False
    may_create: bool = False

    @property
    def name(self) -> str:
        """The name of the route in the document, such as ``run_job``."""
        return self.handle.__name__


PATTERN = Given(
    "pattern", TEXT, "Only jobs with these ids, or matching these patterns of `*`, `?` and `[…]`", may_repeat=True
)
TAG = Given("tag", TEXT, "Only jobs with this tag, or one of several", may_repeat=True)
QUEUE = Given("queue", TEXT, "Only jobs of this queue")
STATUS = Given("status", TEXT, "TML, ENQ, WRK, STP, DIE or BAD")
PAGE = (
    Given("limit", COUNT | {"minimum": 1, "maximum": MOST}, f"The most rows; the default is {LIMIT}"),
    Given("cursor", TEXT, "The cursor that came with the page before"),
)
SINCE = Given("since", TEXT, "Only runs that started then or later")
FAILED = Given("failed", FLAG, "Only what went wrong")
FLAGS = tuple(Given(name, FLAG, f"Only jobs that are {name.replace('_', ' ')}") for name in lists.FLAGS)
CHANGES = (
    Given("jobid", TEXT, "Only changes of this job"),
    Given("since", TEXT, "Only what was changed then or later"),
    Given("who", TEXT, "Only changes by people whose names contain this, in upper or lower case"),
)
COUNT_OF_NEXT = Given("count", COUNT | {"minimum": 1, "maximum": jobs.MOST_COUNT}, "How many due times")
AFTER = Given("after", TEXT, "The instant after which they are")
AT = Given("at", TEXT, "An instant that is past")
HOURS = Given("hours", COUNT | {"minimum": 1, "maximum": MOST_HOURS}, "How many hours to look ahead")

SET = Body(
    {
        "schedule": (TEXT, "The schedule, as `redbike set` takes it"),
        "tz": (or_null(TEXT), "The zone of times without a zone; the default is that of the settings"),
        "after": (SAID_TIME, "The instant from which occurrences count"),
        "options": (refer("Options"), "Options that are not given do not change; null resets one"),
        "data": (ANYTHING, "Any JSON, for the worker; without it the data do not change; null removes them"),
    },
    ["schedule"],
)
PAUSE = Body(
    {
        "until": (SAID_TIME, "When the pause ends by itself"),
        "reason": (TEXT, "The reason, for people"),
        "every": (TEXT, "A schedule: at each of its times a pause begins"),
        "for": ({"anyOf": [NUMBER, TEXT]}, "With `every`, how long each time"),
    }
)
RESUME = Body({"every": (FLAG, "Also end the blackout that `every` has set, for good")})
LIMITS = Body(
    {
        "at_once": (or_null(COUNT), "How many of its jobs may run at once; null for any number"),
        "rate": (or_null(TEXT), "How many may begin in a time, such as 100/m; null for any number"),
    }
)
FAILING = "Jobs that have failed and not succeeded since"


def _get(
    path: str, handle: Handle, summary: str, reply: str, query: Sequence[Given] = (), is_whole: bool = False
) -> Route:
    return Route("GET", path, "read", handle, summary, reply, query, is_whole=is_whole)


def _post(path: str, role: Role, handle: Handle, summary: str, reply: str = "", body: Body | None = None) -> Route:
    """Return a route that makes changes. It refuses tokens for some jobs, unless its path names a job."""
    is_whole = not path.startswith("/jobs/{id}/")
    return Route("POST", path, role, handle, summary, reply, body=body or Body(), is_whole=is_whole)


ROUTES = (
    _get("/jobs", lists.list_jobs, "Jobs, in no order", "JobPage", (PATTERN, TAG, QUEUE, STATUS, *FLAGS, *PAGE)),
    _get("/jobs/{id}", jobs.tell_job, "All about a job, as `redbike tell`", "JobDetails"),
    Route("PUT", "/jobs/{id}", "write", jobs.set_job, "Set a job", "JobSet", body=SET, may_create=True),
    Route("DELETE", "/jobs/{id}", "write", jobs.unset_job, "Unset a job: remove it, with its options and data", "Done"),
    _get("/jobs/{id}/runs", lists.list_runs_of_job, "The ended runs of a job", "RunPage", (FAILED, SINCE, *PAGE)),
    _get("/jobs/{id}/next", jobs.list_next, "When a job runs next", "Next", (COUNT_OF_NEXT, AFTER)),
    _get("/jobs/{id}/why", jobs.explain_job, "Why a job does not run", "Why", (AT,)),
    _post("/jobs/{id}/run", "operate", jobs.run_job, "Run a job once now", "Done"),
    _post("/jobs/{id}/cancel", "operate", jobs.cancel_job, "Cancel what waits or runs", "Done"),
    _post("/jobs/{id}/pause", "operate", jobs.pause_job, "Pause a job", "Done", PAUSE),
    _post("/jobs/{id}/resume", "operate", jobs.resume_job, "Resume a job", "Done", RESUME),
    _get("/runs", lists.list_runs, "Ended runs, the newest first", "RunPage", (PATTERN, TAG, FAILED, SINCE, *PAGE)),
    _get("/failures", lists.list_failures, FAILING, "FailurePage", (PATTERN, TAG, *PAGE)),
    _get("/queues", lists.list_queues, "All queues", "QueuePage", PAGE),
    _get("/queues/{name}", lists.show_queue, "A queue", "Queue"),
    _post("/queues/{name}/pause", "operate", queues.pause_queue, "Pause a queue", "QueueDone", PAUSE),
    _post("/queues/{name}/resume", "operate", queues.resume_queue, "Resume a queue", "QueueDone", RESUME),
    _post("/queues/{name}/limit", "write", queues.limit_queue, "Limit a queue", "QueueLimits", LIMITS),
    _post("/pause", "operate", queues.pause_all, "Pause everything", "QueueDone", PAUSE),
    _post("/resume", "operate", queues.resume_all, "Resume everything", "QueueDone", RESUME),
    _post("/halt", "write", queues.halt, "Stop all dispatchers and workers"),
    _get("/workers", lists.list_workers, "Dispatchers and workers", "WorkerPage", PAGE),
    _get("/agenda", lists.list_agenda, "What will run, and when", "AgendaRowPage", (PATTERN, TAG, HOURS, AFTER, *PAGE)),
    _get("/log", lists.list_log, "What people have changed", "LogEntryPage", (PATTERN, *CHANGES, *PAGE)),
    _get("/health", lists.show_health, "Whether all is well", "Health", (PATTERN,), is_whole=True),
)


def match(path: list[str]) -> Iterator[tuple[Route, dict[str, str]]]:
    """Yield the routes that match a path, for any method, each with the values of {id} and {name}."""
    for route in ROUTES:
        segments = route.path.split("/")[1:]
        pairs = list(zip(segments, path, strict=False))
        if len(segments) == len(path) and all(own == given or own[0] == "{" for own, given in pairs):
            yield route, {own[1:-1]: given for own, given in pairs if own[0] == "{"}
