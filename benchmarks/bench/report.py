"""The results as a table: of plain text, or of reStructuredText."""

from collections.abc import Iterable

from bench.results import Results, Row

HEAD = ("figure", "who", "median", "unit", "× raw", "× best peer")


def plain(results: Results) -> str:
    """Every figure of everyone."""
    lines = [HEAD, *cells(results.rows())]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    return "\n".join([*_environment(results), "", *(_aligned(line, widths) for line in lines)])


def rst(results: Results) -> str:
    """The same for the documentation."""
    lines = [HEAD, *cells(results.rows())]
    # A cell of the first column must not be empty in a simple table, or it continues the one above.
    lines = [(line[0] or "\\", *(cell or "\\" for cell in line[1:])) for line in lines]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    rule = "  ".join("=" * width for width in widths)
    table = [rule, _aligned(lines[0], widths), rule, *(_aligned(line, widths) for line in lines[1:]), rule]
    return "\n".join([*(f"- {line}" for line in _environment(results)), "", *table])


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
