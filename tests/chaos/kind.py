"""What a kind of fault is."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A kind of fault: how it strikes, and how many of 2,000 faults are of it."""

    strike: Callable[..., None]
    share: int
    arguments: tuple[str, ...] = ()
