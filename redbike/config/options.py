"""Define the options of jobs, each once. An option overrides the setting of the same name for one job.

The settings, the flags of ``redbike set``, the columns of a CSV file and the arguments of `Redbike.set` follow this
table. In Redis a job has its options as a JSON object, and its data as JSON; most jobs have none.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from types import MappingProxyType
from typing import Any, Literal, TypedDict

from redbike.config.ping_urls import check_ping_url, mask
from redbike.errors import BadConfig
from redbike.text.parsing import measure_duration
from redbike.text.printable import quote

Value = float | str  # a whole number of seconds is an int

MAX_DATA = 64 * 1024  # bytes of UTF-8
MAX_DEPTH = 500  # lists and objects in each other: a worker must be able to read them, too
MAX_SECONDS = 1e9
MAX_COUNT = 1_000_000
DEFAULT = "default"  # as the text of an option: the job has it no more
DATA = "data"
_TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"

_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')  # in JSON
_COUNT = re.compile(r"\d{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a job. `default` is also that of its setting; None: there is none, or the worker class decides."""

    name: str
    kind: Literal["duration", "count", "choice", "url"]
    default: Value | None
    help: str
    choices: tuple[str, ...] = ()
    least: float = 0
    most: int = MAX_COUNT  # of a count
    is_setting: bool = True
    zero: str = ""  # a word for 0
    endless: str = ""  # a word for no end, which is stored as it is

    @property
    def key(self) -> str:
        """The name as Python has it."""
        return self.name.replace("-", "_")

    def read(self, value: Any) -> Value:
        """Return `value`, a text or a number, as it is stored. Raise `BadConfig`."""
        if self.kind == "choice":
            return read_choice(self.name, value, self.choices)
        if self.kind == "url":
            return check_ping_url(value)
        if self.zero and fold(value) == self.zero:
            return 0
        if self.endless and fold(value) == self.endless:
            return self.endless
        if self.kind == "count":
            return int(read_number(self.name, value, self.least, self.most, int))
        seconds = read_number(self.name, value, self.least, MAX_SECONDS, float, self.endless)
        return int(seconds) if seconds.is_integer() else seconds


OPTIONS = {
    option.name: option
    for option in (
        Option("timeout", "duration", None, "How long a run may take", least=0.001, is_setting=False),
        Option("on-timeout", "choice", None, "After a timeout", ("stop", "reschedule", "requeue")),
        Option("on-error", "choice", None, "After a failure", ("stop", "reschedule", "retry")),
        Option("retries", "count", None, "How often a failed run is tried again, before on-error decides"),
        Option("backoff", "duration", 1, "The pause before the first retry"),
        Option("on-lost", "choice", "requeue", "After its worker died", ("requeue", "reschedule", "stop")),
        Option("catchup", "choice", "last", "Which missed occurrences run", ("last", "none", "all")),
        Option("catchup-limit", "count", 100, "How many missed occurrences catchup=all runs"),
        Option("stop-after", "count", 0, "Stop it after so many failed occurrences in a row, each with its retries"),
        Option("grace", "duration", 0, "Skip an occurrence that is later than this", zero="none"),
        Option("overlap", "choice", "skip", "An occurrence that is due during a run", ("skip", "queue")),
        Option(
            "spread",
            "duration",
            0,
            "Run it later by a fixed share of this, hashed from its id",
            is_setting=False,
        ),
        Option(
            "forget-after",
            "duration",
            7 * 86400,
            "Forget a one-off so long after its run has succeeded, or never",
            endless="never",
        ),
        Option("history", "count", 10, "How many ended runs are kept", most=200),
        Option(
            "ping-url",
            "url",
            None,
            "A URL to call after each run; with dispatch and up one that the dispatcher calls each minute",
        ),
    )
}
SETTINGS = {option.key: option for option in OPTIONS.values() if option.is_setting}
PAUSED = "paused"
COLUMNS = ("jobid", "schedule", *OPTIONS, DATA)  # what is set of a job
ALL_COLUMNS = (*COLUMNS, PAUSED)  # of a CSV file that has all of a job


class JobOptions(TypedDict, total=False):
    """What `Redbike.set` takes besides the schedule. Durations are seconds or texts; None is the default."""

    timeout: float | str | None
    on_timeout: str | None
    on_error: str | None
    retries: int | None
    backoff: float | str | None
    on_lost: str | None
    catchup: str | None
    catchup_limit: int | None
    stop_after: int | None
    grace: float | str | None
    overlap: str | None
    spread: float | str | None
    forget_after: float | str | None
    history: int | None
    ping_url: str | None
    data: Any


@dataclass(frozen=True, slots=True)
class OptionChanges:
    """What is to change of a job's options and data: None takes an option back, and "" the data."""

    options: Mapping[str, Value | None] = field(default_factory=dict)
    data: str | None = None  # JSON; None leaves it as it is

    def apply(self, stored: str) -> str:
        """Return the options of a job that has `stored` so far."""
        merged = {**parse_options(stored), **self.options}
        return format_options({name: value for name, value in merged.items() if value is not None})


NO_CHANGES = OptionChanges()


def read_changes(given: Mapping[str, Any]) -> OptionChanges:
    """Return the changes that are `given` by names, with ``-`` or ``_``; data as a value. Raise `BadConfig`."""
    values = {name.replace("_", "-") if isinstance(name, str) else name: value for name, value in given.items()}
    for name in values:
        if name not in COLUMNS[2:]:
            raise TypeError(f"unexpected option {name!r}: {', '.join(COLUMNS[2:])} are known")
    data = format_data(values.pop(DATA)) if DATA in values else None
    return OptionChanges({name: read_option(name, value) for name, value in values.items()}, data)


def read_option(name: str, value: Any) -> Value | None:
    """Return the value of the option `name`; None for its default. Raise `BadConfig`."""
    return None if value is None or fold(value) == DEFAULT else OPTIONS[name].read(value)


def format_options(options: Mapping[str, Value]) -> str:
    """Return options as they are stored; "" for none."""
    return json.dumps(dict(options), sort_keys=True, separators=(",", ":")) if options else ""


@lru_cache(4096)
def parse_options(stored: str) -> Mapping[str, Value]:
    """Return options that are stored; none for "" and for a damaged record. What is invalid is left out."""
    found: dict[str, Value] = {}
    for name, value in (_parse_object(stored) or {}).items():
        try:
            found[name] = OPTIONS[name].read(value)
        except (KeyError, BadConfig):
            # A newer version may have stored it.
            continue
    return MappingProxyType(found)


def show_options(stored: str) -> dict[str, Value]:
    """Return options for whoever looks at them: without what is secret of a URL."""
    return {
        name: mask(str(value)) if OPTIONS[name].kind == "url" else value
        for name, value in parse_options(stored).items()
    }


def list_texts(stored: str) -> list[str]:
    """Return the options that are stored as the texts of columns, "" for those that are not there."""
    found = parse_options(stored)
    return [_format_value(found[name]) if name in found else "" for name in OPTIONS]


def _format_value(value: Value) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def is_readable(stored: str) -> bool:
    """Tell whether options are stored as they should be."""
    return not stored or _parse_object(stored) is not None


def find_bad_options(stored: str) -> list[str]:
    """Return what is wrong with options that are stored, a line for each: those do not count."""
    found = _parse_object(stored) if stored else {}
    if found is None:
        return [f"its options cannot be read: {stored!r:.80}"]
    problems = [f"its option {name!r:.80} is unknown" for name in found if name not in OPTIONS]
    for name in found.keys() & OPTIONS.keys():
        try:
            OPTIONS[name].read(found[name])
        except BadConfig as error:
            problems.append(f"its option cannot be read: {error}")
    return problems


def _parse_object(stored: str) -> dict[str, Any] | None:
    try:
        found = json.loads(stored)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def format_data(value: Any) -> str:
    """Return data as they are stored; "" for None. Raise `BadConfig` for what is no JSON, or too much."""
    if value is None:
        return ""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(text.encode())
    except RecursionError:
        raise BadConfig(f"bad data {_quote(value)}: {_TOO_DEEP}") from None
    except (TypeError, ValueError) as error:
        raise BadConfig(f"bad data {_quote(value)}: they cannot be written as JSON: {error!s:.80}") from None
    if size > MAX_DATA:
        raise BadConfig(f"bad data {text[:40]!r}…: they have {size} bytes, {MAX_DATA} are allowed")
    if _measure_depth(text) > MAX_DEPTH:
        raise BadConfig(f"bad data {text!r:.80}: {_TOO_DEEP}")
    return text


def _measure_depth(text: str) -> int:
    """Return how many lists and objects are in each other, at most, in a text of JSON."""
    steps = ((char in "[{") - (char in "]}") for char in _TEXT.sub("", text))
    return max(accumulate(steps), default=0)


def _quote(value: Any) -> str:
    """Return the beginning of what `repr` says, or the type of a value that is too large for it, or too deep."""
    try:
        return f"{value!r:.80}"
    except (ValueError, RecursionError):
        return f"of type {type(value).__name__}"


def parse_data(text: str) -> Any:
    """Return the value of a text of JSON, as the command line and CSV files have it. Raise `BadConfig`."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise BadConfig(f"bad data {text!r:.80}: {_TOO_DEEP}") from None
    except ValueError as error:
        raise BadConfig(f"bad data {text!r:.80}: not JSON: {error!s:.80}") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def fold(value: Any) -> Any:
    """Return a word in lower case; anything else as it is."""
    return value.lower() if isinstance(value, str) and value.isascii() else value


def read_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return the one of `choices`, which are in lower case, that `value` is in any case. Raise `BadConfig`."""
    word = fold(value)
    if not isinstance(word, str) or word not in choices:
        raise BadConfig(f"bad {name} {quote(value)}: {', '.join(choices)} are allowed")
    return word


def read_number(name: str, value: Any, minimum: float, maximum: float, kind: type, other: str = "") -> Any:
    """Return the number that `value`, a number or a text, means; a float may be a duration. Raise `BadConfig`.

    The error names `other`, a word that is allowed too.
    """
    try:
        number = _parse_number(value, kind) if isinstance(value, str) else value
        if isinstance(value, bool) or not (math.isfinite(number) and minimum <= number <= maximum):
            raise ValueError
        if kind(number) != number:
            raise ValueError
    except (ValueError, TypeError, OverflowError):
        what = "a number" if kind is int else "seconds, or a duration such as 15m,"
        allowed = f"{f'{other!r}, ' if other else ''}{what} from {minimum:g} to {maximum:g} is needed"
        raise BadConfig(f"bad {name} {quote(value)}: {allowed}") from None
    return round(kind(number), 6)


def _parse_number(text: str, kind: type) -> float:
    """Return the number in a text; raise `ValueError`."""
    if kind is int:
        if not _COUNT.fullmatch(text):
            raise ValueError
        return int(text)
    seconds = measure_duration(text)
    if seconds is None:
        raise ValueError
    return seconds
