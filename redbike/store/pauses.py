"""The transitions of pauses: a job is paused, and what waits of it is held until it is resumed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from redbike.schedule.parser import is_one_off
from redbike.store.enums import Skip
from redbike.store.inspected import JobState
from redbike.store.log import describe_pause
from redbike.store.namespace import STEP, Part, number_queues, split
from redbike.store.records import RetryState, decode, format_time, make_note
from redbike.store.scripts import Call

JOB_TIMER = "job:"  # what the timer of the pause of a job begins with


@dataclass(slots=True)
class Resumption:
    """Where a paused job goes on; see ``lua/resume.lua``."""

    due: float | None = None  # of what is held; None if nothing is
    occurrence: float | None = None  # its own due time, if it is tried again at `due`
    spent: bool = False  # the schedule has nothing left; a one-off ends
    retry_state: str = ""  # the record of a `RetryState`; "" leaves what there is
    skipped: Mapping[Skip, int] = field(default_factory=dict)  # occurrences that are passed over


class Pauses(Part):
    """Pauses and resumes jobs."""

    def pause(
        self, jobids: Sequence[str], until: float | None, by: str, reason: str, since: float | None = None,
        of_base: bool = False, every: str | None = None, own_end: float | None = None
    ) -> list[str]:  # fmt: skip
        """Pause jobs, none of them twice, `STEP` in each step; return a word of ``lua/pause.lua`` for each.

        The pauses end by themselves at `until`, if that is not None. They began at `since`, or now. `by` and `reason`
        are for people. `of_base`: it is the pause of their base; `every`: it is that of a blackout of these times;
        `own_end`: a blackout has lengthened it, and this is its own end.
        """
        given: dict[str, Any] = {"note": make_note(by, reason, every, of_base, own_end)}
        given["detail"] = describe_pause(until, reason)
        if until is not None:
            given["ends"] = until
        if since is not None:
            given["since"] = since
        words: dict[str, str] = {}
        homes: dict[str, str] = {}
        left = list(jobids)
        while left:
            # One that waits elsewhere than this worker class says is paused there.
            calls = [self._pack_pause(page, homes, given) for page in split(left, STEP)]
            replies = self._namespace.scripts.run_all(calls)
            said = [decode(word) for reply in replies for word in reply[1:]]
            words.update(zip(left, said, strict=True))
            homes = {jobid: words[jobid].partition(" ")[2] for jobid in left if words[jobid].startswith("elsewhere ")}
            left = list(homes)
        return [words[jobid] for jobid in jobids]

    def _pack_pause(self, jobids: Sequence[str], homes: Mapping[str, str], given: dict[str, Any]) -> Call:
        queues = number_queues(
            name for name in (homes.get(jobid) or self._namespace.find_queue(jobid) for jobid in jobids) if name
        )
        return self._namespace.pack("pause", queues, jobs=jobids, **given)

    def resume(self, resumed: Sequence[tuple[JobState, Resumption]]) -> list[str]:
        """Resume jobs, each in a step of its own; return a word of ``lua/resume.lua`` for each."""
        replies = self._namespace.scripts.run_all(self._pack_resume(*each) for each in resumed)
        return [decode(reply[1]) if reply[0] == "ok" else str(reply[0]) for reply in replies]

    def _pack_resume(self, state: JobState, resumption: Resumption) -> Call:
        moments = {"due": resumption.due, "occurrence": resumption.occurrence, "schedule": state.schedule}
        given: dict[str, Any] = {name: value for name, value in moments.items() if value is not None}
        given |= {"pause": state.paused, "flies": bool(state.running), "skipped": resumption.skipped}
        if resumption.spent:
            given["spent"] = True
            if is_one_off(state.schedule or ""):
                given["once"] = self._namespace.forget_after
        if resumption.retry_state:
            given["retry_state"] = resumption.retry_state
        if expiry := self._find_expiry(state, resumption):
            given["expiring"] = {state.jobid: expiry}
        home = self._namespace.find_queue(state.jobid)
        return self._namespace.pack("resume", [home] if home else [], job=state.jobid, **given)

    def _find_expiry(self, state: JobState, resumption: Resumption) -> str:
        """Return when what is held expires, if it is enqueued; "" for never."""
        expires, due = self._namespace.find_expires(state.options), resumption.occurrence or resumption.due
        kept = RetryState.parse(resumption.retry_state or state.retry_state)
        if not expires or due is None or kept.has_begun:
            return ""
        return format_time((state.now if kept.after == due else due) + expires)
