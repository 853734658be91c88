"""The ended runs that are kept: in the histories of their jobs, and in the journal, which is archived later."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from redbike.connection.refusals import translate_errors
from redbike.store.entries import Digest, Pending, list_last_naming, list_naming, read_entry
from redbike.store.enums import Skip
from redbike.store.history import PastRun, get_end, read_last_end, read_runs
from redbike.store.namespace import PAGE, Namespace
from redbike.store.questions import Questions
from redbike.store.records import COUNT, decode, encode
from redbike.store.tally import PART, RECENT, count_recent, parse_recent

FEW = 200  # jobs that are looked for in the bytes of each entry
MOST_ENTRIES = 10 * PAGE  # that are read where the time is bounded


class Journal:
    """Reads the runs that are kept."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._questions = Questions(namespace)

    def list_runs(self, jobids: Iterable[str] | None = None) -> Iterator[PastRun]:
        """Yield the ended runs that are kept of these jobs, or of all, in no order."""
        # First what may be archived meanwhile: then it is read twice, and not missed.
        named, nothing = None if jobids is None else list(jobids), Pending()
        entries = self._read_entries()
        if named is not None and len(named) <= FEW:
            entries = list_naming(entries, named)
        pending = Digest(entries, None if named is None else frozenset(named)).pending
        if named is None:
            for jobid, text in self._questions.scan(self._namespace.keys.history):
                yield from pending.pop(jobid, nothing).read(jobid, encode(text))
            for jobid, own in pending.items():
                yield from own.read(jobid, b"")
            return
        for first in range(0, len(named), PAGE):
            page = named[first : first + PAGE]
            for jobid, value in zip(page, read_values(self._namespace, page), strict=True):
                yield from pending.get(jobid, nothing).read(jobid, value)

    def list_since(self, since: float, first: Sequence[str] = ()) -> Iterator[list[PastRun]]:
        """Yield for each job all runs that are kept, the newest first, if one of them ended at `since` or later.

        Yield [] for each other job: so a reader can stop after some time. The jobs of `first` come first, then those
        that ran last, then the others in no order. Of what is not archived yet, only the last entries are read.
        """
        pending, nothing = Digest(self._read_entries(MOST_ENTRIES // PAGE)).pending, Pending()
        named = list(dict.fromkeys([*first, *pending]))
        known = set(map(encode, named))
        for at in range(0, len(named), PAGE):
            page = named[at : at + PAGE]
            for jobid, value in zip(page, read_values(self._namespace, page), strict=True):
                runs = pending.get(jobid, nothing).read(jobid, value)
                yield runs if runs and get_end(runs[0]) >= since else []
        for name, value in self._questions.scan_bytes(self._namespace.keys.history):
            if name not in known:
                yield (read_runs(decode(name), value) or []) if read_last_end(value) >= since else []

    def count_jobs(self) -> int:
        """Return how many jobs have archived runs."""
        client, key = self._namespace.client, self._namespace.keys.history
        with translate_journal_errors(self._namespace):
            return int(client.hlen(key))

    def read_newest(self, jobids: Sequence[str] | None = None) -> dict[str, PastRun | None]:
        """Return the newest run of each job of which runs have ended and are not archived yet; or only of `jobids`.

        It is None for a job of which nothing is kept.
        """
        entries = self._read_entries()
        if jobids is not None and len(jobids) <= FEW:
            # A job may have run a thousand times since: only its last run matters here.
            entries = list_last_naming(entries, jobids)
        pending = Digest(entries, None if jobids is None else frozenset(jobids)).pending.items()
        return {jobid: next(iter(own.read(jobid, b"")), None) for jobid, own in pending}

    def count_recent(self, now: float) -> Counter[str]:
        """Return by queue how many runs have ended in the last minute, or up to `PART` seconds before that."""
        client, keys = self._namespace.client, self._namespace.keys
        with translate_journal_errors(self._namespace):
            kept = parse_recent(decode(client.hget(keys.counts, "recent")))
        ended: Counter[str] = Counter()
        # What is archived in between is not counted; at the next look it is.
        for (part, queue), number in (kept + count_recent(self._read_entries())).items():
            if 0 <= now - part * PART < RECENT + PART:
                ended[queue] += number
        return ended

    def list_bad(self) -> Iterator[tuple[str, bytes, str]]:
        """Yield what is damaged: the key, the entry or the field, and in words what is wrong with it."""
        client, keys = self._namespace.client, self._namespace.keys
        for entry in dict.fromkeys(self._read_entries()):
            if read_entry(entry) is None:
                yield keys.journal, entry, f"holds {decode(entry[:80])!r}, which is no entry of the journal"
        totals = {f"{reason}:" for reason in Skip}
        with translate_errors():
            for key in (keys.counts, keys.skipped):
                for name, number in client.hscan_iter(key, count=PAGE):
                    is_count = name not in (b"archiver", b"recent") if key == keys.counts else decode(name) in totals
                    if is_count and not COUNT.fullmatch(decode(number)):
                        yield key, name, f"counts {decode(name)!r} as {decode(number[:80])!r}, which is no number"

    def forget(self, key: str, damaged: bytes) -> None:
        """Remove what `list_bad` has given."""
        client: Any = self._namespace.client  # it takes bytes too, but redis-py's types do not know that
        with translate_errors():
            if key == self._namespace.keys.journal:
                client.lrem(key, 0, damaged)
            else:
                client.hdel(key, damaged)

    def _read_entries(self, most: int | None = None) -> list[bytes]:
        """Return all entries, the oldest first; some of them twice if others were added meanwhile.

        With `most`, return only so many pages of the newest.
        """
        client: Any = self._namespace.client  # its types allow for decoded replies, which Redbike never asks for
        pages: list[list[bytes]] = []
        with translate_journal_errors(self._namespace):
            # From the end, as others are removed at the beginning.
            while not pages or (len(pages[-1]) == PAGE and len(pages) != most):
                last = -1 - PAGE * len(pages)
                pages.append(client.lrange(self._namespace.keys.journal, last - PAGE + 1, last))
        return [entry for page in reversed(pages) for entry in page]


def read_values(namespace: Namespace, jobids: Sequence[str]) -> list[bytes]:
    """Return the history of each job as it is stored, b"" for none."""
    if not jobids:
        return []
    with translate_journal_errors(namespace):
        client: Any = namespace.client  # its types allow for decoded replies, which Redbike never asks for
        found = client.hmget(namespace.keys.history, jobids)
    return [value or b"" for value in found]


def translate_journal_errors(namespace: Namespace) -> AbstractContextManager[None]:
    """Translate the errors of redis-py; that of a key of another type names it."""
    keys = namespace.keys
    return namespace.translate((keys.counts, "hash"), (keys.history, "hash"), (keys.journal, "list"))
