"""The jobs that have something to run up to an instant, with the data from which their runs are computed."""

import math
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from redbike.schedule.kinds import Schedule
from redbike.schedule.moments import AWAITED
from redbike.store.archived import read_duration
from redbike.store.namespace import Part, split
from redbike.store.records import Pause, RetryState, RunRecord, Waiting, decode, encode
from redbike.text.group_names import is_jobid

PAGE = 1000  # jobs in one request
SOON = 60.0  # seconds within which a job may move while others are read
SPEED = 5000  # jobs that are read in a second, at least


class ComingJob(NamedTuple):
    """A job that has something to run. Times are epoch seconds."""

    jobid: str
    schedule: str
    options: str  # as they are stored
    queue: str  # in which it waits or from which it was taken; "" if the worker class is to name it
    first: float | None  # when it runs independent of its schedule; None if it does not
    after: float  # the instant after which it runs by its schedule
    duration: float | None  # mean seconds of its last runs; None if no run is kept
    waits: float | None = None  # the due time of the occurrence that is due already, or is held
    is_paused: bool = False  # then policies decide what runs: `first` and `after` are estimates
    # Its occurrence is to be tried again, or somebody has asked for the run that waits. Policies decide what becomes of
    # the occurrences that come due before that.
    is_tried: bool = False
    known: Schedule | None = None  # its schedule, if that depends on its parents and not only on its text


class Coming(Part):
    """Lists jobs that have something to run, a page at a time.

    Its memory grows with the jobs that are due soon, wait, run or are paused, and not with the other jobs.
    """

    def count(self, until: float) -> tuple[int, int, int]:
        """Return, as upper bounds, how many jobs are to be read, how many are paused, and how many follow others."""
        keys = self._namespace.keys
        lengths = (("hlen", key) for key in (keys.queued, keys.running, keys.pauses, keys.following))
        found = self._namespace.ask_all(("zcount", keys.timeline, "-inf", until), *lengths, at_once=False)
        return sum(found), found[-2], found[-1]

    def list_followers(self) -> Iterator[list[str]]:
        """Yield pages of the ids of the jobs that follow others. A job that is set meanwhile may be missing."""
        return split((each for each, _ in self._namespace.scan(self._namespace.keys.following) if is_jobid(each)), PAGE)

    def list_jobids(self, until: float) -> Iterator[list[str]]:
        """Yield pages of the ids of the jobs that `count` counts. A job that moves meanwhile may be missing, or twice.

        Jobs in a queue, in flight or paused come first, then jobs due by `until` in order, then waiting followers.
        """
        keys = self._namespace.keys
        for key in (keys.queued, keys.running, keys.pauses):
            yield from split((jobid for jobid, _ in self._namespace.scan(key)), PAGE)
        for bounds, number in self._count_timeline(until):
            for first in range(0, number, PAGE):
                span = {"byscore": True, "offset": first, "num": min(PAGE, number - first)}
                yield list(map(decode, self._namespace.ask("zrange", keys.timeline, *bounds, **span)))

    def _count_timeline(self, until: float) -> list[tuple[tuple[float, float], int]]:
        """Return how many jobs are due by `until`, and how many wait for others, each behind their range of scores."""
        key, places = self._namespace.keys.timeline, ((-math.inf, until), (AWAITED, AWAITED))
        numbers = self._namespace.ask_all(*(("zcount", key, *place) for place in places), at_once=False)
        return list(zip(places, numbers, strict=True))

    def list_pages(
        self,
        now: float,
        until: float,
        jobids: Iterable[str] | None = None,
        note_paused: Callable[[str], None] = lambda jobid: None,
    ) -> Iterator[list[ComingJob]]:
        """Yield pages of the jobs that have something to run by `until`: of all jobs, or of `jobids`.

        `now` is Redis' clock. A job that somebody changes meanwhile may be missing, or there twice. `note_paused` is
        called with the id of each paused job.
        """
        moving = self._find_moving(now, until) if jobids is None else {}
        for page in split(moving if jobids is None else jobids, PAGE):
            yield list(self._look_at(page, now, until, note_paused))
        if jobids is None:
            yield from self._list_timeline(now, until, moving)

    def _find_moving(self, now: float, until: float) -> dict[str, None]:
        """Return the jobs that may move while the others are read, each once. These are read by their ids."""
        keys, moving = self._namespace.keys, dict[str, None]()
        soon = min(until, now + SOON + self._namespace.ask("zcount", keys.timeline, "-inf", until) / SPEED)
        moving |= dict.fromkeys(self._list_due(soon))
        for key in (keys.queued, keys.running, keys.pauses):
            moving |= dict.fromkeys(jobid for jobid, _ in self._namespace.scan(key))
        # Some may have moved from these hashes to the timeline.
        return moving | dict.fromkeys(self._list_due(soon))

    def _list_due(self, until: float) -> Iterator[str]:
        return (decode(jobid) for page in self._scan_timeline(until) for jobid, _ in page)

    def _scan_timeline(self, until: float) -> Iterator[list[tuple[bytes, float]]]:
        """Yield pages of the jobs due by `until`, the last one first: a dispatcher takes jobs from the front."""
        key, lowest = self._namespace.keys.timeline, (float("inf"), b"")
        end = self._namespace.ask("zcount", key, "-inf", until)
        while end > 0:
            page = self._namespace.ask("zrange", key, max(0, end - PAGE), end - 1, withscores=True)
            found = [(jobid, due) for jobid, due in page if (due, jobid) < lowest]
            if not found:
                end -= PAGE
                continue
            jobid, due = found[0]
            lowest = (due, jobid)
            yield found
            end = self._find_rank(jobid, due)

    def _list_timeline(self, now: float, until: float, moving: Container[str]) -> Iterator[list[ComingJob]]:
        """Yield pages of the jobs on the timeline, without those in `moving`."""
        for page in self._scan_timeline(until):
            if not (found := [each for each in page if decode(each[0]) not in moving]):
                continue
            schedules, options, histories, retry_states = self._fetch([jobid for jobid, _ in found])
            columns = zip(found, schedules, options, histories, retry_states, strict=True)
            yield [
                ComingJob(
                    decode(jobid),
                    decode(schedule),
                    decode(own),
                    "",
                    max(due, now),
                    max(due, now),
                    read_duration(history or b""),
                    due if due <= now else None,
                    is_tried=_is_tried(state),
                )
                for (jobid, due), schedule, own, history, state in columns
                if schedule is not None
            ]

    def _find_rank(self, jobid: bytes, due: float) -> int:
        """Return how many jobs stand before this one on the timeline; if it has moved, those up to `due`."""
        key = self._namespace.keys.timeline
        asked = ("zrank", key, jobid), ("zscore", key, jobid), ("zcount", key, "-inf", due)
        rank, score, number = self._namespace.ask_all(*asked)
        return int(rank if score == due else number)

    def _look_at(
        self,
        jobids: Sequence[str],
        now: float,
        until: float,
        note_paused: Callable[[str], None],
    ) -> Iterator[ComingJob]:
        """Yield those of `jobids` that have something to run."""
        keys = self._namespace.keys
        places = keys.queued, keys.running, keys.pauses
        names = [encode(jobid) for jobid in jobids]
        schedules, options, histories, retry_states, *records, dues = self._fetch(names, *places)
        columns = zip(jobids, schedules, options, histories, retry_states, *records, dues, strict=True)
        for jobid, schedule, own, history, state, *record, due in columns:
            found = find_moments(now, due, *map(decode, record))
            if record[-1] is not None and schedule is not None:
                note_paused(jobid)
            if schedule is None or found is None:
                continue
            queue, first, after = found
            waits = _find_waiting(now, due, record)
            if (after if first is None else first) <= until:
                duration, is_paused = read_duration(history or b""), bool(record[-1])
                tried = not is_paused and (due is not None or record[0] is not None) and _is_tried(state, due is None)
                told = decode(schedule), decode(own), queue, first, after, duration, waits, is_paused, tried
                yield ComingJob(jobid, *told)

    def _fetch(self, names: Sequence[bytes], *places: str) -> list[Any]:
        """Return schedules, options, histories and retry states; with `places`, also their records, and due times."""
        keys = self._namespace.keys
        asked = [
            ("hmget", key, names) for key in (keys.schedules, keys.options, keys.history, keys.retry_states, *places)
        ]
        if places:
            asked.append(("zmscore", keys.timeline, names))
        return self._namespace.ask_all(*asked, at_once=bool(places))


def _is_tried(record: bytes | None, waits: bool = False) -> bool:
    if record is None:
        return False
    retry_state = RetryState.parse(decode(record))
    return retry_state.due is not None or (waits and retry_state.after is not None)


def _find_waiting(now: float, due: float | None, record: Sequence[bytes | None]) -> float | None:
    """Return the due time of an occurrence that is held, waits in a queue, or is due on the timeline already."""
    queued, _, paused = map(decode, record)
    waiting, pause = Waiting.parse(queued), Pause.parse(paused)
    if pause is not None:
        return None if pause.due == AWAITED else pause.due
    return waiting.due if waiting else due if due is not None and due <= now else None


def find_moments(
    now: float, due: float | None, queued: str, running: str, paused: str
) -> tuple[str, float | None, float] | None:
    """Return the `queue`, `first` and `after` of a `ComingJob`; None if the job has nothing to run.

    A follower that waits for its parents has no `first`.
    """
    waiting, run, pause = Waiting.parse(queued), RunRecord.parse(running), Pause.parse(paused)
    if pause is not None:
        if waiting is not None:
            # Somebody has asked for this run.
            return waiting.queue, now, math.inf if pause.until is None else max(now, pause.until)
        if pause.until is None:
            return None
        # What came due before it is resumed is for the setting catchup.
        held = max(now, pause.until, pause.due) if pause.due is not None and pause.due < AWAITED else None
        return run.queue if run else "", held, max(now, pause.until) if held is None else held
    if due is not None:
        return ("", None, now) if due >= AWAITED else ("", max(due, now), max(due, now))
    if waiting is not None:
        return waiting.queue, now, max(now, waiting.due)
    return None if run is None else (run.queue, None, max(now, run.due))
