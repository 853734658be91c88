"""The control signal HALT: every dispatcher and worker stops after its current job."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from redbike.errors import BadConfig, ServerError, Unreachable
from redbike.store.lease import CLOCKS_DIFFER
from redbike.store.namespace import Part, make_tag, read_time
from redbike.store.records import decode
from redbike.text.printable import quote


def check_signal(signal: str) -> str:
    """Return `signal` if it is the name of a signal, in upper or lower case. Raise `BadConfig` if not."""
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
    """Sets, reads and removes the control signal."""

    def halt(self) -> None:
        """Tell every dispatcher and worker that runs now to stop after its current job."""
        self._namespace.run("halt", signal="HALT", request=make_tag())

    def pass_on(self) -> None:
        """Push the token that woke this process again, for the next one."""
        self._namespace.run("halt")

    def clear(self) -> None:
        """Remove a HALT: processes that have not read it yet go on."""
        self._namespace.ask("delete", self._namespace.keys.control, self._namespace.keys.halt)

    def read(self) -> Signal:
        """Return the control signal, and Redis' clock just before; -inf without the right to read the clock."""
        key, now = self._namespace.keys.control, self._namespace.now
        try:
            clock, found = self._namespace.ask_all(("time",), ("get", key), at_once=False)
        except Unreachable:
            raise
        except ServerError:
            # Without the right for TIME, any other signal counts as a new one.
            return Signal(decode(self._namespace.ask("get", key)), -math.inf)
        return Signal(decode(found), read_time(clock) if now is None else now)

    def read_all(self) -> dict[str, Signal]:
        """Return the control signal of each shard that answers, by its prefix. Raise `Unreachable` if none does."""
        return {self._namespace.keys.prefix: self.read()}


def has_new_halt(known: dict[str, Signal], signals: Mapping[str, Signal]) -> bool:
    """Tell whether one of `signals` is a HALT that was given after `known` was first read. Both are by prefix of shard.

    Each shard is compared with itself, as each has its own time for the same HALT, and some may be away. The first
    signal of a shard is stored in `known`. So is an older signal, which a server has again after it went back in time.
    """
    found = False
    for prefix, signal in signals.items():
        before = known.setdefault(prefix, signal)
        if signal.text in ("", before.text):
            continue
        # If the clock was set back, times do not show which signal is older.
        if signal.given_at >= before.now - CLOCKS_DIFFER or signal.now < before.now:
            found = True
        else:
            known[prefix] = before._replace(text=signal.text)
    return found
