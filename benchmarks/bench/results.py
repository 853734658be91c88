"""The results of one run of the suite: medians of interleaved rounds, and how they compare."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench.figures import FIGURES, Figure
from bench.size import SIZES

ALL = FIGURES + SIZES


@dataclass
class Results:
    """Every value of every round: figure → contender → values."""

    environment: dict[str, str] = field(default_factory=dict)
    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, key: str, name: str, value: float) -> None:
        self.values.setdefault(key, {}).setdefault(name, []).append(value)

    def rows(self) -> list["Row"]:
        """The figures in order, each with ours first, then raw, then the peers, the best one first."""
        return [
            self._row(figure, name, self._median(figure.key, name) or 0.0)
            for figure in ALL
            for name in self._order(figure)
        ]

    def _order(self, figure: Figure) -> Iterable[str]:
        names = self.values.get(figure.key, {})
        sign = -1 if figure.more else 1
        first = {"redbike": 0, "raw": 1}
        return sorted(names, key=lambda name: (first.get(name.partition(",")[0], 2), sign * median(names[name])))

    def _row(self, figure: Figure, name: str, value: float) -> "Row":
        raw = self._median(figure.raw, "raw")
        peers = [peer for peer in self._order(figure) if peer != "raw" and not peer.startswith("redbike")]
        is_ours = name.startswith("redbike") and figure.compared
        best = self._median(figure.key, peers[0]) if peers and is_ours else None
        return Row(figure, name, value, _ratio(value, raw), _ratio(value, best), peers[0] if best else "")

    def _median(self, key: str, name: str) -> float | None:
        values = self.values.get(key, {}).get(name)
        return median(values) if values else None

    def save(self, path: str) -> None:
        """As JSON, with what the table says beside the values of all rounds."""
        rows = [
            {
                "benchmark": row.figure.benchmark,
                "figure": row.figure.title,
                "unit": row.figure.unit,
                "more_is_better": row.figure.more,
                "contender": row.name,
                "median": row.value,
                "of_raw": row.of_raw,
                "of_best_peer": row.of_best,
                "best_peer": row.best,
                "rounds": self.values[row.figure.key][row.name],
            }
            for row in self.rows()
        ]
        Path(path).write_text(json.dumps({"environment": self.environment, "results": rows}, indent=1) + "\n")

    @classmethod
    def load(cls, path: str) -> "Results":
        """Those that `save` wrote."""
        stored: dict[str, Any] = json.loads(Path(path).read_text())
        results = cls(stored["environment"])
        for row in stored["results"]:
            for value in row["rounds"]:
                results.add(f"{row['benchmark']}: {row['figure']}", row["contender"], value)
        return results


@dataclass(frozen=True)
class Row:
    """One contender's figure, and of how many times the raw one and the best peer's it is."""

    figure: Figure
    name: str
    value: float
    of_raw: float | None
    of_best: float | None
    best: str


def _ratio(value: float, other: float | None) -> float | None:
    return value / other if other else None
