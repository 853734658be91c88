"""The control signal, which tells every dispatcher and worker to stop after its current job."""

from collections.abc import Mapping

from redbike.errors import BadConfig
from redbike.store.namespace import Part, make_tag
from redbike.store.records import decode
from redbike.text.printable import quote


def check_signal(signal: str) -> str:
    """Return `signal` if there is one of this name. Raise `BadConfig`."""
    if not isinstance(signal, str) or signal.upper() != "HALT":
        raise BadConfig(f"bad signal {quote(signal)}: HALT is the only one")
    return signal


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

    def read(self) -> str:
        """Return the control signal with its time, or ""."""
        return decode(self._namespace.ask("get", self._namespace.keys.control))

    def read_all(self) -> dict[str, str]:
        """Return the control signal of each shard that answers, by its prefix. Raise `Unreachable` if none does."""
        return {self._namespace.keys.prefix: self.read()}


def has_new_halt(known: dict[str, str], signals: Mapping[str, str]) -> bool:
    """Tell whether one of `signals` is a HALT that is not `known`; both are by prefix.

    Each shard is compared with itself: each has a time of its own for the same HALT, and some may be away. The first
    signal of a shard becomes `known`.
    """
    found = [known.setdefault(prefix, signal) != signal != "" for prefix, signal in signals.items()]
    return any(found)
