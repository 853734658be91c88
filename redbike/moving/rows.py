"""Read the JOBID,SCHEDULE rows of a CSV file, once and as a stream, so that it may be a pipe or a FIFO."""

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

# Bytes that are not UTF-8 are kept as surrogates: then only their row is refused, not the file.
AS_TEXT: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogateescape", "newline": ""}
BYTE_ORDER_MARK = "\ufeff"
# What becomes of a mark of UTF-16 if it is decoded as UTF-8 with surrogateescape.
UTF_16_MARKS = ("\udcff\udcfe", "\udcfe\udcff")


def read_rows(source: Source) -> Iterator[tuple[int, Row]]:
    """Yield (line number, (job id, schedule)) for each row of `source`, a file name or an open text or binary file.

    An invalid row yields a `BadConfig` in place of the pair. Raise `BadConfig` for a file that cannot be read.
    """
    try:
        with _open_lines(source) as lines:
            yield from _parse(lines)
    except OSError as error:
        raise _make_error(source, str(error.strerror or error)) from None


def get_name(source: Source) -> str:
    """Return the name of `source` for messages."""
    if isinstance(source, str | Path):
        return str(source)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "the open file"


@contextmanager
def _open_lines(source: Source) -> Iterator[Iterator[str]]:
    """Yield the lines of `source`, with their line ends. Do not close a file that the caller has opened."""
    if isinstance(source, str | Path):
        if "\0" in str(source):
            raise _make_error(source, "there is a NUL in its name")
        with open(source, **AS_TEXT) as text:
            yield _check_encoding(text, source)
        return
    if not callable(getattr(source, "read", None)):
        raise BadConfig(f"cannot read rows from {source!r:.80}: a file name or an open file is needed")
    _check_blocking(source)
    if isinstance(source.read(0), str):
        yield _check_encoding(source, source)
    else:
        with _decode(source) as text:
            yield _check_encoding(text, source)


@contextmanager
def _decode(file: Any) -> Iterator[io.TextIOWrapper]:
    text = io.TextIOWrapper(file, **AS_TEXT)
    try:
        yield text
    finally:
        text.detach()


def _check_encoding(lines: Any, source: Source) -> Iterator[str]:
    """Yield `lines` without the byte order mark that spreadsheets write. Raise `BadConfig` for UTF-16."""
    lines = iter(lines)
    first = next(lines, "")
    if first.startswith(UTF_16_MARKS):
        raise _make_error(source, "it is UTF-16, not UTF-8")
    if first:
        yield first.removeprefix(BYTE_ORDER_MARK)
    yield from lines


def _check_blocking(file: Any) -> None:
    """Raise `BadConfig` for a file in non-blocking mode: it seems to end whenever its writer pauses."""
    try:
        is_blocking = os.get_blocking(file.fileno())
    except (AttributeError, OSError, ValueError):
        return
    if not is_blocking:
        raise _make_error(file, "it is in non-blocking mode, so its end cannot be told")


def _parse(lines: Iterator[str]) -> Iterator[tuple[int, Row]]:
    # Strict: if the file ends inside quotes, it was cut off, and its last schedule is incomplete.
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


def _make_error(source: Source, why: str) -> BadConfig:
    return BadConfig(f"cannot read {get_name(source)!r}: {why}")
