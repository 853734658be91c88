"""The JOBID,SCHEDULE rows of a CSV file, which is read once and as a stream: a pipe or a FIFO will do."""

import csv
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from redbike.errors import BadConfig

Source = str | Path | IO[str] | IO[bytes]
Row = tuple[str, str] | BadConfig

BYTE_ORDER_MARK = "\ufeff"
# The marks of UTF-16, as they are read in UTF-8 with surrogateescape.
UTF_16 = ("\udcff\udcfe", "\udcfe\udcff")


def rows(source: Source) -> Iterator[tuple[int, Row]]:
    """Yield (line number, (job id, schedule)) for each row of `source`, a file name or an open text or binary file.

    An invalid row yields a `BadConfig` in place of the pair. Raises `BadConfig` for a file that cannot be read.
    """
    try:
        with _open(source) as lines:
            yield from _parse(lines)
    except OSError as error:
        raise _unreadable(source, str(error.strerror or error)) from None


def name_of(source: Source) -> str:
    """Return what messages call `source`."""
    if isinstance(source, str | Path):
        return str(source)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "the open file"


@contextmanager
def _open(source: Source) -> Iterator[Iterator[str]]:
    """The lines of `source` with their ends; a file that was given open stays open."""
    if isinstance(source, str | Path):
        if "\0" in str(source):
            raise _unreadable(source, "there is a NUL in its name")
        with open(source, "rb") as file, _decoded(file) as text:
            yield _checked(text, source)
        return
    if not callable(getattr(source, "read", None)):
        raise BadConfig(f"cannot read rows from {source!r:.80}: a file name or an open file is needed")
    _check_blocking(source)
    if isinstance(source.read(0), str):
        yield _checked(source, source)
    else:
        with _decoded(source) as text:
            yield _checked(text, source)


@contextmanager
def _decoded(file: Any) -> Iterator[io.TextIOWrapper]:
    # Bytes that are not UTF-8 survive, so that their row alone is refused.
    text = io.TextIOWrapper(file, encoding="utf-8", errors="surrogateescape", newline="")
    try:
        yield text
    finally:
        text.detach()


def _checked(lines: Any, source: Source) -> Iterator[str]:
    """`lines` without a byte order mark, which spreadsheets like to begin with."""
    lines = iter(lines)
    first = next(lines, "")
    if first.startswith(UTF_16):
        raise _unreadable(source, "it is UTF-16, not UTF-8")
    if first:
        yield first.removeprefix(BYTE_ORDER_MARK)
    yield from lines


def _check_blocking(file: Any) -> None:
    """A file in non-blocking mode seems to end wherever its writer pauses."""
    try:
        blocking = os.get_blocking(file.fileno())
    except (AttributeError, OSError, ValueError):
        return
    if not blocking:
        raise _unreadable(file, "it is in non-blocking mode, so its end cannot be told")


def _parse(lines: Iterator[str]) -> Iterator[tuple[int, Row]]:
    # Strict: a file that ends inside quotes is cut off, and the schedule there with it.
    reader = csv.reader(lines, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield line, BadConfig(f"no row of CSV: {error}")
            continue
        if len(row) == 2:
            yield line, (row[0], row[1])
        elif row:
            hint = "; a schedule with commas in it needs quotes" if len(row) > 2 else ""
            yield line, BadConfig(f"{','.join(row)[:80]!r} has {len(row)} columns, not JOBID,SCHEDULE{hint}")


def _unreadable(source: Source, why: str) -> BadConfig:
    return BadConfig(f"cannot read {name_of(source)!r}: {why}")
