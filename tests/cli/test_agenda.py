"""The command agenda: for programs as CSV and JSON, for people as bars."""

import json
import os
import re
import sys
import time

import pytest
from rich.cells import cell_len

from redbike.cli import main, messages
from redbike.cli.messages import DONE
from tests.terminal import COLOUR, plain, run_on_terminal

# From then on, all commands have the same: now, a minute, a quarter of an hour or the day may end between two of them.
LATER = time.time() // 86400 * 86400 + 2 * 86400


@pytest.fixture
def bike(bike):
    """With many jobs in one minute, and some others."""
    list(bike.set_many([(f"東京{n}:A", "0 0 * * *") for n in range(60)]))
    list(bike.set_many([(f"each:{queue}", "EVERY:6h@0") for queue in "BCDEFGH"]))
    bike.set("on:A", "CONTINUE")
    bike.set("held:A", "EVERY:1h")
    bike.pause("held:A")
    return bike


def test_csv_and_json_say_the_same_from_an_instant_on_for_some_hours(bike, shell):
    words = ("agenda", f"--after={LATER:.0f}")
    rows = shell.list_rows(*words)
    assert sum(int(runs) for _, queue, runs, _ in rows if queue == "work-A") == 60
    found = json.loads(shell.run(*words, "--format=json").stdout)
    assert [list(row) for row in found] == [["from", "queue", "runs", "jobs"]] * len(rows)
    assert [[f"{row['from']:.0f}", row["queue"], str(row["runs"]), " ".join(row["jobs"])] for row in found] == rows
    assert {row["from"] % 900 for row in found} == {0}
    assert [(row["from"], row["queue"], row["runs"]) for row in found] == [
        (each.start, each.queue, each.runs) for each in bike.agenda(after=LATER)
    ]
    for more, number in ((["--hours=1"], 67), (["--hours=168"], 7 * 60 + 7 * 28), (["--hours=1", "東京7:A"], 1)):
        assert sum(int(runs) for *_, runs, _ in shell.list_rows(*words, *more)) == number


def test_what_is_longer_than_the_terminal_goes_to_the_pager(bike, shell, tmp_path):
    def show(*words, lines):
        return plain(run_on_terminal(shell, *words, lines=lines, PAGER=f"tee {tmp_path}/paged"))

    shell.run("pause", "each:*")
    for words in (("agenda", f"--after={LATER:.0f}"), ("log",)):
        whole = show(*words, lines=200)
        assert not (tmp_path / "paged").exists()
        assert show(*words, lines=4)[0] == whole[0]
        paged = (tmp_path / "paged").read_text()
        assert len(plain(paged)) >= 4
        assert COLOUR.search(paged)
        (tmp_path / "paged").unlink()
        for pager in ("", "no-such-program"):
            assert plain(run_on_terminal(shell, *words, lines=4, PAGER=pager))[-len(whole) :] == whole
    # To a pipe, whoever reads it decides.
    assert len(shell.run("agenda", "--format=table").stdout.splitlines()) > 4
    assert not (tmp_path / "paged").exists()


@pytest.mark.parametrize("columns", [80, 30])
def test_on_a_terminal_it_draws_bars(bike, shell, columns):
    lines = plain(run_on_terminal(shell, "agenda", columns=columns))
    assert max(map(cell_len, lines)) <= columns
    text = " ".join(lines)
    assert "88 runs of 67 jobs" in text
    assert "2 more" in text  # queues than there are colours
    bars = {line.split()[1]: line.count("█") for line in lines if "█" in line}
    assert bars["67"] >= 5 * bars["7"] >= 5
    assert "nothing for 5 h 45 min" in text
    assert "60 jobs with '0 0 * * *'" in text
    assert "With 'H 0 * * *' or --spread=60m for the 60 jobs with '0 0 * * *', 00:00 would have 8 runs" in text
    assert "Not counted: 1 with CONTINUE" in text
    assert "Paused: 1." in text
    first = lines.index("what runs, from when on")
    for line in lines[first + 1 : first + 3]:
        assert re.match(r"\d{4}-\d\d-\d\d \d\d:00  (28 runs|60 runs)", line)
    assert not lines[first + 3].strip()


def test_colours_and_blocks_are_for_terminals_that_want_them_and_the_zone_is_that_of_the_settings(bike, shell):
    assert "\x1b[3" not in run_on_terminal(shell, "agenda", NO_COLOR="1")
    shown = run_on_terminal(shell, "agenda", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert ("####" in shown, "█" in shown) == (True, False)
    (shell.folder / ".redbike.conf").write_text("[redbike]\ntimezone: Asia/Kathmandu\n")
    shown = run_on_terminal(shell, "agenda", "東京*", "--hours=24")
    assert "\x1b[" in shown
    lines = plain(shown)
    assert lines[0].endswith(" Asia/Kathmandu")
    assert [line.split()[0] for line in lines if "█" in line] == ["05:45"]
    bike.flush()
    assert shell.run("agenda").stdout == "from,queue,runs,jobs\n"
    assert shell.run("agenda", "--format=json").stdout == "[]\n"
    [line] = plain(run_on_terminal(shell, "agenda"))
    assert line.startswith("0 runs of 0 jobs, ")


def test_of_an_hour_that_comes_twice_it_says_which(bike, shell):
    list(bike.set_many([(f"night{n}:A", "30 2 * * *") for n in range(60)], tz="Europe/Berlin"))
    (shell.folder / ".redbike.conf").write_text("[redbike]\ntimezone: Europe/Berlin\n")
    lines = plain(run_on_terminal(shell, "agenda", "night*", "--after=2090-10-29T00:00", "--hours=6"))
    assert ", 02:30+02:00 would have 1 runs in place of 60" in " ".join(lines)


def test_how_far_it_is_is_shown_where_there_are_many_jobs(bike, shell, monkeypatch, capfd):
    monkeypatch.setenv("REDBIKE_URL", shell.environment["REDBIKE_URL"])
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("PATH", "/nowhere")  # as in a small container, there is no less, of which nothing is said
    monkeypatch.chdir(shell.folder)
    terminal, side = os.openpty()

    def read_how_far(*words):
        """What stands on a terminal while the command reads, without its own lines."""
        with open(side, "w", closefd=False) as screen, monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", screen)
            patched.setattr(sys, "stderr", screen)
            assert main(words) == DONE
        os.write(side, b"\0")
        shown = b""
        while not shown.endswith(b"\0"):
            shown += os.read(terminal, 65536)
        return re.findall(r"\d+/(\d+)", COLOUR.sub("", shown.decode()))

    number = len(list(bike.get_schedules()))
    for words in (["agenda"], ["jobs"], ["jobs", "--overdue"], ["jobs", "on:A"]):
        monkeypatch.setattr(messages, "MANY", number + 1)
        assert read_how_far(*words) == []
        monkeypatch.setattr(messages, "MANY", number)
        assert set(read_how_far(*words)) == ({str(number)} if len(words) == 1 else set()), words
    os.close(terminal)
    os.close(side)
    assert main(["agenda"]) == DONE
    assert "/" not in capfd.readouterr().err
