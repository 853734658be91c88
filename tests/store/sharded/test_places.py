"""A job is in the shard that CRC16 of its id names, as Redis computes it for the slot of a key."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from redis.crc import key_slot

from redbike.config.definitions import MOST_SHARDS
from redbike.errors import BadConfig
from redbike.store.sharded.places import find_shard, name_shards

IDS = st.text(st.characters(codec="utf-8", exclude_categories=["C"], exclude_characters="@"), min_size=1, max_size=40)


@given(IDS, st.integers(1, MOST_SHARDS))
@example("job-\udcff:A", MOST_SHARDS)  # as an id that is no UTF-8 is read
def test_it_is_the_slot_that_a_key_of_this_name_would_have(jobid, number):
    assert find_shard(jobid, number) == key_slot(jobid.encode(errors="surrogateescape")) * number // 16384


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("load{nightly}:A", "{nightly}report:B"),
        ("backup:A@all", "backup:A@web1"),
        ("backup:A", "backup:A@2026-11-27T03:00:00Z"),
        ("backup:A@web1", "backup:A@web1@2026-11-27T03:00:00.5Z"),
        ("@backup:A", "@backup:A@2026-11-27T03:00:00Z"),
        ("@backup:A@all", "@backup:A@web1"),
        ("\x1dbatch", "batch"),  # a group, and a job of the same name
    ],
)
def test_jobs_are_kept_together(one, other):
    for number in range(1, MOST_SHARDS + 1):
        assert find_shard(one, number) == find_shard(other, number) < number


@pytest.mark.parametrize("jobid", ["@all", "a{}b", "a}b{c", "{open", "}{"])
def test_what_names_nothing_counts_as_a_whole(jobid):
    assert {find_shard(jobid, 64), find_shard(f"x{jobid}", 64), find_shard(f"y{jobid}", 64)} != {find_shard("", 64)}


@pytest.mark.parametrize("name", ["job-{}:A", "{}", "backup:host{}:A", "user:{:05}", "{:x}:B"])
def test_all_shards_have_their_share(name):
    shards = [find_shard(name.format(number), 16) for number in range(10_000)]
    assert all(600 < shards.count(number) < 650 for number in range(16))


def test_each_shard_has_a_slot_of_its_own():
    names = name_shards("app", MOST_SHARDS)
    assert names[0] == "{app:00}/64"
    assert names == name_shards("{app}", MOST_SHARDS)
    assert len({key_slot(f"{name}-timeline".encode()) for name in names}) == MOST_SHARDS
    for prefix in ("a{b}c", "{a}{b}", "a{"):
        with pytest.raises(BadConfig, match="with shards it has no braces"):
            name_shards(prefix, 2)
