"""How often the server went back in time, until somebody has acknowledged it.

It has lost its last requests, as when a replica takes over that had not heard of them. Or its clock was ahead, and is
right again. Dispatchers see both by the instant up to which all was dispatched: that never goes back otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from redbike.connection.refusals import translate_errors
from redbike.schedule.clock import Clock, format_length
from redbike.store.namespace import Namespace
from redbike.store.records import REWIND, decode, format_time
from redbike.store.timeline import CLOCKS_DIFFER

# The commands by which one says that one knows, and brings back what a clock has put too late.
MINE, REPAIR = "redbike acknowledge", "redbike fsck --repair"


@dataclass(frozen=True, slots=True)
class Rewind:
    """The server went `back` from an instant that a dispatcher had `known`, which it `noted`; all in epoch seconds."""

    back: float
    known: float
    noted: float

    @classmethod
    def parse(cls, back: str, record: str) -> "Rewind | None":
        """Read one as it is kept; None for a damaged one."""
        found = REWIND.fullmatch(f"{back} {record}")
        return None if found is None else cls(*map(float, found.groups()))

    @property
    def is_of_clock(self) -> bool:
        """Tell whether the clock of the server was ahead, and nothing is lost."""
        return self.known > self.noted + CLOCKS_DIFFER

    def describe(self) -> str:
        """Return what has happened, as a clause."""
        length, moment = format_length(self.known - self.back), Clock(self.noted, "UTC").name(self.back)
        if self.is_of_clock:
            return f"the clock of the server was ahead by {length} until {moment}: jobs that came due then are late now"
        if not self.back:
            noted = Clock(self.noted, "UTC").name(self.noted)
            return f"the server had lost all of its data when a dispatcher looked at {noted}"
        return f"the server went back by {length} to {moment}: what was set or had run after that may be lost"


class Rewinds:
    """Lists and acknowledges what dispatchers have noted."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    def list_all(self) -> list[Rewind]:
        """Return those that nobody has acknowledged, the oldest first. Pass over damaged ones."""
        found = (Rewind.parse(back, record) for back, record in self._read())
        return sorted((rewind for rewind in found if rewind), key=lambda rewind: rewind.noted)

    def list_bad(self) -> list[str]:
        """Return the fields of those that are damaged."""
        return [back for back, record in self._read() if Rewind.parse(back, record) is None]

    def _read(self) -> list[tuple[str, str]]:
        client, key = self._namespace.client, self._namespace.keys.rewinds
        with translate_errors():
            found = self._namespace.fetch(client.hgetall, key, "hash")
        return [(decode(back), decode(record)) for back, record in found.items()]

    def acknowledge(self, rewinds: Sequence[Rewind]) -> int:
        """Forget them, as somebody knows of them; return how many of them nobody had acknowledged before."""
        detail = "; ".join(rewind.describe() for rewind in rewinds)
        fields = [format_time(rewind.back) for rewind in rewinds]
        return int(self._namespace.run("acknowledge", rewinds=fields, detail=detail)[1]) if rewinds else 0

    def forget(self, back: str) -> None:
        """Remove a damaged one."""
        with translate_errors():
            self._namespace.client.hdel(self._namespace.keys.rewinds, back)
