"""Print rows: as an aligned table on a terminal, otherwise as CSV or JSON."""

import csv
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import Any

from redbike.cli.arguments import Arguments
from redbike.errors import BadConfig
from redbike.process.streams import buffer_output, encode_data
from redbike.text.printable import escape

TABLE = "table"
FORMATS = ("csv", "json", TABLE)
AS_IT_IS = ("jobid", "queue", "schedule")  # fields that other commands read back


def print_rows(
    arguments: Arguments,
    rows: Iterable[Any],
    fields: Sequence[str],
    show: Callable[[Iterable[Any]], None],
    has_header: bool = True,
    show_more: Callable[[Any], dict[str, Any]] = lambda row: {},
) -> None:
    """Print `rows` as ``--format`` says; without it, as a table on a terminal, and otherwise as CSV.

    CSV and JSON have the attributes `fields` of each row, in this order. CSV begins with a header, unless `has_header`
    is false. `show_more` returns further fields of a row, for JSON alone. `show` prints the rows as a table.
    """
    match choose_format(arguments):
        case "json":
            _print_json(rows, fields, show_more)
        case "csv":
            _print_csv(rows, fields, has_header)
        case _:
            show(rows)


def show_with(name: str, *more: Any) -> Callable[[Iterable[Any]], None]:
    """Return a function that shows rows: it calls the function `name` of `redbike.cli.tables` with them and `more`."""

    def show(rows: Iterable[Any]) -> None:
        # Imported here, because only a terminal needs the library for tables.
        from redbike.cli import tables

        getattr(tables, name)(rows, *more)

    return show


def choose_format(arguments: Arguments) -> str:
    """Return the format of rows: csv, json, or "" for a table. Raise `BadConfig` for an unknown ``--format``."""
    given = find_format(arguments)
    return "" if given == TABLE else given or ("" if sys.stdout.isatty() else "csv")


def find_format(arguments: Arguments) -> str:
    """Return ``--format`` in lower case; "" if it is not given. Raise `BadConfig` for an unknown format."""
    given: str | None = arguments["--format"]
    if given is None:
        return ""
    if given.lower() not in FORMATS:
        raise BadConfig(f"bad --format {given!r:.40}: {', '.join(FORMATS)} are allowed")
    return given.lower()


def make_writer() -> Any:
    """Return a CSV writer for standard output."""
    encode_data()
    return csv.writer(sys.stdout, lineterminator="\n")


def print_json(value: object, indent: int | None = None) -> None:
    """Print a value as JSON, without escapes for characters beyond ASCII."""
    encode_data()
    print(json.dumps(value, indent=indent, ensure_ascii=False))


def _print_csv(rows: Iterable[Any], fields: Sequence[str], has_header: bool) -> None:
    writer = make_writer()
    rows = iter(rows)
    # Read the first row before the header is printed: if that raises an error, print nothing.
    first = list(islice(rows, 1))
    with buffer_output():
        if has_header:
            writer.writerow(fields)
        for row in chain(first, rows):
            writer.writerow(format_row(row, fields))


def format_row(row: Any, fields: Sequence[str]) -> list[str]:
    """Return the `fields` of a row as texts for CSV."""
    return [_format_field(name, getattr(row, name)) for name in fields]


def _print_json(rows: Iterable[Any], fields: Sequence[str], show_more: Callable[[Any], dict[str, Any]]) -> None:
    """Print a JSON array, with one object a line."""
    encode_data()
    separator = "["
    for row in rows:
        found = {name: getattr(row, name) for name in fields} | show_more(row)
        print(f"{separator}\n{json.dumps(found, ensure_ascii=False)}", end="")
        separator = ","
    print("[]" if separator == "[" else "\n]")


def _format_field(name: str, value: object) -> str:
    match value:
        case str() if name in AS_IT_IS or value.isprintable():
            return value
        case str():
            return escape(value.encode(errors="surrogateescape"))
        case None:
            return ""
        case float():
            return f"{value:.6f}".rstrip("0").rstrip(".")
        case tuple() | list():
            return " ".join(value)
        case _:
            return str(value)
