"""Read calendars: for the command ``import ics``, and for the option ``--except`` of several commands."""

import csv
import io
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from redbike.cli.arguments import Arguments
from redbike.cli.messages import BAD, DONE, complain
from redbike.config.file import Config
from redbike.config.settings import check_zone
from redbike.errors import BadConfig, BadSchedule, RedbikeError
from redbike.process.streams import FULL, encode_data
from redbike.schedule.kinds import Schedule
from redbike.schedule.parser import parse

if TYPE_CHECKING:
    from redbike.importers.calendar import Calendar
    from redbike.importers.events import Importer

QUEUE = "calendar"  # the default end of the job ids
_MAX_QUEUE = 200  # bytes of UTF-8; a job id may have 512


def import_ics(arguments: Arguments, config: Config) -> int:
    """Write a row JOBID,SCHEDULE for each event of a calendar, and name refused events. Return the exit status."""
    _require_icalendar("import ics")
    from redbike.importers.calendar import read_calendar
    from redbike.importers.events import Importer

    now, queue = time.time(), QUEUE if arguments["--queue"] is None else _check_queue(arguments["--queue"])
    zone = None if arguments["--tz"] is None else check_zone(arguments["--tz"])
    days = find_holidays(arguments["--except"], now)
    with open_input(arguments["<FILE>"]) as (file, name):
        calendar = read_calendar(file, name)
    importer = Importer(calendar, queue, zone, config.settings.timezone, now)
    rows, refused = _make_rows(importer, days, name)
    _write_rows(rows, arguments["--out"])
    complain(f"{name}: {_count(len(rows), 'job')} written{_list_counts(importer, calendar, refused)}")
    return BAD if refused else DONE


def find_holidays(path: str | None, now: float) -> list[int]:
    """Return the holidays (days since 1970-01-01) in a calendar file; [] if `path` is None. Raise `BadConfig`."""
    if path is None:
        return []
    _require_icalendar("--except")
    from redbike.importers.holidays import read_holidays

    with open_input(path) as (file, name):
        return read_holidays(file, name, now)


def exclude_days(text: str, days: Sequence[int], timezone: str, jobid: str, now: float) -> str:
    """Return the text of a schedule without its runs on `days`; `text` itself for no `days`. Raise `BadSchedule`."""
    if not days:
        return text
    return _exclude(parse(text, timezone, jobid, now), days)


def _exclude(schedule: Schedule, days: Sequence[int]) -> str:
    """Return the text of a schedule without its runs on these days. Raise `BadSchedule`, also if none is left."""
    return parse(schedule.exclude(days)).text if days else schedule.text


def _make_rows(importer: "Importer", days: Sequence[int], name: str) -> tuple[list[tuple[str, str]], int]:
    """Return the rows, and the number of events that are refused."""
    rows, refused = list[tuple[str, str]](), 0
    for job in importer.list_jobs():
        try:
            if job.schedule is None:
                raise BadSchedule(job.problem)
            if job.remark:
                complain(f"{name}: {job.title}: {job.remark}")
            # Keep a single event even on a holiday, because a person chose this day for it.
            rows.append((job.jobid, job.schedule.text if job.schedule.runs_once else _exclude(job.schedule, days)))
        except BadSchedule as error:
            complain(f"{name}: {job.title}: {error}")
            refused += 1
    return rows, refused


def _write_rows(rows: Sequence[tuple[str, str]], path: str | None) -> None:
    """Write the rows to a file, or to standard output, as `load` reads them."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    if path is None:
        encode_data()
        print(text.getvalue(), end="")
        return
    try:
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text.getvalue())
    except (OSError, ValueError) as error:
        raise explain_out(path, error) from None


def explain_out(path: str, error: OSError | ValueError) -> RedbikeError:
    """Return an error that says why ``--out`` cannot be written. It is a `BadConfig`, but not for a full disk."""
    kind = RedbikeError if getattr(error, "errno", None) in FULL else BadConfig
    return kind(f"cannot write {path!r}: {getattr(error, 'strerror', None) or error}")


def _list_counts(importer: "Importer", calendar: "Calendar", refused: int) -> str:
    """Return the end of a sentence that says what was not written."""
    parts = [f"{number} {why}" for why, number in importer.left_out.items()]
    parts += [f"{number} {kind} ignored" for kind, number in sorted(calendar.ignored.items())]
    parts += [f"{_count(refused, 'event')} refused"] if refused else []
    return "".join(f", {part}" for part in parts)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


@contextmanager
def open_input(path: str) -> Iterator[tuple[IO[bytes], str]]:
    """Yield a binary file, or standard input for ``-``, and its name. Raise `BadConfig` if it cannot be read."""
    if path == "-":
        if sys.stdin is None:
            raise BadConfig("cannot read standard input: it is closed")
        yield sys.stdin.buffer, "standard input"
        return
    try:
        with open(path, "rb") as file:
            yield file, path
    except BadConfig:
        raise
    except (OSError, ValueError) as error:
        raise BadConfig(f"cannot read {path!r}: {getattr(error, 'strerror', None) or error}") from None


def _require_icalendar(what: str) -> None:
    """Raise `RedbikeError` if the package that reads calendars is not installed. `what` needs it."""
    try:
        import redbike.importers.calendar  # noqa: F401
    except ModuleNotFoundError as error:
        raise RedbikeError(f"{what} needs a package ({error}): install Redbike with its extra 'ics'") from None


def _check_queue(name: str) -> str:
    """Return the name of a queue if it can be the end of a job id, else raise `BadConfig`."""
    # Of all blanks, only the space is printable.
    if not name or set(": ") & {*name} or not name.isprintable() or len(name.encode()) > _MAX_QUEUE:
        raise BadConfig(f"bad --queue {name!r:.80}: the end of a job id is needed, without a colon or a space")
    return name
