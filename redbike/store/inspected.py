"""All that is stored of one job, at one instant."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from redbike.config.options import find_all_of, find_backfill, is_readable, show_options
from redbike.schedule.moments import AWAITED
from redbike.store.archived import read_runs
from redbike.store.backfill import read_last, read_record
from redbike.store.details import JobDetails
from redbike.store.enums import Event, Skip
from redbike.store.group_counts import GroupCounts, GroupDetails
from redbike.store.keys import OWNER
from redbike.store.links import find_subscribers
from redbike.store.namespace import read_json
from redbike.store.outputs import read_newest
from redbike.store.processes import ProcessRecord
from redbike.store.records import (
    COUNT,
    RETRY_STATE,
    Membership,
    Pause,
    Progress,
    RetryState,
    RunRecord,
    Status,
    Waiting,
    parse_number,
)
from redbike.store.schedules import read_schedule
from redbike.store.scripts import Reply
from redbike.text.group_names import MARK, is_jobid
from redbike.text.parsing import load_json, load_object

FOLLOWER = "record of what it follows"  # its name in `JobState.unreadable`
_FOLLOWER = {"parents": list, "when": str, "ended": dict}
NULLABLE = ("worker", "data")  # keys of `JobDetails` whose value may be None
STORED = ("schedule", "status", "timeline", "queued", "running", "pause", "timer")  # the script `repair` compares these


@dataclass(frozen=True, slots=True)
class JobState:
    """All that is kept of one job, at one instant; what is missing is None, "" or 0."""

    jobid: str
    schedule: str | None
    status: str | None
    timeline: float | None
    queued: str
    running: str
    tag: str  # of its run, or else the tag that the caller gave; `lease` and `inflight_ms` are of this tag
    lease: float | None
    inflight_ms: int  # until the in-flight key expires; -1 if it does not expire, -2 if there is none
    retry_state: str
    skipped: dict[str, int]
    failure: dict[str, Any] | None
    now: float = field(compare=False)  # Redis' clock then
    entries: dict[str, int]  # how often it is in the list of each queue that was searched
    tombstones: frozenset[str] = frozenset()  # those of these queues in which it has a tombstone
    # Which of its records are damaged: retry state, failure, pause, options, history, reasons of skips, `FOLLOWER`.
    unreadable: tuple[str, ...] = ()
    stored: dict[str, str] = field(default_factory=dict)  # those of `STORED` that exist, as Redis spells them
    paused: str = ""
    timer: float | None = None  # when its pause ends by itself
    expires_at: float | None = None  # the timer of its expiry; the occurrence may not wait any more
    spent: float | None = None  # when it is forgotten, as a one-off that has ended
    options: str = ""  # as they are stored
    has_data: bool = False
    membership: str = ""  # the record of whose row it is
    has_output: bool = False
    has_saved: bool = False  # whether something is saved for the next try of an occurrence
    progress: str = ""  # the record of the progress of a run
    history: bytes = b""  # its archived runs, as they are stored
    data: str = field(default="", compare=False)  # JSON, if it was asked for
    output: str | None = field(default=None, compare=False)  # of its last run, if it is kept and data were asked for
    follows: dict[str, Any] | None = None  # its record as a follower; None if it has none, or a damaged one
    is_listed: bool = True  # whether each of its parents has it as a follower
    followers: tuple[str, ...] = ()  # the jobs that follow it
    subscribers: tuple[int, ...] = ()  # the numbers of the shards with followers of it
    backfill: str = ""  # the record of its backfill that is under way
    trails: bool = False  # whether a backfill has left occurrences of jobs that follow it
    backfilled: str = field(default="", compare=False)  # its ended backfills, if data were asked for
    member_of: str = ""  # the group to which it belongs, until it has ended; "" for none
    is_counted: bool = True  # whether the links between that group and the job are complete
    awaited: GroupCounts | None = None  # of the group that it follows, or has followed; None if it follows none
    worker: str = field(default="", compare=False)  # the record of the process that runs it, if data were asked for

    def count_entries(self, name: str) -> int:
        """Return how often it is in the list of the queue `name`, not counting a tombstone."""
        return self.entries.get(name, 0) - (name in self.tombstones)

    @property
    def run(self) -> RunRecord | None:
        """Its run in flight; None if there is none, or a damaged record."""
        return RunRecord.parse(self.running)

    @property
    def waiting(self) -> Waiting | None:
        """Its place in a queue; None if there is none, or a damaged record."""
        return Waiting.parse(self.queued)

    @property
    def waits_since(self) -> float | None:
        """Since when it waits in a queue, which may be later than its due time; None if it does not wait."""
        if (waiting := self.waiting) is None:
            return None
        status = Status.parse(self.status)
        return max(waiting.due, status.time) if status and status.event is Event.ENQ else waiting.due

    @property
    def waits_until(self) -> float | None:
        """When the occurrence that waits in a queue expires; None if none does."""
        if self.expires_at is None or not self.waiting or RetryState.parse(self.retry_state).has_begun:
            return None
        schedule = read_schedule(self.jobid, self.schedule, self.options)
        return None if schedule is None or schedule.allows_pause else self.expires_at

    @property
    def due(self) -> float | None:
        """When it is due on the timeline; None if it is not on it, or waits for its parents."""
        return None if self.timeline is None or self.timeline >= AWAITED else self.timeline

    @property
    def waits_for(self) -> list[str]:
        """The parents of a follower that have not ended since its last due time."""
        parents, ended = (self.follows or {}).get("parents", ()), (self.follows or {}).get("ended", ())
        return [parent for parent in parents if parent not in ended]

    @property
    def awaited_group(self) -> str:
        """The name of the group that it follows; "" if it follows none."""
        parent = (self.follows or {}).get("parents", ("",))[0]
        return parent.removeprefix(MARK) if parent.startswith(MARK) else ""

    @property
    def has_counts(self) -> bool:
        """Whether its record has the counts of the group that it has followed."""
        return isinstance((self.follows or {}).get("group"), dict)

    @property
    def pause(self) -> Pause | None:
        """Its pause; None if it is not paused, or a damaged record."""
        return Pause.parse(self.paused)

    @property
    def held(self) -> float | None:
        """When the occurrence that its pause holds would be due on the timeline; None if it holds none."""
        return self.pause.due if self.pause and self.pause.due != AWAITED else None

    @property
    def dropped(self) -> float | None:
        """When it was due, if it was a one-off that was late or expired before its run; None if it was not dropped."""
        retry_state = RetryState.parse(self.retry_state)
        return retry_state.due if self.has_event(Event.STP) and not retry_state.tries else None

    def has_event(self, event: Event) -> bool:
        """Tell whether its status, which may be damaged, has this event."""
        return (self.status or "").startswith(f"{event}:")

    def _describe_group(self) -> GroupDetails | None:
        return self.awaited.to_dict(self.awaited_group) if self.awaited_group and self.awaited else None

    def to_dict(self) -> JobDetails:
        """Return its details: the keys of every job first, then those that apply to it."""
        retry_state, membership = RetryState.parse(self.retry_state), Membership.parse(self.membership)
        is_forgotten = self.has_event(Event.STP) and not membership.one_off  # the row of a file stays
        found = {
            "queued_for": self.waiting and self.waiting.due,
            "expires_at": self.waits_until,
            "waits_for": list(filter(is_jobid, self.waits_for)) or None,
            "follows_group": self._describe_group(),
            "followers": list(self.followers) or None,
            "backfill": read_record(self.backfill),
            "last_backfill": read_last(self.backfilled),
            "backfill_of": find_backfill(self.options)[0] or None,
            "host_of": find_all_of(self.options)[0] or None,
            "paused": self.pause and self.pause.to_dict(),
            "held_for": self.held,
            **(self._describe_run(self.run) if self.run else {}),
            "failures": retry_state.failures or None,
            "losses": retry_state.losses or None,
            "forget_at": self.spent if is_forgotten else None,
            "skipped": self.skipped or None,
            "failure": self.failure,
            "options": show_options(self.options) or None,
            **({"data": load_json(self.data, self.data)} if self.data else {}),
            "group": membership.group or None,
            "output": self.output,
        }
        always = {"status": self.status, "next_run": self.due, "schedule": self.schedule, "working": bool(self.running)}
        told = {name: value for name, value in found.items() if value is not None or name in NULLABLE}
        return cast(JobDetails, always | told)

    def _describe_run(self, run: RunRecord) -> dict[str, Any]:
        progress, process = Progress.parse(self.progress, run.tag), ProcessRecord.parse(self.worker)
        return {
            "working_for": run.due,
            "working_since": run.start,
            "deadline": run.deadline,
            "worker": process.format_id(run.tag[:OWNER]) if process else None,
            "cancelled": run.cancelled or None,
            "progress": progress and progress._asdict(),
        }


# The texts, and the numbers, of a `JobState`, each with its name in the reply of ``lua/inspect.lua``.
_TEXTS = {name: name for name in ("queued", "running", "tag", "retry_state", "options", "progress", "data", "worker")}
_TEXTS |= {"paused": "pause", "membership": "group", "backfill": "backfill", "backfilled": "backfilled"}
_NUMBERS = {"timeline": "timeline", "lease": "lease", "timer": "timer", "expires_at": "expires", "spent": "spent"}


def read_job(jobid: str, queues: Sequence[str], reply: Reply) -> JobState:
    """Read the reply of ``lua/inspect.lua``, which has searched the lists of `queues` for the job."""
    found = read_json(reply[1])
    counts = dict(zip(map(str, Skip), (count or "0" for count in found["skipped"]), strict=True))
    past = bytes(reply[2]) if len(reply) > 2 else b""
    bad_counts = (reason for reason, count in counts.items() if not COUNT.fullmatch(count))
    unreadable = (*bad_counts, *_list_unreadable(found, past))
    texts: dict[str, Any] = {field: found.get(name, "") for field, name in _TEXTS.items()}
    texts |= {name: "" for name in ("retry_state", "options") if name.replace("_", " ") in unreadable}
    numbers: dict[str, Any] = {field: parse_number(found.get(name)) for field, name in _NUMBERS.items()}
    return JobState(
        jobid=jobid,
        schedule=found.get("schedule"),
        status=found.get("status"),
        **texts,
        **numbers,
        inflight_ms=int(found.get("hold", -2)),
        skipped={reason: int(count) for reason, count in counts.items() if reason not in unreadable and int(count)},
        failure=load_object(found.get("failure", "")),
        now=float(found["now"]),
        entries=dict(zip(queues, found["entries"] or (), strict=True)),
        tombstones=frozenset(name for name, dead in zip(queues, found["dead"] or (), strict=True) if dead),
        unreadable=unreadable,
        **{name: found[name] for name in ("has_data", "has_output", "has_saved", "trails")},
        history=b"" if "history" in unreadable else past,
        follows=read_follower(found.get("following", "")),
        is_listed=all((found["listed"] or {}).values()),
        followers=tuple(sorted(filter(is_jobid, found["followers"].split("\n")))),
        subscribers=find_subscribers(found["followers"]),
        member_of=found.get("member", ""),
        is_counted=found.get("counts", True),
        awaited=_read_awaited(found),
        output=read_newest(found.get("output")) if found["has_output"] else None,
        stored={name: found[name] for name in STORED if name in found},
    )


def read_follower(text: str) -> dict[str, Any] | None:
    """Return the record of a follower; None if there is none, or if it is damaged."""
    found = load_object(text)
    return found if found and all(isinstance(found.get(name), kind) for name, kind in _FOLLOWER.items()) else None


def _read_awaited(found: dict[str, Any]) -> GroupCounts | None:
    """Return the counts of the group for which a job waits, or of the ended group that made it due."""
    if "left" not in found:
        return None
    kept = (read_follower(found["following"]) or {}).get("group")
    # If the job waits again, these counts are of the time before.
    if isinstance(kept, dict) and not found["left"]:
        return GroupCounts.read(kept, 0)
    return GroupCounts.parse(found.get("awaited", ""), found["left"])


def _list_unreadable(found: dict[str, Any], past: bytes) -> Iterator[str]:
    """Yield which records of a job are damaged; `past` are its ended runs."""
    if (retry_state := found.get("retry_state")) and not RETRY_STATE.fullmatch(retry_state):
        yield "retry state"
    if (failure := found.get("failure")) and load_object(failure) is None:
        yield "failure"
    if "pause" in found and Pause.parse(found["pause"]) is None:
        yield "pause"
    if not is_readable(found.get("options", "")):
        yield "options"
    if "following" in found and read_follower(found["following"]) is None:
        yield FOLLOWER
    if past and read_runs("", past) is None:
        yield "history"
