"""All that is kept of one tag, at one instant."""

from dataclasses import dataclass

from redbike.store.namespace import read_json
from redbike.store.records import RunRecord, parse_batch, parse_number
from redbike.store.scripts import Reply


@dataclass(frozen=True, slots=True)
class TagState:
    """All that is kept of one tag, at one instant."""

    tag: str
    listed: list[str] | None  # the jobs in flight under it; None without such a list
    deadlines: dict[str, float]  # of the runs that have this tag, by job id
    lease: float | None
    inflight_ms: int  # left to its in-flight key; -1 if that does not expire, -2 if there is none
    kind: str  # the type of that key
    named: list[str]  # the jobs that it has, which were taken under the tag
    now: float  # Redis' clock then


def read_tag(tag: str, reply: Reply) -> TagState:
    """Read the reply of ``lua/inspect_tag.lua``."""
    found = read_json(reply[1])
    records = {jobid: RunRecord.parse(record) for jobid, record in (found["runs"] or {}).items()}
    return TagState(
        tag=tag,
        listed=parse_batch(found["listed"]) if "listed" in found else None,
        deadlines={jobid: record.deadline for jobid, record in records.items() if record},
        lease=parse_number(found.get("lease")),
        inflight_ms=int(found["hold"]),
        kind=found["kind"],
        named=parse_batch(found.get("named", "")),
        now=float(found["now"]),
    )
