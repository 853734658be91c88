"""Read, show and store the options and the data of jobs. In Redis both are JSON; most jobs have none."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from types import MappingProxyType
from typing import Any, TypedDict

from redbike.config.definitions import OPTIONS, Catchup, NoOrYes, OnError, OnLost, OnTimeout, Overlap, Value, fold
from redbike.config.labels import LABELS, TAGS
from redbike.config.ping_urls import mask
from redbike.errors import BadConfig
from redbike.text.parsing import DEFAULT, load_object, refuse_constant

MAX_DATA = 64 * 1024  # bytes of UTF-8
MAX_DEPTH = 500  # levels of lists and objects: a worker must be able to read them, too
DATA = "data"
BACKFILL = "backfill"  # among stored options: marks an occurrence of a backfill
ALL_OF = "all-of"  # among stored options: marks a job for every host, and its job on one host
_TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"

# `json.dumps` with arguments would make an encoder for each call.
_encode_options = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
_encode_data = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')  # in JSON


Labels = dict[str, str | list[str]]  # of a job: its tags, as a list, its owner and its note
SCHEDULE, PAUSED = "schedule", "paused"
COLUMNS = ("jobid", SCHEDULE, *OPTIONS, DATA)  # what can be set of a job
BLACKOUT = "blackout"
ALL_COLUMNS = (*COLUMNS, PAUSED, BLACKOUT)  # of a CSV file that says all of a job


class JobOptions(TypedDict, total=False):
    """The options and the data that `Redbike.set` takes. Durations are seconds or texts; None is the default."""

    timeout: float | str | None
    on_timeout: OnTimeout | None
    on_error: OnError | None
    retries: int | None
    backoff: float | str | None
    max_backoff: float | str | None
    jitter: float | None
    on_lost: OnLost | None
    catchup: Catchup | None
    catchup_limit: int | None
    stop_after: int | None
    grace: float | str | None
    expires: float | str | None
    start_within: float | str | None
    finish_within: float | str | None
    finish_by: str | None
    overlap: Overlap | None
    spread: float | str | None
    forget_after: float | str | None
    history: int | None
    keep_result: bool | NoOrYes | None
    output: int | str | None
    group_of: str | None
    ping_url: str | None
    traceparent: str | None
    tags: str | Collection[str] | None
    owner: str | None
    note: str | None
    data: Any


@dataclass(frozen=True, slots=True)
class OptionChanges:
    """Changes of a job's options and data. None removes an option, and "" the data."""

    options: Mapping[str, Value | None] = field(default_factory=dict)
    data: str | None = None  # JSON; None leaves it as it is

    def apply(self, stored: str) -> str:
        """Return the options of a job that has `stored` so far."""
        merged = {**parse_options(stored), **self.options}
        return format_options({name: value for name, value in merged.items() if value is not None})


NO_CHANGES = OptionChanges()


def read_changes(given: Mapping[str, Any]) -> OptionChanges:
    """Return the changes `given` by name, with ``-`` or ``_``. Raise `BadConfig`; `TypeError` for an unknown name."""
    values = {name.replace("_", "-") if isinstance(name, str) else name: value for name, value in given.items()}
    for name in values:
        if name != DATA and name not in OPTIONS:
            raise TypeError(f"unexpected option {name!r}: {', '.join(COLUMNS[2:])} are known")
    data = format_data(values.pop(DATA)) if DATA in values else None
    # A call that sets a whole job gives None for most options.
    read = {name: None if value is None else read_option(name, value) for name, value in values.items()}
    return OptionChanges(read, data)


def read_option(name: str, value: Any) -> Value | None:
    """Return the value of the option `name`; None for its default. Raise `BadConfig`."""
    if value is None or fold(value) == DEFAULT:
        return None
    read = OPTIONS[name].read(value)
    # An empty label is the same as no label. Blanks around the word for the default are gone only now.
    return None if read == "" or fold(read) == DEFAULT else read


def format_options(options: Mapping[str, Value]) -> str:
    """Return options as they are stored; "" for none."""
    return _encode_options(dict(options)) if options else ""


@lru_cache(4096)
def parse_options(stored: str) -> Mapping[str, Value]:
    """Return stored options by name; none for "" and for a damaged record. Invalid options are left out."""
    found: dict[str, Value] = {}
    for name, value in (load_object(stored) or {}).items():
        try:
            found[name] = OPTIONS[name].read(value)
        except (KeyError, BadConfig):
            # A newer version may have stored it.
            continue
    return MappingProxyType(found)


def show_options(stored: str) -> dict[str, Value]:
    """Return stored options as people may see them: without the secret part of a URL."""
    return {
        name: mask(str(value)) if OPTIONS[name].kind == "url" else value
        for name, value in parse_options(stored).items()
    }


def list_texts(stored: str) -> list[str]:
    """Return stored options as texts, one for each option in the order of `OPTIONS`; "" for those that are missing."""
    found = parse_options(stored)
    return [_format_value(found[name]) if name in found else "" for name in OPTIONS]


def _format_value(value: Value) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def list_tags(stored: str) -> list[str]:
    """Return the tags of a job that has these options."""
    return str(parse_options(stored).get(TAGS, "")).split() if f'"{TAGS}"' in stored else []


def list_labels(stored: str) -> Labels:
    """Return those of `LABELS` that a job with these options has, for JSON: tags as a list, others as texts."""
    found = parse_options(stored) if any(f'"{name}"' in stored for name in LABELS) else {}
    said = {name: str(found[name]) for name in LABELS if name in found}
    return {name: text.split() if name == TAGS else text for name, text in said.items()}


def is_readable(stored: str) -> bool:
    """Tell whether stored options are a JSON object, or ""."""
    return not stored or load_object(stored) is not None


def find_bad_options(stored: str) -> list[str]:
    """Return a line for each problem of stored options. Redbike ignores the options that it names."""
    found = load_object(stored) if stored else {}
    if found is None:
        return [f"its options cannot be read: {stored!r:.80}"]
    problems = [f"its option {name!r:.80} is unknown" for name in found if name not in {*OPTIONS, BACKFILL, ALL_OF}]
    for name in found.keys() & OPTIONS.keys():
        try:
            OPTIONS[name].read(found[name])
        except BadConfig as error:
            problems.append(f"its option cannot be read: {error}")
    return problems


def format_data(value: Any) -> str:
    """Return data as they are stored; "" for None. Raise `BadConfig` as `format_json` does."""
    return "" if value is None else format_json(value, "data", "they have", MAX_DATA)


def format_json(value: Any, what: str, has: str, most: int) -> str:
    """Return a value as JSON. Raise `BadConfig` if JSON has no such value, or if it has more than `most` bytes.

    `what` and `has` are words for the message of the error, such as ``data`` and ``they have``.
    """
    try:
        text = _encode_data(value)
        size = len(text.encode())
    except RecursionError:
        raise BadConfig(f"bad {what} {_quote(value)}: {_TOO_DEEP}") from None
    except (TypeError, ValueError) as error:
        subject = has.partition(" ")[0]
        raise BadConfig(f"bad {what} {_quote(value)}: {subject} cannot be written as JSON: {error!s:.80}") from None
    if size > most:
        raise BadConfig(f"bad {what} {text[:40]!r}…: {has} {size} bytes, {most} are allowed")
    # Measuring takes long. No text is nested deeper than the number of its opening brackets.
    if text.count("[") + text.count("{") > MAX_DEPTH and _measure_depth(text) > MAX_DEPTH:
        raise BadConfig(f"bad {what} {text!r:.80}: {_TOO_DEEP}")
    return text


def _measure_depth(text: str) -> int:
    """Return how deep lists and objects are nested in a text of JSON."""
    steps = ((char in "[{") - (char in "]}") for char in _TEXT.sub("", text))
    return max(accumulate(steps), default=0)


def _quote(value: Any) -> str:
    """Return the beginning of the `repr` of a value; the type of a value that is too large or too deep for `repr`."""
    try:
        return f"{value!r:.80}"
    except (ValueError, RecursionError):
        return f"of type {type(value).__name__}"


def parse_data(text: str) -> Any:
    """Return the value of a text of JSON, as the command line and CSV files have it. Raise `BadConfig`."""
    try:
        return json.loads(text, parse_constant=refuse_constant)
    except RecursionError:
        raise BadConfig(f"bad data {text!r:.80}: {_TOO_DEEP}") from None
    except ValueError as error:
        raise BadConfig(f"bad data {text!r:.80}: not JSON: {error!s:.80}") from None


def find_backfill(stored: str) -> tuple[str, float]:
    """Return the backfilled job, and the due time, for which a job with these stored options runs.

    "" and 0.0 for any other job. No user can set them: Redbike stores them with each occurrence of a backfill.
    """
    return _find_backfill(stored) if f'"{BACKFILL}"' in stored else ("", 0.0)


@lru_cache(1024)
def _find_backfill(stored: str) -> tuple[str, float]:
    found: Any = (load_object(stored) or {}).get(BACKFILL)
    try:
        return str(found["of"]), float(found["due"])
    except (TypeError, KeyError, ValueError):
        return "", 0.0


def find_all_of(stored: str) -> tuple[str, str]:
    """Return the base of a job on one host with these stored options, and the revision of the base that it has.

    "" and "" for any other job. No user can set them.
    """
    found = load_mark(stored)
    try:
        return str(found["of"]), str(found["revision"])
    except (TypeError, KeyError):
        return "", ""


def load_mark(stored: str) -> Any:
    """Return the mark among stored options of a job for every host, or of its job on one host; None for other jobs."""
    return (load_object(stored) or {}).get(ALL_OF) if f'"{ALL_OF}"' in stored else None
