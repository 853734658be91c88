"""Time zones: stretches of constant offset, and the instants of local times."""

import zoneinfo
from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
import tzdata

from redbike.errors import BadSchedule
from redbike.schedule.zones import Zone, find_release, find_zone
from tests.cases import instant


@pytest.mark.parametrize(
    "name", ["Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia", "Asia/Gaza"]
)
def test_a_zone_is_cut_into_stretches_of_constant_offset(name):
    zone, info = Zone(name), ZoneInfo(name)
    at = int(instant("2005-01-01T00:00:00"))
    changes = []
    while at < instant("2030-01-01T00:00:00"):
        begin, end, offset, reached = zone(at)
        assert begin <= at < end
        for probe in (at, end - 1):
            assert datetime.fromtimestamp(probe, UTC).astimezone(info).utcoffset().total_seconds() == offset
        assert reached >= begin - 1 + zone(begin - 1)[2]
        changes.append(offset)
        at = end
    assert any(before != after for before, after in pairwise(changes))


def test_a_change_is_found_to_the_second():
    change = int(instant("1847-12-01T00:01:15"))  # London gave up its local mean time
    assert [Zone("Europe/London")(at)[2] for at in (change - 1, change)] == [-75, 0]


@pytest.mark.parametrize(
    "name", ["Mars/Base", "../etc/passwd", "/etc/localtime", "posixrules", "right/UTC", "", "Europe/", "é", "UTC "]
)
def test_an_unknown_zone_is_quoted(name):
    with pytest.raises(BadSchedule, match="unknown time zone"):
        find_zone(name)


def test_the_release_is_that_of_the_rules_in_use(tmp_path):
    before = zoneinfo.TZPATH
    try:
        zoneinfo.reset_tzpath([tmp_path / "missing", tmp_path])
        assert find_release() == tzdata.IANA_VERSION
        (tmp_path / "UTC").write_bytes(b"")
        assert find_release() == "unknown"
        (tmp_path / "tzdata.zi").write_text("# version 2001a\n# This zic input file is in the public domain.\n")
        assert find_release() == "2001a"
    finally:
        zoneinfo.reset_tzpath(before)
