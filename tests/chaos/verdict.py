"""What the oracle has found."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from tests.chaos.history import Run

WRONG = ("lost", "unexplained", "overlapping", "early", "stuck", "paused", "cancelled", "exceeded")
WRONG += ("misremembered", "forgotten")


@dataclass
class Verdict:
    """What was found. Each list of `wrong` must be empty."""

    occurrences: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    wrong: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in WRONG})
    repeats: dict[str, list[Run]] = field(default_factory=lambda: defaultdict(list))  # by the reason why
    lateness: list[float] = field(default_factory=list)  # seconds, of each first run of a job that is left alone
