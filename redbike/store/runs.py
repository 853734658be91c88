"""The transitions of runs: a worker takes jobs from queues, sends heartbeats for them, and ends or releases them.

Runs that are taken together share one tag, and so one lease.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from redbike.config.options import parse_options
from redbike.errors import LostRun
from redbike.schedule.parser import is_one_off
from redbike.store.entries import NOT_BEGUN, mark_of_backfill, pack_entry
from redbike.store.enums import Outcome
from redbike.store.history import pack_run
from redbike.store.lease import GRACE, LEASE
from redbike.store.namespace import Namespace, name_process, number_queues, read_json
from redbike.store.next_state import Answer, EndedRun, NextState
from redbike.store.outputs import count_older, pack_output
from redbike.store.records import Progress, RetryState, decode, encode, format_time
from redbike.store.run import Poll, Run
from redbike.store.scripts import Call, Reply

NOTHING_TOLD = Progress(0.0)  # the server may have some progress of a run
_ACCEPTED = {place: Answer("ok", place) for place in ("timeline", "queue", "held", "stopped", "unset")}


class Runs:
    """Takes jobs, and ends their runs.

    The last `failures_limit` failures are kept. Of each job, the last `history` ended runs are kept, unless the job has
    an option of that name.
    """

    def __init__(self, namespace: Namespace, failures_limit: int, history: int) -> None:
        self._namespace = namespace
        self._failures_limit = failures_limit
        self._history = history

    def take(self, poll: Poll, tag: str, most: int, control: str = "") -> list[Run] | Literal["halted"]:
        """Take up to `most` jobs in one step, all under `tag`, in the order in which they are to be run.

        `control` is the signal that was there when the worker started: the worker ignores this one.
        """
        call = self.pack_take(poll, tag, most, control)
        reply: Reply = ["again"]
        while reply[0] == "again":
            reply = self._namespace.scripts.run(call)
        return self.read_take(reply, tag)

    def pack_take(
        self, poll: Poll, tag: str, most: int, control: str = "", repeated: bool = False, idle_owner: str = ""
    ) -> Call:
        """Return the call that takes jobs. After a lost reply, call it `repeated` with the tag to get the same jobs.

        `idle_owner` is the owner of an idle worker: if there are no jobs, it counts as seen; see `read_registration`.
        """
        names, timeouts = [name for name, _ in poll.queues], [timeout for _, timeout in poll.queues]
        given = {"tag": tag, "control": control, "most": most, "repeated": repeated, "lease": LEASE, "grace": GRACE}
        if poll.strict:
            given["strict"] = True
        if idle_owner:
            given["idle_owner"] = idle_owner
        return self._namespace.pack("take", names, timeouts=timeouts, turns=list(poll.turns), **given)

    def read_take(self, reply: Reply, tag: str) -> list[Run] | Literal["halted"]:
        """Return the runs from the reply to `pack_take`; [] for ``again``: then the caller repeats the request."""
        if reply[0] != "ok":
            return "halted" if reply[0] == "halted" else []
        received, prefix = time.monotonic(), self._namespace.keys.prefix
        worker = name_process(tag, self._namespace.host)
        start, ends, retry_states, jobids, dues, schedules, homes, more, *paused = read_json(reply[1])
        began, runs = float(start), []
        deadlines = {name: float(deadline) for name, deadline in ends.items()}
        columns = (jobids, dues, homes if len(deadlines) > 1 else [*deadlines] * len(jobids), schedules)
        for jobid, due, home, schedule in zip(*columns, strict=True):
            run = Run(jobid, float(due), tag, began, deadlines[home], 0, 0, schedule, home, prefix, received)
            run.worker = worker
            if jobid in retry_states:
                kept = RetryState.parse(retry_states[jobid])
                run.failures, run.losses, run.tries, run.after = kept.failures, kept.losses, kept.tries, kept.after
                run.failed, run.alone = kept.failed, kept.alone
            if jobid in more:
                own = more[jobid]
                run.deadline, run.options = float(own["deadline"]), own.get("options", "")
                run.stored_data = own.get("data", "")
                run.take_own_due()
            runs.append(run)
        for name, (since, ended) in paused[0].items() if paused else ():
            for run in runs:
                if run.queue == name:
                    run.queue_pause = float(since), float(ended)
        return runs

    def read_registration(self, reply: Reply) -> str:
        """Return from the reply to `pack_take`: ``seen`` or ``unknown`` for its `idle_owner`; "" if there was none."""
        return decode(reply[1]) if reply[0] == "empty" and len(reply) > 1 else ""

    def has_notices(self, reply: Reply) -> bool:
        """Tell whether the reply to `pack_take` with an `idle_owner` says that the outbox may have runs."""
        return reply[0] == "empty" and len(reply) > 2

    def end(self, run: Run, next_state: NextState, late: float = 0.0) -> Answer:
        """End `run`. It was over `late` seconds ago, and must have been in time then."""
        return self.read_end(self._namespace.scripts.run(self.pack_end([(run, next_state)], late)))[0]

    def pack_end(self, ended: Sequence[EndedRun], late: float = 0.0, whole: bool = False) -> Call:
        """Return the call that ends runs that were taken together, each with its next state.

        With `whole`, no run ends as long as the next state of one of them must be computed again.
        """
        numbers = number_queues([run.queue for run, _ in ended])
        jobs, homes, schedules, dues, hows, drops = [], [], [], [], {}, False
        for run, next_state in ended:
            jobs.append(run.jobid)
            if len(numbers) > 1:
                homes.append(run.queue)
            schedules.append(run.schedule)
            dues.append(self._format_due(run, next_state))
            how = _format_how(next_state)
            if not next_state.has_begun(run):
                how["unbegun"] = True
            if ending := _name_ending(next_state):
                how["ended"] = ending
            if run.output is not None and (kept := self._read_kept(run, next_state)) not in (0, NOT_BEGUN):
                how["output"] = pack_output(run.due, run.attempt, run.output)
                how["older"] = count_older(kept, run.output_size)
            if drop := _find_drop(run, next_state):
                how["drops"], drops = drop, True
            if how:
                hows[run.jobid] = how
        deadline = min([run.deadline for run, _ in ended])
        given = {"tag": ended[0][0].tag, "late": late, "most": self._failures_limit, "how": hows, "deadline": deadline}
        if whole:
            given["whole"] = True
        own = ended if self._namespace.expires else [each for each in ended if each[0].options]
        if expiring := {run.jobid: at for run, each in own if (at := self._find_expiry(run, each))}:
            given["expiring"] = expiring
        call = self._namespace.pack("end", numbers, jobs=jobs, homes=homes, schedules=schedules, dues=dues, **given)
        # The server checks each key, and most runs do not need these.
        keys = self._namespace.keys
        more = (keys.alerts, keys.blackouts, keys.saved, keys.progress) if drops else ()
        return replace(call, keys=(*call.keys, *more), packed=(self._pack_entry(ended),))

    def _format_due(self, run: Run, next_state: NextState) -> str:
        """Return the next due time of a job, in the form of ``lua/end.lua``."""
        if next_state.due is not None:
            return next_state.due if isinstance(next_state.due, str) else format_time(next_state.due)
        # If the schedule is STOP, the script knows whether the job was a one-off.
        word = "again" if run.schedule == "STOP" else "spent" if is_one_off(run.schedule) else ""
        setting = self._namespace.forget_after
        kept = parse_options(run.options).get("forget-after", setting) if word and run.options else setting
        return word and f"{word}{kept}"

    def _find_expiry(self, run: Run, next_state: NextState) -> str:
        """Return when the next occurrence expires, if the end of a run enqueues it; "" if it does not expire."""
        expires = self._namespace.find_expires(run.options)
        if not expires or not isinstance(next_state.due, float):
            return ""
        kept = RetryState.parse(next_state.retry_state)
        return "" if kept.has_begun else format_time(next_state.due + expires)

    def _pack_entry(self, ended: Sequence[EndedRun]) -> bytes:
        """Return the entry of the journal for runs that were taken together."""
        runs = [(each[0].jobid, each[0].queue, self._read_kept(*each), _pack_past(*each)) for each in ended]
        return pack_entry(ended[0][0].worker, runs)

    def _read_kept(self, run: Run, next_state: NextState) -> int:
        if next_state.outcome is None:
            return NOT_BEGUN
        return int(parse_options(run.options).get("history", self._history)) if run.options else self._history

    def read_end(self, reply: Reply) -> list[Answer]:
        """Return the answer for each run, from the reply to `pack_end`."""
        changed = iter(reply[2:])
        return [
            Answer(word, decode(next(changed)), decode(next(changed)), decode(next(changed)))
            if word == "changed"
            else Answer("kept")
            if reply[0] == "kept"
            else _ACCEPTED.get(word) or Answer(word)
            for word in decode(reply[1]).split(" ")
        ]

    def release(self, runs: Sequence[Run]) -> list[str]:
        """Release runs that were taken together and have not begun; return a word of ``lua/release.lua`` for each."""
        numbers = number_queues(run.queue for run in runs)
        given: dict[str, Any] = {"tag": runs[0].tag, "jobs": [run.jobid for run in runs]}
        # The timer of a run may have come meanwhile: set it again.
        if expiring := {run.jobid: at for run in runs if (at := self._find_own_expiry(run))}:
            given["expiring"] = expiring
        return decode(self._namespace.run("release", numbers, **given)[1]).split(" ")

    def _find_own_expiry(self, run: Run) -> str:
        """Return when a run that has not begun expires; "" if it does not expire."""
        expires = self._namespace.find_expires(run.options)
        if not expires or run.has_begun:
            return ""
        return format_time((run.start if run.was_asked_for else run.due) + expires)

    def heartbeat(self, runs: Sequence[Run]) -> list[str]:
        """Send a heartbeat for `runs`; return ``ok``, ``cancelled``, ``overrun`` or ``stale`` for each.

        It also sends the progress of those runs that have reported a new one.
        """
        jobs, tags = [run.jobid for run in runs], [run.tag for run in runs]
        calls = [self._namespace.pack("heartbeat", jobs=jobs, tags=tags, lease=LEASE, grace=GRACE)]
        news = [(run, run.reported) for run in runs if run.reported is not run.told]
        if news:
            calls.append(self._pack_progress(news))
        reply, *_ = self._namespace.scripts.run_all(calls)
        for run, reported in news:
            run.told = reported
        return [decode(word) for word in reply[1:]]

    def _pack_progress(self, news: Sequence[tuple[Run, Progress | None]]) -> Call:
        for run, _ in news:
            # If the reply is lost, the server may have the progress nevertheless.
            run.told = run.told or NOTHING_TOLD
        records = [reported.format(run.tag) for run, reported in news if reported]
        jobs, tags = [run.jobid for run, _ in news], [run.tag for run, _ in news]
        return self._namespace.pack("progress", jobs=jobs, tags=tags, records=records)

    def save(self, run: Run, text: str) -> None:
        """Save JSON for the next try of the occurrence of `run`; "" removes it. Raise `LostRun`."""
        call = self._namespace.pack("save", job=run.jobid, tag=run.tag)
        record = encode(f"{run.key} {text}") if text else b""
        if self._namespace.scripts.run(replace(call, packed=(record,)))[0] != "ok":
            raise LostRun(f"{run.jobid}: its run is no longer this worker's, so nothing was saved")

    def read_saved(self, run: Run) -> str:
        """Return the JSON saved for this occurrence; "" for none. If any is stored, set `run.uses_saved`."""
        record = decode(self._namespace.ask("hget", self._namespace.keys.saved, encode(run.jobid)))
        run.uses_saved = run.uses_saved or bool(record)
        key, _, text = record.partition(" ")
        return text if key == run.key else ""


def _find_drop(run: Run, next_state: NextState) -> str:
    """Return what the end of a run removes: its ``progress``, or ``all`` that is kept for its job; "" for nothing."""
    # A failed occurrence keeps its saved value: ``redbike run`` tries it again.
    is_over = next_state.outcome in (Outcome.OK, Outcome.CANCELLED)
    if next_state.place == "unset" or ((run.uses_saved or run.has_begun) and is_over):
        return "all"
    return "" if run.told is None else "progress"


def _name_ending(next_state: NextState) -> str:
    """Return how the occurrence of a run has ended, for its followers: ``failed``, ``any``, or ``none`` if it goes on.

    "" if it has ended well.
    """
    if next_state.outcome == Outcome.OK:
        return ""
    if next_state.outcome is None or next_state.is_tried_again:
        return "none"
    return "any" if next_state.outcome == Outcome.CANCELLED else "failed"


def measure(run: Run) -> tuple[float, float]:
    """Return how late a run began, and how long it took, in seconds. A run that is not over counts until now."""
    began = run.began or run.received
    # Not below 0: for a lost run, Redis' clock may have been set back.
    return run.start + (began - run.received) - run.due, max(0.0, (run.over or time.monotonic()) - began)


def _pack_past(run: Run, next_state: NextState) -> bytes:
    """Return an ended run as it is stored."""
    waited, took = measure(run)
    how = next_state.outcome or Outcome.OK, run.attempt, next_state.error, run.result, run.usage
    packed = pack_run(run.due, waited, took, *how)
    return mark_of_backfill(packed) if run.backfill_of else packed


def _format_how(next_state: NextState) -> dict[str, Any]:
    """Return how a run ended, for ``lua/end.lua``; {} if it ended well and the job goes on by its schedule."""
    how: dict[str, Any] = {}
    if next_state.place != "next":
        how["place"] = next_state.place
    if next_state.stops:
        how["stops"] = True
    if next_state.why:
        how["why"] = next_state.why
    if next_state.left != "-":
        how["left"] = next_state.left
    if next_state.retry_state:
        how["retry_state"] = next_state.retry_state
        if (tried := RetryState.parse(next_state.retry_state).due) is not None:
            how["tried"] = format_time(tried)
    if next_state.failure is not None:
        how["failure"] = json.dumps(next_state.failure)
    if skipped := next_state.skipped:
        how["skipped"] = skipped
    if next_state.retried:
        how["retried"] = True
    return how
