"""Nightly reports in the zone of each user, but not on holidays; and those of past nights for a new user.

Run ``redbike up reports:jobs``.
"""

from collections.abc import Iterable
from datetime import date, datetime, time
from zoneinfo import ZoneInfo

from redbike import Jobs, Redbike, current_run

jobs = Jobs()
reports: list[tuple[str, date]] = []


@jobs.job("report", timeout="10m", retries=3)
def report(jobid: str, data: dict[str, str]) -> None:
    """Report on a night. Its date comes from the due time, so a late run or a retry reports on the same night."""
    night = datetime.fromtimestamp(current_run().due, ZoneInfo(data["zone"])).date()
    reports.append((jobid.partition(":")[2], night))


def make_schedule(zone: str, holidays: Iterable[date]) -> str:
    """Return a schedule for each night, but not on the holidays."""
    skipped = ",".join(f"{day:%Y%m%d}" for day in sorted(holidays))
    return f"CRON_TZ={zone} 30 2 * * *" + (f"\nEXDATE;VALUE=DATE:{skipped}" if skipped else "")


def add(bike: Redbike, user: str, zone: str, since: date, holidays: Iterable[date] = ()) -> None:
    """Report each night from `since` on: those that are past now, one after the other, then each at its time."""
    start = datetime.combine(since, time(), ZoneInfo(zone))
    bike.set(
        f"report:{user}",
        make_schedule(zone, holidays),
        after=start.timestamp(),
        catchup="all",
        catchup_limit=1000,
        data={"zone": zone},
    )
