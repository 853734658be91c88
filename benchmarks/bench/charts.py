"""The comparisons as bar charts, one SVG file each."""

import re
from itertools import groupby
from pathlib import Path

import matplotlib

from bench.report import number
from bench.results import Results, Row

OURS, RAW, PEER = "#c0392b", "#95a5a6", "#34495e"


def draw(results: Results, folder: str) -> list[Path]:
    """A chart of each figure that more than one contender has; the files."""
    matplotlib.use("svg")
    # Text stays text, and the same results give the same file.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "redbike", "font.size": 10})
    Path(folder).mkdir(parents=True, exist_ok=True)
    charts = [(key, list(rows)) for key, rows in groupby(results.rows(), lambda row: row.figure.key)]
    return [
        _chart(key, rows, results, Path(folder)) for key, rows in charts if len(rows) > 1 and rows[0].figure.compared
    ]


def _chart(key: str, rows: list[Row], results: Results, folder: Path) -> Path:
    from matplotlib import pyplot

    figure = rows[0].figure
    rows = sorted(rows, key=lambda row: row.value, reverse=not figure.more)
    picture, axes = pyplot.subplots(figsize=(7, 0.9 + 0.34 * len(rows)), layout="constrained")
    colours = [{"redbike": OURS, "raw": RAW}.get(row.name, PEER) for row in rows]
    bars = axes.barh([row.name for row in rows], [row.value for row in rows], color=colours)
    axes.bar_label(bars, [number(row.value) for row in rows], padding=4)
    axes.margins(x=0.15)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(f"{key} ({figure.unit}, {'more' if figure.more else 'less'} is better)", loc="left", fontsize=10)
    axes.set_xlabel(", ".join(results.environment.get(name, "") for name in ("cores", "server", "python")), fontsize=8)
    path = folder / (re.sub(r"[^a-z0-9]+", "-", key.lower()).strip("-") + ".svg")
    picture.savefig(path, metadata={"Date": None})
    pyplot.close(picture)
    return path
