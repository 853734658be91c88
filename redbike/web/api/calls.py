"""One request of the API, as its handler sees it: the sender, the parameters and the body."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from starlette.datastructures import Headers, QueryParams
from starlette.responses import Response

from redbike.config.labels import read_filter
from redbike.config.settings import check_zone, read_count
from redbike.errors import BadConfig, NoSuchJob
from redbike.queries.following.family import Family
from redbike.queries.following.remarks import find_hidden
from redbike.schedule.clock import Clock
from redbike.schedule.typed_times import read_time
from redbike.store.names import check_known_jobid
from redbike.store.patterns import check_pattern, compile_patterns
from redbike.text.parsing import is_number, refuse_constant
from redbike.text.printable import quote
from redbike.web.api.problems import Problem, dump
from redbike.web.control import Steerer
from redbike.web.permits import Permit
from redbike.web.site import Site

LIMIT, MOST = 100, 1000  # rows of a page: the default, and the most
MOST_PATTERNS = 100
TRUE, FALSE = ("1", "true", "yes", ""), ("0", "false", "no")
JSON = "application/json"


@dataclass(frozen=True)
class Call:
    """An authorized request. Its sender has the role that the route needs."""

    site: Site
    permit: Permit
    who: str  # for the log
    headers: Headers
    query: QueryParams
    params: Mapping[str, str] = field(default_factory=dict)  # of the path
    body: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def clock(self) -> Clock:
        """A clock that stands at Redis' time when it is first used, in the zone of the settings."""
        return self.site.read_clock()

    @cached_property
    def steerer(self) -> Steerer:
        """A `Steerer`, which changes jobs in the name of the sender."""
        return Steerer(self.site.bike, self.who)

    @property
    def jobid(self) -> str:
        """The id of the job in the path. Raise `BadJobId`, or `Problem` if the sender's token excludes this job."""
        jobid = check_known_jobid(self.params["id"])
        if not self.permit.fits(jobid):
            raise Problem(403, f"the token{self.permit.whose} is not for the job {jobid!r}")
        return jobid

    @property
    def known_jobid(self) -> str:
        """The id of the job in the path, as `jobid`. Also raise `NoSuchJob` if there is no such job."""
        jobid = self.jobid
        if not self.site.bike.store.catalog.has_job(jobid, also_bad=True):
            raise NoSuchJob(f"no such job: {jobid!r}")
        return jobid

    def list_hidden(self, jobids: Iterable[str]) -> set[str]:
        """Return the ids among `jobids` that follow jobs which the token excludes: a due time would reveal these."""
        if not self.permit.jobs:
            return set()
        family, wanted = Family(self.site.bike.store), frozenset(jobids)
        family.read_parents(wanted)
        return find_hidden(family, self.permit.fits) & wanted

    def get_flag(self, name: str) -> bool:
        """Return the value of a parameter that is true or false. It is false by default. Raise `BadConfig`."""
        text = self.query.get(name)
        if text is not None and text.lower() not in TRUE + FALSE:
            raise BadConfig(f"bad {name} {text!r:.40}: true and false are allowed")
        return text is not None and text.lower() in TRUE

    def get_count(self, name: str, default: int, most: int) -> int:
        """Return the value of a parameter that is a number from 1 to `most`. Raise `BadConfig`."""
        text = self.query.get(name)
        return default if text is None else read_count(name, text, most)

    @property
    def limit(self) -> int:
        """The most rows of the page. Raise `BadConfig`."""
        return self.get_count("limit", LIMIT, MOST)

    def get_time(self, name: str, looks_back: bool = False) -> float | None:
        """Return the value of a parameter that is a TIMESTAMP, in epoch seconds; None for none. Raise `BadSchedule`."""
        text = self.query.get(name)
        return None if text is None else read_time(text, self.clock.now, self.clock.zone, looks_back).instant

    def get_instant(self, name: str, zone: str | None = None) -> float | None:
        """Return a member of the body that is a time, in epoch seconds; None without it. It may be a TIMESTAMP.

        A time without a zone is in `zone`, or else in the zone of the settings. Raise `BadConfig` or `BadSchedule`.
        """
        value = self.body.get(name)
        if value is None or is_number(value):
            return value
        if not isinstance(value, str):
            raise BadConfig(f"bad {name} {quote(value)}: epoch seconds, or a text such as 22:45, are needed")
        local = self.clock.zone if zone is None else check_zone(zone)
        return read_time(value, self.clock.now, local).instant

    def get_text(self, name: str) -> str | None:
        """Return a member of the body that is a text; None without it. Raise `BadConfig`."""
        value = self.body.get(name)
        if value is not None and not isinstance(value, str):
            raise BadConfig(f"bad {name} {quote(value)}: a text is needed")
        return value

    @property
    def patterns(self) -> list[str]:
        """The patterns of the request; [] for all jobs. Raise `BadJobId` or `BadConfig`."""
        return read_patterns(self.query)

    @property
    def tags(self) -> frozenset[str]:
        """The tags of the request; a job must have one of them. The set is empty for all jobs. Raise `BadConfig`."""
        return read_filter(self.query.getlist("tag") or None)

    def compile(self) -> Callable[[str], bool]:
        """Return a function that tells whether a job id matches the patterns, and the token includes the job."""
        return compile_both(compile_patterns(self.patterns), self.permit.fits)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: its status, and a value that is sent as JSON."""

    value: Any = None
    status: int = 200

    def make(self) -> Response:
        """Return the response."""
        if self.status == 204:
            return Response(status_code=204)
        return Response(dump(self.value), self.status, media_type=JSON)


def compile_both(one: Callable[[str], bool], other: Callable[[str], bool]) -> Callable[[str], bool]:
    """Return a function that tells whether an id fits both."""
    return lambda jobid: one(jobid) and other(jobid)


def read_patterns(query: QueryParams) -> list[str]:
    """Return the patterns in a query; [] for all jobs. Raise `BadJobId`, or `BadConfig` for too many."""
    found = [check_pattern(text) for text in query.getlist("pattern")]
    if len(found) > MOST_PATTERNS:
        raise BadConfig(f"bad pattern: {len(found)} are given, {MOST_PATTERNS} are allowed")
    return found


def parse_body(text: bytes) -> dict[str, Any]:
    """Return the members of a body; {} for an empty body. Raise `Problem` if it is not a JSON object."""
    if not text.strip():
        return {}
    try:
        found = json.loads(text.decode(), parse_constant=refuse_constant, object_pairs_hook=_refuse_twice)
    except RecursionError:
        raise Problem(400, "bad body: lists and objects are too deep in each other") from None
    except ValueError as error:
        raise Problem(400, f"bad body: not JSON: {error!s:.80}") from None
    if not isinstance(found, dict):
        raise Problem(400, f"bad body {quote(found)}: an object is needed")
    return found


def _refuse_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a member twice")
    return found
