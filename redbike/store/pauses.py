"""The transitions of pauses: a job is paused, and its waiting occurrence is held until the job is resumed."""

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

JOB_TIMER = "job:"  # the timer of a job's pause begins with it


@dataclass(slots=True)
class Resumption:
    """The next state of a paused job that is resumed; see ``lua/resume.lua``."""

    due: float | None = None  # when the held occurrence is due now; None if none is held
    occurrence: float | None = None  # its own due time, if it is tried again at `due`
    spent: bool = False  # whether the schedule has nothing left: a one-off ends
    retry_state: str = ""  # the record of a `RetryState`; "" leaves the stored one
    skipped: Mapping[Skip, int] = field(default_factory=dict)  # occurrences that are skipped, by reason


class Pauses(Part):
    """Pauses and resumes jobs."""

    def pause(
        self, jobids: Sequence[str], until: float | None, by: str, reason: str, since: float | None = None,
        of_base: bool = False, every: str | None = None, own_end: float | None = None
    ) -> list[str]:  # fmt: skip
        """Pause jobs, none of them twice, `STEP` in each step; return a word of ``lua/pause.lua`` for each.

        The pauses end by themselves at `until`, if that is not None. They began at `since`, or now. `by` and `reason`
        are for people. With `of_base`, it is the pause of their base. `every` is the schedule of the blackout that
        pauses them. `own_end` is the pause's own end, if a blackout has lengthened it.
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
            # A job that waits in the queue of another worker class: declare that queue instead.
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
        """Resume jobs, each in its own step; return a word of ``lua/resume.lua`` for each."""
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
        """Return when the held occurrence expires if it is enqueued, as records have times; "" for never."""
        expires, due = self._namespace.find_expires(state.options), resumption.occurrence or resumption.due
        kept = RetryState.parse(resumption.retry_state or state.retry_state)
        if not expires or due is None or kept.has_begun:
            return ""
        return format_time((state.now if kept.after == due else due) + expires)
