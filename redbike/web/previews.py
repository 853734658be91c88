"""What a schedule means as one types it: in words, and when it would run."""

import time
from dataclasses import dataclass, field

from redbike.config.options import read_option
from redbike.config.settings import check_zone
from redbike.errors import BadConfig, BadSchedule
from redbike.schedule.clock import Clock
from redbike.schedule.jitter import spread
from redbike.schedule.kinds import Schedule
from redbike.schedule.parser import parse

SHOWN = 5  # instants


@dataclass(slots=True)
class Preview:
    """A schedule in words and its next due times in epoch seconds; or what is wrong with it, by field."""

    clock: Clock
    words: str = ""
    remark: str = ""
    moments: list[float] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)


def make_preview(text: str, tz: str, jobid: str, share: str, zone: str, now: float | None = None) -> Preview:
    """Return what a schedule means for a job of this id, with the texts of a zone and of the option ``spread``.

    `zone` is where it is without a zone of its own. Neither needs Redis, nor takes a time that depends on the text.
    """
    now = time.time() if now is None else now
    preview = Preview(Clock(now, zone))
    try:
        local = check_zone(tz) if tz else zone
    except BadConfig as error:
        preview.errors["tz"] = str(error)
        return preview
    try:
        parsed = parse(text, local, jobid, now)
        seconds = read_option("spread", share) if share else None
    except BadSchedule as error:
        preview.errors["schedule"] = str(error)
        return preview
    except BadConfig as error:
        preview.errors["spread"] = str(error)
        return preview
    preview.clock = Clock(now, parsed.timezone or local)
    _foresee(preview, spread(parsed, jobid, seconds if isinstance(seconds, int | float) else 0))
    return preview


def _foresee(preview: Preview, schedule: Schedule) -> None:
    now = preview.clock.now
    preview.words = schedule.explain(preview.clock.zone)
    if schedule.never_runs:
        preview.remark = "It does not run any more: it leaves the timeline and its queue."
    elif schedule.is_immediate:
        preview.remark = "It runs as soon as it is set."
    else:
        moment = now
        for _ in range(SHOWN):
            following = schedule.next(moment)
            if following is None:
                break
            preview.moments.append(following)
            moment = following
        if not preview.moments:
            preview.remark = (
                "That is past: it runs as soon as it is set." if schedule.runs_once else "Nothing is left to run of it."
            )
        elif len(preview.moments) < SHOWN and not schedule.runs_once:
            preview.remark = "There are no further runs."
