"""Rows of a file of jobs, and the stored values of the same jobs."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from redbike.config.options import find_all_of, find_backfill, list_texts
from redbike.store.blackouts import OF_JOB, Blackout
from redbike.store.catalog import Catalog
from redbike.store.namespace import DATA_PAGE, PAGE, Part, read_json, split
from redbike.store.records import Membership, Pause, decode
from redbike.store.scripts import Call, Reply


class StoredRow(NamedTuple):
    """The stored values of a job that a row of a file can set; "" for a missing value."""

    schedule: str | None  # None if there is no such job
    options: str
    membership: str  # the record that says of which file it is a row
    data: str = ""  # if they were asked for
    paused: str = ""  # the record of its pause, if data were asked for
    blackout: str = ""  # the record of its blackout, if data were asked for


class Rows(Part):
    """Reads the stored values that files of jobs set."""

    def list_all(self, jobids: Iterable[str] | None = None) -> Iterator[tuple[str, ...]]:
        """Yield for every job, or those of `jobids` that exist, its row: "" for each value that it does not have.

        A row has the texts of `redbike.config.options.ALL_COLUMNS`. Jobs that Redbike has set for others are left out.
        """
        keys = self._namespace.keys
        for page in split(Catalog(self._namespace).list_schedules(jobids), DATA_PAGE):
            jobids = [jobid for jobid, _ in page]
            asked = [("hmget", key, jobids) for key in (keys.options, keys.data, keys.pauses)]
            asked.append(("hmget", keys.blackouts, [f"{OF_JOB}{jobid}" for jobid in jobids]))
            found = self._namespace.ask_all(*asked, at_once=False)
            for job, own, data, *records in zip(page, *found, strict=True):
                if find_backfill(decode(own))[0] or find_all_of(decode(own))[0]:
                    continue  # elsewhere, Redbike sets it again
                pause, blackout = Pause.parse(decode(records[0])), Blackout.parse(decode(records[1]))
                held = pause and pause.to_row(), blackout and blackout.to_dict()
                cells = (json.dumps(each, ensure_ascii=False) if each else "" for each in held)
                yield (*job, *list_texts(decode(own)), decode(data), *cells)

    def read(self, jobids: Sequence[str], with_data: bool = False) -> list[StoredRow]:
        """Return the stored row of each of `jobids`, in one round trip."""
        return parse_rows(self._namespace.scripts.run_all(self.pack_read(jobids, with_data)))

    def pack_read(self, jobids: Sequence[str], with_data: bool = False) -> list[Call]:
        """Return the script calls of `read`; `parse_rows` reads their replies."""
        pages = split(jobids, DATA_PAGE if with_data else PAGE)
        return [self._namespace.pack("read_rows", now=0.0, jobs=each, data=with_data) for each in pages]

    def list_of(self, group: str) -> Iterator[str]:
        """Yield the jobs that are rows of `group`."""
        memberships = self._namespace.scan(self._namespace.keys.groups)
        return (jobid for jobid, record in memberships if Membership.parse(record).group == group)


def parse_rows(replies: Iterable[Reply]) -> list[StoredRow]:
    """Return the stored row of each job, from the replies to `Rows.pack_read`."""
    return [row for reply in replies for row in _make_rows(*read_json(reply[1]))]


def _make_rows(schedules: list[Any], *others: list[Any]) -> Iterator[StoredRow]:
    """Yield the stored row of each job. Each list has one field of all jobs; False if a job does not have it."""
    return map(StoredRow, [text or None for text in schedules], *([text or "" for text in each] for each in others))
