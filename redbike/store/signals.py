"""The control signal, which tells every dispatcher and worker to stop after its current job."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from redbike.errors import BadConfig, ServerError, Unreachable
from redbike.store.lease import CLOCKS_DIFFER
from redbike.store.namespace import Part, make_tag, read_time
from redbike.store.records import decode
from redbike.text.printable import quote


def check_signal(signal: str) -> str:
    """Return `signal` if there is one of this name. Raise `BadConfig`."""
    if not isinstance(signal, str) or signal.upper() != "HALT":
        raise BadConfig(f"bad signal {quote(signal)}: HALT is the only one")
    return signal


class Signal(NamedTuple):
    """The control signal of a shard, as it was read."""

    text: str  #: the signal with its time, or ""
    now: float  #: Redis' clock just before

    @property
    def given_at(self) -> float:
        """When the signal was given, by Redis' clock; infinity if its text has no time."""
        try:
            return float(self.text.partition(" ")[2])
        except ValueError:
            return math.inf


class Signals(Part):
    """Gives the control signal, reads it, and takes it back."""

    def halt(self) -> None:
        """Tell every dispatcher and worker that runs now to stop after its current job."""
        self._namespace.run("halt", signal="HALT", request=make_tag())

    def pass_on(self) -> None:
        """Leave the token that woke this process to the next one."""
        self._namespace.run("halt")

    def clear(self) -> None:
        """Take back a HALT for those that have not read it yet."""
        self._namespace.ask("delete", self._namespace.keys.control, self._namespace.keys.halt)

    def read(self) -> Signal:
        """Return the control signal, and Redis' clock, in one round trip."""
        key, now = self._namespace.keys.control, self._namespace.now
        try:
            clock, found = self._namespace.ask_all(("time",), ("get", key), at_once=False)
        except Unreachable:
            raise
        except ServerError:
            # Without the right to ask for the clock, any other signal counts as a new one.
            return Signal(decode(self._namespace.ask("get", key)), -math.inf)
        return Signal(decode(found), read_time(clock) if now is None else now)

    def read_all(self) -> dict[str, Signal]:
        """Return the control signal of each shard that answers, by its prefix. Raise `Unreachable` if none does."""
        return {self._namespace.keys.prefix: self.read()}


def has_new_halt(known: dict[str, Signal], signals: Mapping[str, Signal]) -> bool:
    """Tell whether one of `signals` is a HALT that was given after `known` was read first; both are by prefix.

    Each shard is compared with itself: each has a time of its own for the same HALT, and some may be away. The first
    signal of a shard becomes `known`. So does an older one: a server that went back has it again.
    """
    found = False
    for prefix, signal in signals.items():
        before = known.setdefault(prefix, signal)
        if signal.text in ("", before.text):
            continue
        # If the clock was set back, times do not tell which is older.
        if signal.given_at >= before.now - CLOCKS_DIFFER or signal.now < before.now:
            found = True
        else:
            known[prefix] = before._replace(text=signal.text)
    return found
