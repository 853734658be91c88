"""Backfills: occurrences of a job that run beside its schedule, see `redbike.store.keys`.

An occurrence of a backfill is a one-off with a job id of its own. Its options say to which job it belongs: its id alone
does not. When it ends, ``lua/_backfill.lua`` puts the next occurrence on the timeline, in the same step.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from redbike.config.options import find_all_of, find_backfill
from redbike.store.backfill import (
    DONE,
    HEAD,
    BackfillDetails,
    DoneRange,
    NewBackfill,
    _read_list,
    _read_range,
    looks_like_one,
    read_last,
    read_record,
)
from redbike.store.host_names import AT, EVERY
from redbike.store.namespace import PAGE, Part, split
from redbike.store.records import decode, encode
from redbike.store.scripts import Reply
from redbike.text.parsing import load_object

PARTS = 50  # fields that one script writes
MOST = 1000  # jobs that may follow a backfilled job, directly or not
_CONTROL = re.compile("[\x00-\x1f\x7f]")


class Backfills(Part):
    """Begins, ends, reads and repairs backfills."""

    def begin(self, new: NewBackfill) -> str:
        """Begin a backfill. Its first occurrences come on the timeline with its last part: until ``ok``, nothing runs.

        Return a word: ``ok``, ``gone`` (the job is unset), ``stale`` (its schedule or options have changed), ``lost``
        (another backfill has begun meanwhile) or ``busy`` (another backfill is under way).
        """
        parts, record = list(new.list_parts()), new.make_record()
        given: dict[str, Any] = {"job": new.jobid, "schedule": new.schedule, "options": new.options}
        for first in range(0, len(parts), PARTS):
            page = parts[first : first + PARTS]
            last = first + len(page) == len(parts)
            more = {"detail": new.detail} if last and new.detail else {}
            reply = self._namespace.run("backfill", record=record, first=first, parts=page, last=last, **given, **more)
            if reply[0] != "ok":
                return str(reply[0])
        return "ok"

    def end(self, jobid: str) -> BackfillDetails | None:
        """End the backfill of a job; return how far it was, or None if none is under way."""
        found = map(self._namespace.find_queue, [jobid, *self.list_followers(jobid)])
        reply: Reply = self._namespace.run("end_backfill", dict.fromkeys(name or "-" for name in found), job=jobid)
        return read_record(decode(reply[1])) if reply[0] == "ok" else None

    def list_followers(self, jobid: str) -> list[str]:
        """Return the jobs that follow a job, directly or not, as ``lua/_backfilled.lua`` does; at most `MOST` + 1."""
        found, generation = {jobid: None}, [jobid]
        while generation and len(found) <= MOST + 1:
            asked = [_ask_followers(self._namespace.keys.followers, each) for each in generation]
            links = [decode(link) for page in self._namespace.ask_all(*asked, at_once=False) for link in page]
            names = (link.partition("\n")[2] for link in links)
            generation = [name for name in dict.fromkeys(names) if name not in found and not _CONTROL.search(name)]
            found |= dict.fromkeys(generation)
        return list(found)[1 : MOST + 2]

    def list_holding(self, jobid: str) -> list[str]:
        """Return the jobs that hold the backfill of a job while they are paused: the job, and those that follow it."""
        found = load_object(self._read(jobid)[0]) or {}
        return [jobid, *([] if found.get("alone") else self.list_followers(jobid))]

    def read(self, jobid: str) -> tuple[BackfillDetails | None, BackfillDetails | None]:
        """Return how far the backfill of a job is, and how the one before it ended; None for none, in both places."""
        now, done = self._read(jobid)
        return read_record(now), read_last(done)

    def list_done(self, jobid: str) -> list[DoneRange]:
        """Return what the ended backfills of a job have run."""
        return [_read_range(found) for found, _ in _read_list(self._read(jobid)[1])]

    def _read(self, jobid: str) -> list[str]:
        fields = [encode(f"{HEAD}{jobid}"), encode(f"{HEAD}{jobid}\n{DONE}")]
        return list(map(decode, self._namespace.ask("hmget", self._namespace.keys.following, fields)))

    def check(self, jobid: str, parts: Iterable[str], repairs: bool = False) -> list[str]:
        """Return what is wrong with the backfills of a job, one line for each problem. Repair it if `repairs`.

        `parts` are the fields of these backfills that the caller has found.
        """
        keys, (now, done) = self._namespace.keys, self._read(jobid)
        numbers = [part for part in parts if part not in ("", DONE)]
        there = self._list_there([f"{HEAD}{jobid}\n{part}" for part in numbers])
        is_bad, is_bad_done = bool(now) and read_record(now) is None, bool(done) and not _read_list(done)
        wrong: dict[str, list[str]] = {}
        if not self._namespace.ask("hexists", keys.schedules, encode(jobid)):
            wrong["there is no such job"] = (
                [f"{HEAD}{jobid}", f"{HEAD}{jobid}\n{DONE}", *there] if now or done else there
            )
        elif is_bad or (there and not now):
            wrong["the record of what is left cannot be read"] = [f"{HEAD}{jobid}", *there]
        elif is_bad_done:
            wrong["the record of what it has run cannot be read"] = [f"{HEAD}{jobid}\n{DONE}"]
        wrong = {problem: fields for problem, fields in wrong.items() if fields}
        if wrong and repairs:
            self._namespace.ask("hdel", keys.following, *(encode(each) for fields in wrong.values() for each in fields))
        return [*wrong] or self._check_progress(jobid, repairs)

    def _check_progress(self, jobid: str, repairs: bool) -> list[str]:
        """Return a line for each occurrence that should run and does not. If `repairs`, let the next ones run."""
        found = json.loads(decode(self._namespace.run("repair_backfill", job=jobid, looks=not repairs)[1]))
        lines = [f"it waits for {each!r}, which does not run" for each in found["gone"]]
        lines += [f"it has {each!r}, which does not follow it" for each in found["strays"]]
        return lines or ["what is left of it does not begin"] * bool(found["stalls"])

    def _list_there(self, fields: Sequence[str]) -> list[str]:
        found = list[str]()
        for page in split(fields, PAGE):
            texts = self._namespace.ask("hmget", self._namespace.keys.following, list(map(encode, page)))
            found += [field for field, text in zip(page, texts, strict=True) if text is not None]
        return found

    def leave_out(self, jobs: Iterable[tuple[str, str]], of_hosts: bool = False) -> Iterator[tuple[str, str]]:
        """Yield the jobs, by id and schedule, that are no occurrences of backfills.

        With `of_hosts`, the jobs that a job for every host has on its hosts are left out, too.
        """
        for page in split(jobs, PAGE):
            jobids = [jobid for jobid, _ in page if looks_like_one(jobid) or (of_hosts and _may_be_of_host(jobid))]
            bases = self.find_bases(jobids, of_hosts)
            yield from (each for each in page if not bases.get(each[0]))

    def find_bases(self, jobids: Sequence[str], of_hosts: bool = False) -> dict[str, str]:
        """Return those of `jobids` that exist, each with the job of whose backfill it is an occurrence; "" for none.

        With `of_hosts`, a job on one host is returned with its base, the job for every host.
        """
        keys, found = self._namespace.keys, dict[str, str]()
        for page in split(jobids, PAGE):
            texts = self._namespace.ask("hmget", keys.schedules, list(map(encode, page)))
            there = [jobid for jobid, text in zip(page, texts, strict=True) if text is not None]
            # Mostly none of them exists.
            options = self._namespace.ask("hmget", keys.options, list(map(encode, there))) if there else ()
            for jobid, own in zip(there, map(decode, options), strict=True):
                found[jobid] = find_backfill(own)[0] or (find_all_of(own)[0] if of_hosts else "")
        return found


def _may_be_of_host(jobid: str) -> bool:
    """Tell whether a job may be that of a base on one host, by its id alone; its stored options say whether it is."""
    return AT in jobid and not jobid.endswith(f"{AT}{EVERY}")


def _ask_followers(key: str, jobid: str) -> tuple[Any, ...]:
    # BYLEX is the last argument: users have the right for ZRANGE, and not for ZRANGEBYLEX.
    return "zrange", key, encode(f"[{jobid}\n"), encode(f"({jobid}\v"), False, False, float, False, True
