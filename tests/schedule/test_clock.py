"""The clock of somebody who looks: how it writes instants."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from redbike.schedule.forecast import Clock

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("moment", "written"),
    [
        (datetime(2026, 10, 25, 1, 59, 59, tzinfo=BERLIN), "2026-10-25 01:59:59"),
        (datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN), "2026-10-25 02:30:00+02:00"),
        (datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN), "2026-10-25 02:30:00+01:00"),
        (datetime(2026, 10, 25, 3, 0, tzinfo=BERLIN), "2026-10-25 03:00:00"),
        (datetime(2026, 3, 29, 3, 0, tzinfo=BERLIN), "2026-03-29 03:00:00"),
    ],
)
def test_an_hour_that_a_day_has_twice_is_told_with_its_distance_from_utc(moment, written):
    assert Clock(0.0, "Europe/Berlin").format(moment.timestamp()) == written
