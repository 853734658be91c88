"""Read the rows of a CSV file. Each row is read once, as a stream, so the file may be a pipe or a FIFO.

A row is JOBID,SCHEDULE. Under a header that begins with ``jobid,schedule``, further columns hold options, data, pauses
and blackouts.

The cell of a pause or a blackout holds a JSON object, as ``redbike schedules --full`` prints it.
"""

import csv
import io
import logging
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

from redbike.config.labels import MAX_REASON, is_reason
from redbike.config.options import (
    ALL_COLUMNS,
    BLACKOUT,
    COLUMNS,
    DATA,
    NO_CHANGES,
    PAUSED,
    OptionChanges,
    parse_data,
    read_changes,
)
from redbike.errors import BadConfig
from redbike.schedule.moments import END_OF_TIME
from redbike.text.parsing import is_number, load_object
from redbike.text.printable import quote, suggest

log = logging.getLogger("redbike")

Source = str | Path | IO[str] | IO[bytes]
"""A CSV file: its name, or an open text or binary file."""

# Job id, schedule, options and data, pause, blackout.
Entry = tuple[str, str, OptionChanges, "WantedPause | None", "WantedBlackout | None"]

Report = Callable[[int, int], None]
REPORTED = 1000  # lines
MAX_LINE = 1024 * 1024  # characters: far more than the row of a job can have, with its options and its data

# Bytes that are not UTF-8 become surrogates. So only their row is refused, not the file.
AS_TEXT: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogateescape", "newline": ""}
BYTE_ORDER_MARK = "\ufeff"
# The byte order marks of UTF-16, decoded as UTF-8 with surrogateescape.
UTF_16_MARKS = ("\udcff\udcfe", "\udcfe\udcff")


class WantedPause(NamedTuple):
    """The pause to set for a job, unless the job is paused already. Times are in epoch seconds."""

    since: float | None = None  # None: from now on
    until: float | None = None  # when it ends by itself; None: never
    by: str | None = None  # None: whoever loads the file
    reason: str | None = None
    every: str | None = None  # the schedule of the blackout that began the pause; None: a person began it
    own_end: float | None = None  # the end of the pause before a blackout lengthened it


class WantedBlackout(NamedTuple):
    """The blackout to set for a job."""

    every: str  # its schedule
    seconds: float
    by: str | None = None  # None: whoever loads the file
    reason: str | None = None


def read_pause(cell: str) -> WantedPause:
    """Return the pause in a cell. Raise `BadConfig`."""
    found = _read_object(PAUSED, cell, WantedPause._fields)
    for name, value in found.items():
        if name in ("by", "reason"):
            is_right, what = is_reason(value), f"a line of up to {MAX_REASON} characters"
        elif name == "every":
            is_right, what = isinstance(value, str), "a schedule"
        else:
            is_right, what = is_number(value) and 0 <= value < END_OF_TIME, "epoch seconds"
        if value is not None and not is_right:
            raise BadConfig(f"bad paused {quote(cell)}: {name!r} is {what}")
    return WantedPause(**found)


def read_blackout(cell: str) -> WantedBlackout:
    """Return the blackout in a cell. Its schedule is not checked yet. Raise `BadConfig`."""
    found = _read_object(BLACKOUT, cell, WantedBlackout._fields)
    lines = (found.get(name, "") for name in ("by", "reason"))
    if not (isinstance(found.get("every"), str) and is_number(found.get("seconds")) and all(map(is_reason, lines))):
        raise BadConfig(f"bad blackout {quote(cell)}: it needs every and seconds; by and reason are one line each")
    return WantedBlackout(**found)


def _read_object(name: str, cell: str, fields: tuple[str, ...]) -> dict[str, Any]:
    found = load_object(cell)
    if found is None or not found.keys() <= {*fields}:
        raise BadConfig(f"bad {name} {quote(cell)}: a JSON object is needed, which may have {', '.join(fields)}")
    return found


class Row(NamedTuple):
    """A row. `columns` are the texts of the further columns, by name; {} without such columns."""

    jobid: str
    schedule: str
    columns: Mapping[str, str]


def read_rows(
    source: Source, report: Report | None = None, known: Container[str] = ()
) -> Iterator[tuple[int, Row | BadConfig]]:
    """Yield (line number, row) for each row of `source`, a file name or an open text or binary file.

    If `source` is a file name, `report` is called every `REPORTED` lines, with the bytes read and the size of the file.
    For an invalid row, yield a `BadConfig` in place of the row; also for a row that seems to be a comment, unless
    `known` has its id. Raise `BadConfig` for a file that cannot be read, or has an unknown column.
    """
    try:
        with _open_lines(source, report) as lines:
            yield from _parse(lines, source, known)
    except OSError as error:
        raise _make_error(source, str(error.strerror or error)) from None
    except UnicodeEncodeError:
        raise _make_error(source, "its name has characters that no file has") from None


def get_name(source: Source) -> str:
    """Return the name of `source` for messages."""
    if isinstance(source, str | Path):
        return str(source)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "the open file"


@contextmanager
def _open_lines(source: Source, report: Report | None) -> Iterator[Iterator[str]]:
    """Yield an iterator of the lines of `source`, with their line ends. A file that the caller opened stays open."""
    if isinstance(source, str | Path):
        if "\0" in str(source):
            raise _make_error(source, "there is a NUL in its name")
        with open(source, "rb") as file, _decode(file) as text:
            lines = _limit_lines(text, source)
            yield _check_encoding(_report_lines(lines, file, report) if report else lines, source)
        return
    if not callable(getattr(source, "read", None)):
        raise BadConfig(f"cannot read rows from {source!r:.80}: a file name or an open file is needed")
    if getattr(source, "closed", False):
        raise _make_error(source, "it is closed")
    _check_blocking(source)
    if isinstance(source.read(0), str):
        yield _check_encoding(source, source)
    else:
        with _decode(source) as text:
            yield _check_encoding(_limit_lines(text, source), source)


def _limit_lines(text: io.TextIOWrapper, source: Source) -> Iterator[str]:
    """Yield the lines of `text`. Raise `BadConfig` for a line of `MAX_LINE` characters, which takes too much memory."""
    while line := text.readline(MAX_LINE):
        if len(line) == MAX_LINE:
            raise _make_error(source, f"a line has {MAX_LINE} characters or more")
        yield line


def _report_lines(lines: Iterable[str], file: IO[bytes], report: Report) -> Iterator[str]:
    """Yield `lines`, and report the position. `file` is the binary file: the text file has no position meanwhile."""
    size = os.fstat(file.fileno()).st_size
    for number, line in enumerate(lines):
        if number % REPORTED == 0 and size:
            report(file.tell(), size)
        yield line


@contextmanager
def _decode(file: Any) -> Iterator[io.TextIOWrapper]:
    text = io.TextIOWrapper(file, **AS_TEXT)
    try:
        yield text
    finally:
        text.detach()


def _check_encoding(lines: Any, source: Source) -> Iterator[str]:
    """Return `lines` without the byte order mark that spreadsheets write. Raise `BadConfig` for UTF-16."""
    lines = iter(lines)
    first = next(lines, "")
    if first.startswith(UTF_16_MARKS):
        raise _make_error(source, "it is UTF-16, not UTF-8")
    return chain([first.removeprefix(BYTE_ORDER_MARK)] if first else [], lines)


def _check_blocking(file: Any) -> None:
    """Raise `BadConfig` for a file in non-blocking mode. Such a file seems to end whenever its writer pauses."""
    try:
        is_blocking = os.get_blocking(file.fileno())
    except (AttributeError, OSError, ValueError):
        return
    if not is_blocking:
        raise _make_error(file, "it is in non-blocking mode, so its end cannot be detected")


def _parse(lines: Iterator[str], source: Source, known: Container[str]) -> Iterator[tuple[int, Row | BadConfig]]:
    # Strict: if the file ends inside quotes, it was cut off, and its last schedule is incomplete.
    reader = csv.reader(lines, strict=True)
    header = COLUMNS[:2]
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield line, BadConfig(f"bad CSV: {error}")
            continue
        if line == 1 and tuple(row[:2]) == COLUMNS[:2]:
            header = _read_header(row, source)
        elif line == 1 and {name.strip().lower() for name in row} >= {*COLUMNS[:2]}:
            raise _make_error(source, f"its header {','.join(row)[:80]!r} does not begin with 'jobid,schedule'")
        elif row and row[0].startswith("#") and row[0] not in known and not _is_id(row[0], len(row) == len(header)):
            yield line, BadConfig(f"{','.join(row)[:80]!r} seems to be a comment: leave the row out")
        elif len(row) == len(header):
            yield line, Row(row[0], row[1], dict(zip(header[2:], row[2:], strict=True)) if row[2:] else {})
        elif row:
            yield line, _refuse_number(row, len(header))


def _is_id(text: str, is_whole: bool) -> bool:
    """Tell whether `text`, the beginning of a row, is a job id although it has a ``#``. Log a warning if it is."""
    if is_whole and not text.startswith("# ") and text != "#":
        log.warning("the row %.80r is of a job of that id: it is no comment", text)
        return True
    return False


def _refuse_number(row: list[str], wanted: int) -> BadConfig:
    hint = ""
    if len(row) > wanted:
        hint = "; a schedule with commas in it needs quotes"
    elif len(row) == 1 and any(separator in row[0] for separator in ";\t"):
        hint = "; commas separate them"
    found = f"{len(row)} column{'s' * (len(row) > 1)}"
    names = "JOBID,SCHEDULE" if wanted == 2 else f"the {wanted} of the header"
    return BadConfig(f"{','.join(row)[:80]!r} has {found}, not {names}{hint}")


def _read_header(names: list[str], source: Source) -> tuple[str, ...]:
    """Return the names of the columns. Raise `BadConfig` for an unknown or repeated column."""
    for number, name in enumerate(names):
        if name not in ALL_COLUMNS:
            raise _make_error(source, f"unknown column {name[:80]!r} in its header{suggest(name, ALL_COLUMNS)}")
        if name in names[:number]:
            raise _make_error(source, f"the column {name!r} is twice in its header")
    return tuple(names)


def read_entry(row: Row | BadConfig) -> Entry:
    """Return the values in a row. Raise `BadConfig`, also if `row` is one.

    An empty cell removes an option, but ends no pause and no blackout.
    """
    if isinstance(row, BadConfig):
        raise row
    if not row.columns:
        return row.jobid, row.schedule, NO_CHANGES, None, None
    cells: dict[str, Any] = {name: text or None for name, text in row.columns.items()}
    if cells.get(DATA) is not None:
        cells[DATA] = parse_data(cells[DATA])
    pause, blackout = cells.pop(PAUSED, None), cells.pop(BLACKOUT, None)
    held = pause and read_pause(pause), blackout and read_blackout(blackout)
    return row.jobid, row.schedule, read_changes(cells), *held


def _make_error(source: Source, why: str) -> BadConfig:
    return BadConfig(f"cannot read {get_name(source)!r}: {why}")
