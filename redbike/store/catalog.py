"""Which jobs there are: those that a pattern matches, or that have a tag, with their schedules and statuses."""

import logging
import time
from collections.abc import Iterable, Iterator, Set

from redbike.config.options import list_tags
from redbike.store.enums import EVENT_NAMES, EventName
from redbike.store.namespace import PAGE, Part, split
from redbike.store.records import decode, encode

log = logging.getLogger("redbike")


class Catalog(Part):
    """Finds jobs. Nothing here changes anything."""

    def has_job(self, jobid: str, also_bad: bool = False) -> bool:
        """Tell whether `jobid` has a schedule, or is `also_bad`: its only schedule was refused."""
        keys = self._namespace.keys
        hashes = (keys.schedules, keys.statuses) if also_bad else (keys.schedules,)
        return any(self._namespace.ask("hexists", key, jobid) for key in hashes)

    def has_options(self) -> bool:
        """Tell whether any job has options."""
        return bool(self._namespace.ask("hlen", self._namespace.keys.options))

    def list_matching(self, pattern: str, also_bad: bool = False) -> Iterator[str]:
        r"""Yield the ids of the jobs that `pattern` matches: ``*``, ``?``, ``[…]``, with ``\`` before a literal one.

        Those that have a schedule, and those that are `also_bad`: their only schedule was refused.
        """
        keys = self._namespace.keys
        return (jobid for jobid, _ in self._namespace.scan(keys.statuses if also_bad else keys.schedules, pattern))

    def search(self, pattern: str, most: int, patience: float) -> tuple[list[str], bool]:
        """Return up to `most` ids that `pattern` matches, and whether those are all.

        After `patience` seconds it looks no further, however many jobs there are.
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
        """Yield every job id with its schedule; or only those of `jobids` that are there."""
        key = self._namespace.keys.schedules
        return self._namespace.scan(key) if jobids is None else self._read_many(key, jobids)

    def list_statuses(self, pattern: str | None = None) -> Iterator[tuple[str, str]]:
        """Yield every job id, or each that `pattern` matches, with its status as it is stored."""
        return self._namespace.scan(self._namespace.keys.statuses, pattern)

    def list_events(
        self, before: float | None, jobids: Iterable[str] | None = None
    ) -> Iterator[tuple[str, EventName, int]]:
        """Yield the id of every job, its last event and the time of that; or of those with no event since `before`.

        Or only of those of `jobids` that are there.
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
        """Yield those of `jobids` that are in a hash, with their values."""
        for page in split(jobids, PAGE):
            values = self._namespace.ask("hmget", key, list(map(encode, page)))
            yield from ((jobid, decode(each)) for jobid, each in zip(page, values, strict=True) if each is not None)


def has_tag(stored: bytes | None, tags: Set[str]) -> bool:
    """Tell whether a job with these options has one of `tags`."""
    return stored is not None and not tags.isdisjoint(list_tags(decode(stored)))
