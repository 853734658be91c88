"""Groups in files, on the command line, in forecasts, and after damage."""

import io

import pytest

from redbike.config.options import ALL_COLUMNS
from redbike.store.inspection.fsck import fsck
from tests.control.test_following import HOUR, START, make
from tests.control.test_groups import NAME, count, leftovers
from tests.control.test_sync import export
from tests.store.inspection.mending import repaired

ROWS = f"""jobid,schedule,group-of
report,GROUP:{NAME},
one,AT:{START + HOUR},{NAME}
two,AT:{START + 2 * HOUR},{NAME}
daily,0 3 * * *,{NAME}
"""


def fill(bike, path):
    path.write_text(ROWS)
    assert [error for _, _, error in bike.load(path) if error is not True] == []


def test_a_file_sets_what_follows_a_group_last_and_does_not_start_it_again(redbike, tmp_path):
    bike, ran = make(redbike)
    fill(bike, tmp_path / "jobs.csv")
    assert count(bike) == (3, 3, 0, 0)
    fill(bike, tmp_path / "jobs.csv")
    assert count(bike) == (3, 3, 0, 0)
    bike.run_due(START + 12 * HOUR)
    assert ran == [("one", HOUR), ("two", 2 * HOUR), ("daily", 3 * HOUR), ("report", 3 * HOUR)]
    fill(bike, tmp_path / "jobs.csv")
    bike.run_due(START + 36 * HOUR)
    assert ran[4:] == [("daily", 27 * HOUR)]
    assert leftovers(bike) == []
    assert bike.tell("daily")["options"] == {"group-of": NAME}


def test_a_row_that_is_changed_joins_and_leaves(redbike, tmp_path):
    bike, _ = make(redbike)
    path = tmp_path / "jobs.csv"
    fill(bike, path)
    path.write_text(ROWS.replace(f"one,AT:{START + HOUR},{NAME}", f"one,AT:{START + HOUR},"))
    assert [change.detail for change in bike.sync_file(path) if change.difference == "changed"] == [
        f"group-of: {NAME} -> default"
    ]
    assert count(bike) == (2, 3, 0, 1)
    path.write_text(ROWS.replace("0 3 * * *", "0 4 * * *"))
    list(bike.sync_file(path))
    assert count(bike) == (3, 4, 0, 1)


def test_what_schedules_prints_is_read_back(redbike, tmp_path):
    bike, _ = make(redbike)
    fill(bike, tmp_path / "jobs.csv")
    rows = {row[0]: dict(zip(ALL_COLUMNS, row, strict=True)) for row in bike.get_rows()}
    assert (rows["one"]["group-of"], rows["report"]["schedule"]) == (NAME, f"GROUP:{NAME}")
    group = str(tmp_path / "jobs.csv")
    printed = export(bike).getvalue()
    changes = bike.sync_file(io.StringIO(printed), group=group)
    assert [str(change.error) for change in changes if change.difference != "unchanged"] == []
    bike.flush()
    assert [error for _, _, error in bike.load(io.StringIO(printed)) if error is not True] == []
    assert count(bike) == (3, 3, 0, 0)


DAMAGE = {
    "the group is not known to a job": lambda client, keys: client.zrem(keys.followers, f"one\n\x1d{NAME}"),
    "the group does not count a job": lambda client, keys: client.zrem(keys.followers, f"\x1d\x1d{NAME}\none"),
    "its record is damaged": lambda client, keys: client.hset(keys.following, f"\x1d{NAME}", "{"),
    "its record has odd values": lambda client, keys: client.hset(
        keys.following, f"\x1d{NAME}", '{"total":"x","failed":[],"due":{},"owed":7}'
    ),
    "its record is gone": lambda client, keys: client.hdel(keys.following, f"\x1d{NAME}"),
    "the follower has no record": lambda client, keys: client.hdel(keys.following, "report"),
    "the follower has a damaged record": lambda client, keys: client.hset(keys.following, "report", "{"),
    "the follower is not linked": lambda client, keys: client.zrem(keys.followers, f"\x1d{NAME}\nreport"),
    "the follower is nowhere": lambda client, keys: client.zrem(keys.timeline, "report"),
    "a job is nowhere": lambda client, keys: client.zrem(keys.timeline, "one"),
    "a job is stopped": lambda client, keys: (
        client.zrem(keys.timeline, "one"),
        client.hset(keys.statuses, "one", f"STP:{START:.0f}"),
        client.hset(keys.schedules, "one", "STOP"),
    ),
    "all are gone": lambda client, keys: [
        *(client.hdel(key, "one", "two") for key in (keys.schedules, keys.statuses, keys.options)),
        client.zrem(keys.timeline, "one", "two"),
    ],
    "no link is left": lambda client, keys: client.zremrangebylex(keys.followers, f"[\x1d\x1d{NAME}", "+"),
}
WELL = {"its record is damaged", "its record has odd values", "its record is gone"}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_found_and_repaired_and_the_follower_runs_once(redbike, damage):
    bike, ran = make(redbike)
    bike.group(NAME, [("one", f"AT:{START + HOUR}"), ("two", f"AT:{START + 2 * HOUR}")], then="report")
    DAMAGE[damage](bike.client, bike.store.keys)
    if damage in WELL:
        assert list(fsck(bike.store)) == [], "what counts are the links"
    else:
        repaired(bike)
    bike.run_due(START + 3 * HOUR)
    assert [job for job, _ in ran].count("report") == 1
    # Without any link nobody knows which jobs have ended.
    assert ran[-1][0] == "report" or damage == "no link is left"
    assert leftovers(bike) == []
    assert list(fsck(bike.store)) == []


def test_why_names_what_is_left_and_first_what_is_paused(redbike):
    bike, _ = make(redbike)
    bike.group(NAME, [(f"job:{number}", f"AT:{START + HOUR}") for number in range(9)], then="report")
    bike.pause("job:7")
    said = bike.why("report")
    assert said.startswith(f"It waits for the group {NAME}, 9 of 9 jobs left: job:7, which is paused")
    assert "; 4 more" in said
    bike.resume("job:7")
    bike.unset("job:8")
    assert "8 of 9 jobs left, 1 given up" in bike.why("report")
