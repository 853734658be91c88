"""What has happened in all, as counts that only grow: those that are kept, and those of runs that are not archived yet.

A reader that asks again reads only the entries of the journal that it has not read yet.
"""

from collections import Counter, deque
from typing import Any

from redbike.connection.refusals import translate_errors
from redbike.store.enums import Skip
from redbike.store.journal import translate_journal_errors
from redbike.store.namespace import PAGE, Namespace
from redbike.store.records import COUNT, decode
from redbike.store.tally import count


class Counts:
    """Reads the counts. One reader serves one thread."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._archived = 0  # entries that were ever archived, before those that are known
        self._known: deque[Counter[str]] = deque()  # what each of the next entries adds
        self._pending: Counter[str] = Counter()  # what these add together
        self._last = b""  # the last entry that is known

    def read(self) -> Counter[str]:
        """Return all counts, see tally.py, also of those runs that are not archived yet.

        Those of occurrences that were skipped are ``skipped:REASON:``.
        """
        client: Any = self._namespace.client  # its types allow for decoded replies, which Redbike never asks for
        keys = self._namespace.keys
        with translate_journal_errors(self._namespace):
            while True:
                archived = _parse(client.hget(keys.counts, "archived"))
                self._forget(archived)
                self._read_further(client, keys.journal)
                found = client.hgetall(keys.counts)
                if _parse(found.get(b"archived")) == archived:
                    break
                # What was archived meanwhile would count twice, or not at all.
                self._forget_all()
        fields = [f"{reason}:" for reason in Skip]
        with translate_errors():
            skipped = self._namespace.fetch(lambda key: client.hmget(key, fields), keys.skipped, "hash")
        found |= {f"skipped:{reason}:".encode(): number for reason, number in zip(Skip, skipped, strict=True) if number}
        counts = Counter(self._pending)
        for name, number in found.items():
            if b":" in name and COUNT.fullmatch(decode(number)):
                counts[decode(name)] += int(number)
        return counts

    @staticmethod
    def sum_ended(counts: Counter[str]) -> Counter[str]:
        """Return how many runs of each queue have ended, of what `read` has returned."""
        ended = Counter[str]()
        for name, number in counts.items():
            kind, _, queue = name.split(":", 2)
            if kind == "runs":
                ended[queue] += number
        return ended

    def _forget(self, archived: int) -> None:
        """Forget the entries that were archived since the last time; all, if this cannot be the same journal."""
        if archived < self._archived or archived > self._archived + len(self._known):
            self._forget_all()
        for _ in range(min(archived - self._archived, len(self._known))):
            self._pending.subtract(self._known.popleft())
        self._archived = archived

    def _forget_all(self) -> None:
        self._known.clear()
        self._pending.clear()

    def _read_further(self, client: Any, key: str) -> None:
        if self._known and client.lindex(key, len(self._known) - 1) != self._last:
            # Everything was flushed, or some are being archived.
            self._forget_all()
        while True:
            page = client.lrange(key, len(self._known), len(self._known) + PAGE - 1)
            for entry in page:
                self._known.append(count([entry]))
                self._pending.update(self._known[-1])
            self._last = page[-1] if page else self._last
            if len(page) < PAGE:
                return


def _parse(number: bytes | None) -> int:
    text = decode(number)
    return int(text) if COUNT.fullmatch(text) else 0
