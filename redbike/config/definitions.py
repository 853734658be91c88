"""Define every setting and every option of a job, each in one row.

A setting belongs to a process. An option belongs to a job, and overrides the setting of the same name. The config file,
the environment, the flags of ``redbike set``, and the columns of a CSV file follow from the rows. A test compares the
rows with what is written out for type checkers and readers: `redbike.Settings`, `redbike.KeywordSettings`,
`redbike.JobOptions`, the help, the documentation and ``redbike.conf.example``.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from redbike.config.labels import read_line, read_tags
from redbike.config.ping_urls import check_ping_url
from redbike.errors import BadConfig
from redbike.text.group_names import find_problem
from redbike.text.parsing import measure_duration
from redbike.text.printable import quote

Value = float | str  # a whole number of seconds is an int

# The words of each choice, for type checkers too.
OnTimeout = Literal["stop", "reschedule", "requeue"]  #: What follows a timeout.
OnError = Literal["stop", "reschedule", "retry"]  #: What follows a failure.
OnLost = Literal["requeue", "reschedule", "stop"]  #: What follows the loss of a worker.
Catchup = Literal["last", "none", "all"]  #: Which missed occurrences run.
Overlap = Literal["skip", "queue"]  #: What happens to an occurrence that is due during a run.
LogLevel = Literal["debug", "info", "warning", "error", "critical"]  #: The lowest level to log.
LogFormat = Literal["text", "json"]  #: How a line of the log is written.
NoOrYes = Literal["no", "yes"]  #: A switch, as a text.
Kind = Literal[
    "duration", "count", "share", "choice", "url", "traceparent", "clock", "group", "size", "tags", "line", "text"
]

MAX_SECONDS = 1e9
MAX_COUNT = 1_000_000
MOST_SHARDS = 64
MAX_OUTPUT = 1024 * 1024  # bytes
OFF, _UNITS = "off", {"": 1, "k": 1024, "m": 1024 * 1024}
NO_OR_YES = get_args(NoOrYes)  # in Python False and True, too

_COUNT = re.compile(r"\d{1,9}", re.ASCII)
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)", re.ASCII)
_SHARE = re.compile(r"\d{1,9}(\.\d{0,20})?|\.\d{1,20}", re.ASCII)
_SIZE = re.compile(r"(\d{1,9})([km]?)", re.ASCII)
# W3C Trace Context: the version, the trace, the span, and the flags. A trace or a span of zeros is invalid.
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A setting, an option of a job, or both. If its default is None, the worker class decides, or it has no value."""

    name: str
    kind: Kind
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    least: float = 0
    most: int = MAX_COUNT  # of a count or a size, and characters of a line
    is_setting: bool = True
    is_option: bool = True
    zero: str = ""  # a word for 0
    endless: str = ""  # a word for no end, which is stored as it is

    @property
    def key(self) -> str:
        """The name in Python: with ``_`` for ``-``."""
        return self.name.replace("-", "_")

    def read(self, value: Any) -> Value:
        """Return `value`, a text or a number, as it is stored. Raise `BadConfig`."""
        if read := READERS.get(self.kind):
            return read(self, value)
        if self.zero and fold(value) == self.zero:
            return 0
        if self.endless and fold(value) == self.endless:
            return self.endless
        if self.kind == "count":
            return int(read_number(self.name, value, self.least, self.most, int))
        seconds = read_number(self.name, value, self.least, MAX_SECONDS, float, self.endless)
        return int(seconds) if seconds.is_integer() else seconds


_EXPIRES_HELP = "Skip an occurrence that has not begun within this time"
_START_HELP = "Alert if an occurrence has not begun within this time"
_WITHIN_HELP = "Alert if an occurrence has not ended within this time"
_BY_HELP = "Alert if an occurrence has not ended by this time of day, such as 06:00"
_JITTER_HELP = "Shorten each pause between two tries at random by up to this share of it, from 0 to 1"
_SPREAD_HELP = "Delay each run by a fixed part of this; a hash of the job id chooses the part"
_FORGET_HELP = 'Forget a one-off this long after its run succeeded; with "never", keep it'
_RESULT_HELP = "Whether Redbike keeps the value that work returns with the run"
_OUTPUT_HELP = "How much of the end of a command's output Redbike keeps with each run, such as 16k"
_PING_URL_HELP = "A URL to call after each run"
_GROUP_HELP = (
    "The group that the job belongs to. "
    "When all jobs of the group have ended, the job with the schedule GROUP:<NAME> is due"
)
_TAGS_HELP = "Tags by which --tag finds the job, such as billing,nightly"
_OWNER_HELP = "Who is responsible for the job"
_NOTE_HELP = "A note for people who look at the job"
_TRACEPARENT_HELP = "The span to link its runs to, in the format of W3C Trace Context"

PARAMETERS = {
    row.key: row
    for row in (
        Parameter("prefix", "text", "redbike", "How all keys in Redis begin", is_option=False),
        Parameter(
            "shards", "count", 1, "Among how many shards the jobs are divided", (), 1, MOST_SHARDS, is_option=False
        ),
        Parameter("worker", "text", None, "package.module:Class('init string')", is_option=False),
        Parameter("timefile", "text", None, "A file with the last time of the dispatcher", is_option=False),
        Parameter("group", "text", None, "What the group of a file begins with", is_option=False),
        Parameter("host", "text", None, "The name of this host", is_option=False),
        Parameter("default-timeout", "duration", 10.0, "How long a run may take", least=0.001, is_option=False),
        Parameter("timezone", "text", "UTC", "The time zone of times without a zone", is_option=False),
        Parameter("timeout", "duration", None, "How long a run may take", least=0.001, is_setting=False),
        Parameter("on-timeout", "choice", None, "After a timeout", get_args(OnTimeout)),
        Parameter("on-error", "choice", None, "After a failure", get_args(OnError)),
        Parameter("retries", "count", None, "How often a failed run is tried again, before on-error decides"),
        Parameter("backoff", "duration", 1.0, "The pause before the first retry"),
        Parameter("max-backoff", "duration", 3600.0, "The longest pause between two tries"),
        Parameter("jitter", "share", 0.0, _JITTER_HELP),
        Parameter("on-lost", "choice", "requeue", "After its worker died", get_args(OnLost)),
        Parameter("max-losses", "count", 3, "Losses in a row that fail a job", least=1, most=1000, is_option=False),
        Parameter("catchup", "choice", "last", "Which missed occurrences run", get_args(Catchup)),
        Parameter("catchup-limit", "count", 100, "How many missed occurrences catchup=all runs"),
        Parameter(
            "stop-after", "count", 0, "Stop the job after so many failed occurrences in a row, each with its retries"
        ),
        Parameter("grace", "duration", 0.0, "Skip an occurrence that is late by more than this", zero="none"),
        Parameter("expires", "duration", 0.0, _EXPIRES_HELP, zero="none"),
        Parameter("start-within", "duration", None, _START_HELP, least=0.001, is_setting=False),
        Parameter("finish-within", "duration", None, _WITHIN_HELP, least=0.001, is_setting=False),
        Parameter("finish-by", "clock", None, _BY_HELP, is_setting=False),
        Parameter("overlap", "choice", "skip", "If an occurrence is due during a run", get_args(Overlap)),
        Parameter("spread", "duration", 0, _SPREAD_HELP, is_setting=False),
        Parameter("forget-after", "duration", 7 * 86400.0, _FORGET_HELP, endless="never"),
        Parameter("history", "count", 10, "How many ended runs Redbike keeps", most=200),
        Parameter("keep-result", "choice", "no", _RESULT_HELP, NO_OR_YES),
        Parameter("output", "size", 0, _OUTPUT_HELP, most=MAX_OUTPUT),
        Parameter("group-of", "group", None, _GROUP_HELP, is_setting=False),
        Parameter("ping-url", "url", None, _PING_URL_HELP),
        Parameter("alert", "text", None, "A command or a URL that gets alerts", is_option=False),
        Parameter("alert-every", "duration", 3600.0, "How long the same alert is not repeated", is_option=False),
        Parameter("traceparent", "traceparent", None, _TRACEPARENT_HELP, is_setting=False),
        Parameter("tags", "tags", None, _TAGS_HELP, is_setting=False),
        Parameter("owner", "line", None, _OWNER_HELP, most=100, is_setting=False),
        Parameter("note", "line", None, _NOTE_HELP, most=500, is_setting=False),
        Parameter("stop-within", "duration", 0.0, "How long a worker that stops waits for its runs", is_option=False),
        Parameter("failures-limit", "count", 1000, "How many failures Redbike keeps", most=10_000_000, is_option=False),
        Parameter("log-level", "choice", "info", "The lowest level to log", get_args(LogLevel), is_option=False),
        Parameter("log-format", "choice", "text", "How messages are logged", get_args(LogFormat), is_option=False),
    )
}
SETTINGS = {key: row for key, row in PARAMETERS.items() if row.is_setting}
OPTIONS = {row.name: row for row in PARAMETERS.values() if row.is_option}


def fold(value: Any) -> Any:
    """Return a word in lower case; anything else as it is."""
    return value.lower() if isinstance(value, str) and value.isascii() else value


def read_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return `value` in lower case if it is one of `choices`, which are in lower case. Raise `BadConfig`."""
    word = fold(value)
    if not isinstance(word, str) or word not in choices:
        raise BadConfig(f"bad {name} {quote(value)}: {', '.join(choices)} are allowed")
    return word


def read_share(name: str, value: Any) -> float:
    """Return the share from 0 to 1 that `value`, a number or a text such as ``0.25``, means. Raise `BadConfig`."""
    share = float(value) if isinstance(value, str) and _SHARE.fullmatch(value) else value
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise BadConfig(f"bad {name} {quote(value)}: a share from 0 to 1, such as 0.25, is needed")
    return round(float(share), 6) + 0.0  # without the sign that a zero may have


def read_size(name: str, value: Any, most: int) -> int:
    """Return the bytes that `value`, a number or a text such as ``16k``, means; ``off`` is 0. Raise `BadConfig`."""
    size = value
    if isinstance(value, str):
        found = _SIZE.fullmatch(fold(value))
        size = int(found[1]) * _UNITS[found[2]] if found else 0 if fold(value) == OFF else None
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= most:
        raise BadConfig(f"bad {name} {quote(value)}: {OFF!r}, or a size such as 16k, up to {most} bytes, is needed")
    return size


def read_traceparent(name: str, value: Any) -> str:
    """Return `value` if it names a span as W3C Trace Context has it. Raise `BadConfig`."""
    if not isinstance(value, str) or not _TRACEPARENT.fullmatch(value):
        example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        raise BadConfig(f"bad {name} {quote(value)}: 55 characters such as {example} are needed")
    return value


def read_clock_time(name: str, value: Any) -> str:
    """Return `value`, a time of day such as ``6:00``, with two digits for the hour. Raise `BadConfig`."""
    found = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise BadConfig(f"bad {name} {quote(value)}: a time of day such as 06:00 is needed")
    return f"{int(found[1]):02}:{found[2]}"


def read_group_name(name: str, value: Any) -> str:
    """Return `value` if it is the name of a group of jobs. Raise `BadConfig`."""
    if problem := find_problem(value):
        raise BadConfig(f"bad {name} {quote(value)}: {problem}")
    return str(value)


def _read_word(row: Parameter, value: Any) -> str:
    is_flag = isinstance(value, bool) and row.choices == NO_OR_YES
    return read_choice(row.name, row.choices[value] if is_flag else value, row.choices)


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


# The function that reads each kind, but not texts, nor counts and durations, which may have words for 0 and no end.
READERS: dict[Kind, Callable[[Parameter, Any], Value]] = {
    "choice": _read_word,
    "url": lambda row, value: check_ping_url(value),
    "traceparent": lambda row, value: read_traceparent(row.name, value),
    "clock": lambda row, value: read_clock_time(row.name, value),
    "group": lambda row, value: read_group_name(row.name, value),
    "tags": lambda row, value: read_tags(row.name, value),
    "line": lambda row, value: read_line(row.name, value, row.most),
    "size": lambda row, value: read_size(row.name, value, row.most),
    "share": lambda row, value: read_share(row.name, value),
}
