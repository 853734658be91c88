"""Several prefixes in a cluster, by the code of docs/scale.rst."""

import subprocess
import sys

import pytest
from redis.crc import key_slot

from tests.commandline import Shell
from tests.pages import find_block

pytestmark = pytest.mark.acceptance

USE = """
from shards import BIKES, find_bike

jobids = [f"{number}:A" for number in range(100)]
for jobid in jobids:
    assert find_bike(jobid).set(jobid, "EVERY:1h")
schedules = [dict(bike.get_schedules()) for bike in BIKES]
assert all(schedules)
assert sorted(jobid for found in schedules for jobid in found) == sorted(jobids)
"""


def test_jobs_are_spread_over_prefixes_and_masters(tmp_path, cluster):
    text = find_block("scale", "# shards.py")
    (tmp_path / "shards.py").write_text(text.replace("redis+cluster://h1:6379,h2:6379,h3:6379", cluster.url))
    assert cluster.url in (tmp_path / "shards.py").read_text()
    done = subprocess.run(
        [sys.executable, "-c", USE], cwd=tmp_path, env=Shell(tmp_path, None).environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len({cluster.master_of(f"{{app-{number}}}") for number in range(8)}) == 3


def test_the_page_tells_how_to_find_the_slot_of_a_prefix(cluster):
    words = find_block("scale", "$ redis-cli").splitlines()[0].replace("'", "").split()[1:]
    assert words[0] == "redis-cli"
    assert cluster.nodes[0].client.execute_command(*words[1:]) == key_slot(b"app-3")
