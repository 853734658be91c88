"""Finds jobs by id, pattern, tag or status, with their schedules and statuses."""

import logging
import time
from collections.abc import Iterable, Iterator, Set

from redbike.config.options import list_tags
from redbike.store.enums import EVENT_NAMES, EventName
from redbike.store.namespace import PAGE, Part, split
from redbike.store.records import decode, encode

log = logging.getLogger("redbike")


class Catalog(Part):
    """Finds jobs. It changes nothing."""

    def has_job(self, jobid: str, also_bad: bool = False) -> bool:
        """Tell whether `jobid` has a schedule. With `also_bad`, a job whose only schedule was refused counts, too."""
        keys = self._namespace.keys
        hashes = (keys.schedules, keys.statuses) if also_bad else (keys.schedules,)
        return any(self._namespace.ask("hexists", key, jobid) for key in hashes)

    def has_options(self) -> bool:
        """Tell whether any job has options."""
        return bool(self._namespace.ask("hlen", self._namespace.keys.options))

    def list_matching(self, pattern: str, also_bad: bool = False) -> Iterator[str]:
        r"""Yield the ids of the jobs that `pattern` matches: ``*``, ``?``, ``[…]``, ``\`` before a literal character.

        Jobs are those with a schedule. With `also_bad`, jobs whose only schedule was refused are yielded, too.
        """
        keys = self._namespace.keys
        return (jobid for jobid, _ in self._namespace.scan(keys.statuses if also_bad else keys.schedules, pattern))

    def search(self, pattern: str, most: int, patience: float) -> tuple[list[str], bool]:
        """Return up to `most` ids that `pattern` matches, and whether these are all.

        The search ends after `patience` seconds, even if it has not read all jobs.
        """
        key, cursor, until, found = self._namespace.keys.statuses, 0, time.monotonic() + patience, dict[str, None]()
        while len(found) <= most:
            cursor, page = self._namespace.scan_page(key, cursor, pattern, PAGE)
            found |= dict.fromkeys(map(decode, page))
            if cursor == 0:
                return list(found)[:most], len(found) <= most
            if time.monotonic() > until:
                break
        return list(found)[:most], False

    def list_tagged(self, pattern: str, tags: Set[str]) -> Iterator[str]:
        """Yield the ids of the jobs that `pattern` matches and that have one of `tags`: only options are read."""
        found = self._namespace.scan_bytes(self._namespace.keys.options, pattern)
        return (decode(name) for name, stored in found if has_tag(stored, tags))

    def keep_tagged(self, jobids: Iterable[str], tags: Set[str]) -> Iterator[str]:
        """Yield those of `jobids` that have one of `tags`; without tags, all of them."""
        if not tags:
            yield from jobids
            return
        for page in split(jobids, PAGE):
            records = self._namespace.ask("hmget", self._namespace.keys.options, list(map(encode, page)))
            yield from (jobid for jobid, stored in zip(page, records, strict=True) if has_tag(stored, tags))

    def list_schedules(self, jobids: Iterable[str] | None = None) -> Iterator[tuple[str, str]]:
        """Yield every job id, or those of `jobids` that exist, with the schedule."""
        key = self._namespace.keys.schedules
        return self._namespace.scan(key) if jobids is None else self._read_many(key, jobids)

    def list_statuses(self, pattern: str | None = None) -> Iterator[tuple[str, str]]:
        """Yield every job id, or each that `pattern` matches, with its stored status."""
        return self._namespace.scan(self._namespace.keys.statuses, pattern)

    def list_events(
        self, before: float | None, jobids: Iterable[str] | None = None
    ) -> Iterator[tuple[str, EventName, int]]:
        """Yield the id of each job, its last event, and the epoch second of this event.

        With `before`, only jobs without an event since then; with `jobids`, only those of them that exist.
        """
        found = self.list_statuses() if jobids is None else self._read_many(self._namespace.keys.statuses, jobids)
        for jobid, status in found:
            text, _, moment = status.partition(":")
            event = EVENT_NAMES.get(text)
            if event is None or not moment.isdecimal():
                log.warning("%s: %r is no status", jobid, status)
            elif before is None or int(moment) < before:
                yield jobid, event, int(moment)

    def _read_many(self, key: str, jobids: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield those of `jobids` that are fields of a hash, with their values."""
        for page in split(jobids, PAGE):
            values = self._namespace.ask("hmget", key, list(map(encode, page)))
            yield from ((jobid, decode(each)) for jobid, each in zip(page, values, strict=True) if each is not None)


def has_tag(stored: bytes | None, tags: Set[str]) -> bool:
    """Tell whether a job with these stored options has one of `tags`."""
    return stored is not None and not tags.isdisjoint(list_tags(decode(stored)))
