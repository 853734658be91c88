"""The command shards: it prints them, and moves the jobs to another number of them."""

import pytest

from redbike.control.moving import Mover
from tests.cli.refused import check_refused
from tests.crashing import AFTER, Crash, Faults, faulty


def configure(shell, number):
    (shell.folder / ".redbike.conf").write_text(f"[redbike]\nshards: {number}\n")


@pytest.fixture
def jobs(shell, bike):
    for number in range(20):
        bike.set(f"job-{number}:A", "EVERY:1h")
    return shell


def test_jobs_move_whatever_number_the_config_has(jobs):
    configure(jobs, 1)
    said = "moved 20 jobs from 1 shard to 4: write shards: 4 into the config of each process before you start it\n"
    assert jobs.read("shards", "move", "--to=4") == said
    for command in ("jobs", "shards"):
        refused = "bad shards 1: the jobs of the prefix 'redbike' are divided among 4"
        check_refused(jobs.run(command), 2, refused)
    configure(jobs, 4)
    rows = jobs.list_rows("shards", "--format=csv")
    assert [row[1] for row in rows] == [f"{{redbike:{shard:02}}}/4" for shard in range(4)]
    assert [row[2:] for row in jobs.list_rows("log")] == [["shards move", "", "from 1 to 4"]]
    assert jobs.run("shards", "move", "--to=4").stdout == "the jobs are in 4 shards already\n"
    assert jobs.run("shards", "move", "--to=1").stdout.startswith("moved 20 jobs from 4 shards to 1: ")


@pytest.mark.parametrize("text", ["-1", "many", "1.5", "٣", pytest.param("9" * 5000, id="too many digits for Python")])
def test_a_bad_number_is_refused(shell, text):
    check_refused(shell.run("shards", "move", f"--to={text}"), 2, f"bad --to {text!r:.80}")


def test_fsck_finds_and_ends_what_was_interrupted(jobs, client):
    faults = Faults()
    faults.arm(AFTER, 60)
    # It dies once nobody may use the jobs any more.
    with pytest.raises(Crash):
        Mover(faulty(client, faults), "redbike").move(4)
    said = "the jobs are on the move from 1 shard to 4: redbike shards move --to=4 completes the move\n"
    for number in (1, 4):
        configure(jobs, number)
        done = jobs.run("fsck")
        assert (done.returncode, done.stdout) == (1, said)
        for command in ("shards", "jobs", "dispatch"):
            check_refused(jobs.run(command), 2, said.removeprefix("the jobs ").strip())
        assert said.removeprefix("the jobs ") in jobs.run("check").stdout
    assert jobs.read("fsck", "--repair").startswith(f"{said}moved 20 jobs from 1 shard to 4: ")
    assert jobs.run("fsck").returncode == 0
    assert len(jobs.list_rows("jobs", "--format=csv")) == 20
