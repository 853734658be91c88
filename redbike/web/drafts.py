"""A job as a person types it into a form: its errors, and what it would change.

A form contains a seal of the job for which it was made. So a form that was open for a while does not overwrite what
another person has changed meanwhile.

While a person types a schedule, a preview shows it in words, with its next runs.
"""

import json
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Self

from redbike.config.definitions import OPTIONS
from redbike.config.options import DATA, format_data, list_texts, parse_data, read_option
from redbike.config.settings import Settings, check_zone
from redbike.errors import BadConfig, BadJobId, BadQueueName, BadSchedule
from redbike.schedule.clock import Clock
from redbike.schedule.jitter import add_jitter
from redbike.schedule.kinds import Schedule
from redbike.schedule.moments import END_OF_TIME
from redbike.schedule.parser import EveryHost, parse
from redbike.store.shell import check_own_jobid
from redbike.store.store import Store
from redbike.text.parsing import load_object
from redbike.web.keys import Keys
from redbike.web.requests import Form

PRETTY = 2000  # characters of data that are shown with line breaks
SECRET = "set, and not shown"
SHOWN = 5  # instants


@dataclass(slots=True)
class Preview:
    """A schedule in words, with its next due times in epoch seconds; or its errors, by field."""

    clock: Clock
    words: str = ""
    remark: str = ""
    moments: list[float] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)


def _foresee(preview: Preview, schedule: Schedule) -> None:
    now = preview.clock.now
    preview.words = schedule.explain(preview.clock.zone)
    if isinstance(schedule, EveryHost):
        schedule = schedule.inner  # it is never due itself
    if schedule.never_runs:
        preview.remark = "It does not run any more: it leaves the timeline and its queue."
    elif schedule.is_immediate:
        preview.remark = "It runs as soon as it is set."
    elif schedule.is_awaiting:
        whose = "the jobs of this group" if schedule.runs_once else "these jobs"
        preview.remark = f"It is due when {whose} have ended, for their due time."
    else:
        preview.moments = list(islice(schedule.list_due(now, END_OF_TIME), SHOWN))
        if not preview.moments:
            preview.remark = (
                "That is past: it runs as soon as it is set." if schedule.runs_once else "Nothing is left to run of it."
            )
        elif len(preview.moments) < SHOWN and not schedule.runs_once:
            preview.remark = "There are no further runs."


@dataclass(frozen=True, slots=True)
class Kept:
    """The stored schedule, options and data of a job, as texts."""

    schedule: str | None = None  # None for no such job
    options: dict[str, str] = field(default_factory=dict)
    data: str = ""  # JSON

    @classmethod
    def read(cls, store: Store, jobid: str) -> Self:
        """Read a job. Without such a job, `schedule` is None."""
        [row] = store.rows.read([jobid], with_data=True)
        texts = zip(OPTIONS, list_texts(row.options), strict=True)
        return cls(row.schedule, {name: text for name, text in texts if text}, row.data)

    def seal(self, keys: Keys) -> str:
        """Return a signature of the stored job. It differs for any other content, and does not reveal the content."""
        return keys.make_form(f"seen {json.dumps([self.schedule, self.options, self.data])}")


@dataclass(frozen=True, slots=True)
class Draft:
    """The texts of a form, without blanks at their ends."""

    jobid: str = ""
    schedule: str = ""
    tz: str = ""
    options: dict[str, str] = field(default_factory=dict)
    data: str = ""  # "" does not change them
    seen: str = ""  # the seal of the job for which the form was made
    was: str = "{}"  # the texts of the form when it was made, as JSON; of data, a seal

    @classmethod
    def read(cls, form: Form) -> Self:
        """Read the texts of a form."""
        texts = {name: form.get(name, "").replace("\r\n", "\n").strip() for name in ("schedule", "tz", DATA)}
        options = {name: form.get(name, "").strip() for name in OPTIONS}
        return cls(form.get("id", ""), options=options, seen=form.get("seen", ""), was=form.get("was", ""), **texts)

    @classmethod
    def show(cls, jobid: str, kept: Kept, keys: Keys, show_data: bool) -> Self:
        """Return a form with the stored texts of a job: without URLs, which may be secret; data if `show_data`."""
        options = {name: text for name, text in kept.options.items() if OPTIONS[name].kind != "url"}
        schedule = (kept.schedule or "").encode(errors="replace").decode()
        data = indent_data(kept.data).encode(errors="replace").decode() if show_data else ""
        was = {**options, "schedule": schedule, DATA: keys.make_form(f"data {data}")}
        return cls(jobid, schedule, "", options, data, kept.seal(keys), json.dumps(was))

    def find_zone(self, kept: Kept, zone: str) -> str:
        """Return the zone for a schedule without one: `zone`, but UTC if the text is exactly the stored one."""
        return "UTC" if self.schedule == kept.schedule and not self.tz else zone

    def preview(self, zone: str, kept: Kept, now: float) -> Preview:
        """Return the meaning of the schedule. `zone` applies if it names none, and is not the one in `kept`.

        This does not need Redis, and its computing time does not depend on the text.
        """
        preview, field_name = Preview(Clock(now, zone)), "tz"
        try:
            local = check_zone(self.tz) if self.tz else zone
            field_name = "schedule"
            parsed = parse(self.schedule, self.find_zone(kept, local), self.jobid, now)
            field_name = "spread"
            seconds = read_option("spread", self.options.get("spread") or None)
        except (BadConfig, BadSchedule) as error:
            preview.errors[field_name] = str(error)
            return preview
        preview.clock = Clock(now, parsed.timezone or local)
        _foresee(preview, add_jitter(parsed, self.jobid, seconds if isinstance(seconds, int | float) else 0))
        return preview

    def check(self, store: Store, zone: str, now: float) -> dict[str, str]:
        """Return the errors of the draft, by field."""
        errors: dict[str, str] = {}
        try:
            store.queue_to_set(check_own_jobid(self.jobid))
        except (BadJobId, BadQueueName) as error:
            errors["id"] = str(error)
        errors |= self.preview(zone, Kept(), now).errors
        for name, text in self.options.items():
            try:
                read_option(name, text or None)
            except BadConfig as error:
                errors[name] = str(error)
        try:
            format_data(parse_data(self.data) if self.data else None)
        except BadConfig as error:
            errors[DATA] = str(error)
        return errors

    def list_changes(self, kept: Kept) -> dict[str, Any]:
        """Return the options and data that differ from the stored ones, as `Redbike.set` takes them.

        Empty data and URLs change nothing, because the form may not have shown the stored ones.
        """
        found: dict[str, Any] = {}
        for name, text in self.options.items():
            is_other = bool(text) if OPTIONS[name].kind == "url" else text != kept.options.get(name, "")
            if is_other:
                found[name] = text or None
        if self.data and format_data(value := parse_data(self.data)) != kept.data:
            found[DATA] = value
        return found

    def merge(self, fresh: "Draft", keys: Keys) -> "Draft":
        """Return this draft merged with `fresh`, a form of the present job. Only texts that were changed here stay."""
        was = load_object(self.was) or {}
        options = {
            name: fresh.options.get(name, "") if text == was.get(name, "") else text
            for name, text in self.options.items()
        }
        schedule = fresh.schedule if self.schedule == was.get("schedule", "") else self.schedule
        data = fresh.data if keys.make_form(f"data {self.data}") == was.get(DATA) else self.data
        return replace(self, schedule=schedule, options=options, data=data, seen=fresh.seen, was=fresh.was)


def compare(before: Kept, after: Kept) -> list[str]:
    """Return a text for each difference between two states of a job, without URLs and data, which may be secret."""
    found = []
    if before.schedule != after.schedule:
        found.append(f"schedule {before.schedule or 'none'} → {after.schedule or 'none'}")
    for name in OPTIONS:
        old, new = before.options.get(name, ""), after.options.get(name, "")
        if old != new:
            is_secret = OPTIONS[name].kind == "url"
            found.append(f"{name} changed" if is_secret else f"{name} {old or 'default'} → {new or 'default'}")
    if before.data != after.data:
        found.append("data changed" if after.data else "data removed")
    return found


def name_default(name: str, settings: Settings) -> str:
    """Return in words the value that applies to a job without this option."""
    option = OPTIONS[name]
    value = getattr(settings, option.key) if option.is_setting else option.default
    if option.kind == "url":
        return "that of the settings" if value else "none"
    if option.kind in ("traceparent", "group", "tags", "line"):
        return "none"
    return "the worker class decides" if value is None else f"{option.zero if option.zero and not value else value}"


def indent_data(text: str) -> str:
    """Return data (JSON) with line breaks for people. Damaged or long data are returned unchanged."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False) if text and len(text) < PRETTY else text
    except (ValueError, RecursionError):
        return text
