"""The results as a table: of plain text, or of reStructuredText."""

from collections.abc import Iterable
from itertools import groupby
from textwrap import fill

from bench.results import Results, Row

HEAD = ("figure", "who", "median", "unit", "× raw", "× best peer")
COLUMNS = 98  # of a line in the documentation


def plain(results: Results) -> str:
    """Every figure of everyone."""
    lines = [HEAD, *cells(results.rows())]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    return "\n".join([*_environment(results), "", *(_aligned(line, widths) for line in lines)])


def rst(results: Results) -> str:
    """The same for the documentation: a narrow table for each benchmark; ↓ says that less is better."""
    parts = [*(fill(f"- {line}", COLUMNS, subsequent_indent="  ") for line in _environment(results)), ""]
    for benchmark, rows in groupby(results.rows(), lambda row: row.figure.key.partition(": ")[0]):
        parts += [f"**{benchmark}**", "", *_table(_narrow(line) for line in cells(rows)), ""]
    return "\n".join(parts).rstrip()


def _narrow(line: tuple[str, ...]) -> tuple[str, ...]:
    figure, who, value, unit, raw, best = line
    # The peer that is best stands in the rows below.
    return (figure.partition(": ")[2], who, value, unit.replace(" (less is better)", " ↓"), raw, best.partition(" ")[0])


def _table(cells: Iterable[tuple[str, ...]]) -> list[str]:
    # A cell of the first column must not be empty in a simple table, or it continues the one above.
    lines = [HEAD, *((line[0] or "\\", *(cell or "\\" for cell in line[1:])) for line in cells)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    rule = "  ".join("=" * width for width in widths)
    return [rule, _aligned(lines[0], widths), rule, *(_aligned(line, widths) for line in lines[1:]), rule]


def cells(rows: Iterable[Row]) -> list[tuple[str, ...]]:
    """The texts of each row; a figure is named in its first one."""
    lines: list[tuple[str, ...]] = []
    last = ""
    for row in rows:
        first = "" if row.figure.key == last else row.figure.key
        last = row.figure.key
        best = f"{number(row.of_best)} ({row.best})" if row.of_best is not None else ""
        raw = "" if row.of_raw is None else number(row.of_raw)
        better = "" if row.figure.more or not row.figure.compared else " (less is better)"
        lines.append((first, row.name, number(row.value), row.figure.unit + (better if first else ""), raw, best))
    return lines


def number(value: float | None) -> str:
    """With about three digits that count."""
    if value is None:
        return ""
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 else 3
    return f"{value:,.{digits}f}"


def _environment(results: Results) -> list[str]:
    return [f"{name}: {text}" for name, text in results.environment.items()]


def _aligned(line: Iterable[str], widths: list[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
