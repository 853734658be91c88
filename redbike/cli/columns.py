"""Make tables that fit into the width of the terminal. No text in a table can control the terminal."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from redbike.text.printable import escape

GAP = 2  # columns of the terminal between two of the table
GOOD, BUSY, ODD, WRONG, DIM = "green", "cyan", "yellow", "red", "dim"


class Width(Enum):
    """How a column adapts to a narrow terminal. The value is its least width, in columns of the terminal."""

    WHOLE = 0  # it keeps its width
    FOLDED = 12  # its texts are wrapped
    CUT = 10  # its texts are cut


class Column(NamedTuple):
    """A column of a table: its title, and a function that returns its text for a row."""

    title: str
    show: Callable[[Any], Text | str]
    width: Width = Width.WHOLE
    is_number: bool = False
    is_extra: bool = False  # it is left out if there is no room for it


def make_text(text: str, style: str = "") -> Text:
    """Return `text` with characters escaped that could control the terminal."""
    return Text(escape(text.encode(errors="surrogateescape")).replace("\t", " "), style)


def make_table(columns: Sequence[Column], rows: Sequence[Any], room: int) -> Table:
    """Return a table that is at most `room` columns of the terminal wide."""
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
    shown = [map(column.show, rows) for column in columns]
    cells = [[each if isinstance(each, Text) else make_text(each) for each in own] for own in shown]
    natural = [
        max([cell_len(column.title), *(text.cell_len for text in own)])
        for column, own in zip(columns, cells, strict=True)
    ]
    chosen = _fit(columns, natural, room)
    for number, width in chosen.items():
        table.add_column(
            columns[number].title,
            width=width,
            justify="right" if columns[number].is_number else "left",
            overflow="fold" if columns[number].width == Width.FOLDED else "ellipsis",
            no_wrap=columns[number].width != Width.FOLDED,
        )
    for row in zip(*(cells[number] for number in chosen), strict=True):
        table.add_row(*row)
    return table


def _fit(columns: Sequence[Column], natural: Sequence[int], room: int) -> dict[int, int]:
    """Return the widths of the columns for which there is room, by column number. `natural` are the full widths.

    First, columns that may be cut get narrower. Then extra columns are left out. Last, texts that may be wrapped are.
    """
    chosen = dict(enumerate(natural))
    extras = [number for number, column in enumerate(columns) if column.is_extra]
    while _shrink(columns, chosen, room, Width.CUT) > 0 and extras:
        left_out = extras.pop()
        chosen = {n: natural[n] for n in chosen if n != left_out}
    _shrink(columns, chosen, room, Width.FOLDED)
    return chosen


def _shrink(columns: Sequence[Column], chosen: dict[int, int], room: int, width: Width) -> int:
    """Make columns of this kind narrower, as far as allowed. Return by how much the table is still too wide."""
    excess = sum(chosen.values()) + GAP * (len(chosen) - 1) - room
    while excess > 0:
        # The widest one first, so that short texts stay whole.
        slack = {n: now for n, now in chosen.items() if columns[n].width is width and now > width.value}
        if not slack:
            break
        chosen[max(slack, key=slack.__getitem__)] -= 1
        excess -= 1
    return excess
