"""What people are told: a pure function of what is wrong now, and of what they have been told before.

1. Each alert is told once when it begins, and ``recovered`` once when none of a job's alerts lasts any more.
2. The same alert of a job is not told again within ``alert-every``. If it lasts longer, it is.
3. ``recovered`` is always told if an alert was told before: nobody must search for what is well again. Until a job has
   run, `Alert.RECOVERED` is among its lasting alerts.
"""

from collections.abc import Callable, Mapping, Set

from redbike.loop.alerts.conditions import Condition, Found
from redbike.loop.alerts.sender import format_alert
from redbike.store.alerts import DISPATCHER, JOB, MISSED, PROCESS, REWIND, SHARD, WATCHED, Change, Known, Missed, Told
from redbike.store.enums import Alert
from redbike.store.lease import CLOCKS_DIFFER

HasRecovered = Callable[[str, Mapping[str, float]], bool | None]

FLEET = (PROCESS, REWIND, DISPATCHER, SHARD)


def decide(
    found: Found, gone: Set[str], known: Known, every: float, has_recovered: HasRecovered = lambda jobid, active: True
) -> list[Change]:
    """Return the changes of what has been told, each with the lines to send.

    `gone` are the fields of jobs that are not set any more: nothing is told of these. `has_recovered` gets a job and
    its told alerts, each with when it began. It tells whether the job is well; None if the job has to run first.
    """
    names = dict.fromkeys([*(name for name in known.told if name.startswith((JOB, *FLEET))), *found])
    changes = [
        Change(name, known.told[name], None)
        if name in gone
        else _decide_one(name, known.told.get(name), found.get(name, {}), known.now, every, has_recovered)
        for name in names
    ]
    return [each for each in changes if (each.record or WATCHED) != (each.was or WATCHED)]


def _decide_one(
    name: str,
    record: str | None,
    found: dict[Alert, Condition],
    now: float,
    every: float,
    has_recovered: HasRecovered,
) -> Change:
    told = Told.parse(record or "")
    new = [each for alert, each in found.items() if each.text and told.is_new(alert)]
    active = {alert: since for alert, since in told.active.items() if alert in found}
    active |= {each.alert: each.since for each in new}
    if found and not active:
        # What lasts was told a short time ago: it is not well yet.
        active = dict(told.active)
    times = {alert: time for alert, time in told.told.items() if -CLOCKS_DIFFER <= now - time < every}
    times |= {each.alert: now for each in new}
    lines = [format_alert(each.alert, each.text, each.since, each.due, _find_jobid(name)) for each in new]
    jobid = _find_jobid(name)
    if told.active and not found:
        is_well = not jobid or has_recovered(jobid, told.active)
        lines += _list_recovered(name, now) if is_well else ()
        active = {Alert.RECOVERED: now} if is_well is None else active
    after = Told(active, times).format()
    # A job of which nothing is told may still be watched.
    return Change(name, record, after if after != WATCHED or name.startswith(JOB) else None, lines)


def _find_jobid(name: str) -> str:
    return name.removeprefix(JOB) if name.startswith(JOB) else ""


def _list_recovered(name: str, now: float) -> list[str]:
    """Return the line that says that something is well again; none for what does not get well."""
    if jobid := _find_jobid(name):
        return [format_alert(Alert.RECOVERED, f"{jobid} is well again", now, jobid=jobid)]
    if name.startswith(SHARD):
        return [format_alert(Alert.RECOVERED, f"the shard {name.removeprefix(SHARD)} answers again", now)]
    return [format_alert(Alert.RECOVERED, "a dispatcher is running again", now)] if name == DISPATCHER else []


def decide_missed(
    jobid: str, number: str, record: str | None, now: float, every: float, is_first: bool
) -> Change | None:
    """Return the change that tells how many occurrences a job has missed; None if it is too soon to tell more.

    With `is_first`, this is the first look of all: what was missed before is not told.
    """
    before = Missed.parse(record or "")
    more = int(number) - before.number
    if is_first or more <= 0:
        return Change(f"{MISSED}{jobid}", record, Missed(int(number)).format())
    if before.told is not None and -CLOCKS_DIFFER <= now - before.told < every:
        return None
    occurrences = "an occurrence" if more == 1 else f"{more:,} occurrences"
    text = f"{jobid} has missed {occurrences}"
    line = format_alert(Alert.MISSED, text, now, jobid=jobid)
    return Change(f"{MISSED}{jobid}", record, Missed(int(number), now).format(), [line])
