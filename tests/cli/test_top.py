"""The command top: a real pseudo-terminal, real keys and signals."""

import itertools
import os
import re
import signal
import termios
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from redbike import Redbike, RoundRobin
from redbike.cli.top import _Reader
from redbike.cli.top_keys import ORDERS, VERBS, Desk, Request
from redbike.cli.top_screen import draw
from redbike.queries.glance import find_jobs, read_view
from redbike.schedule.clock import Clock
from redbike.store.next_state import NextState
from tests.commandline import Shell, memory_file, read
from tests.loops import make_worker
from tests.proc import read_state
from tests.terminal import COLOUR, Terminal
from tests.verbs import take_one
from tests.waiting import wait_until

BEGIN, END = "\x1b[?1049h", "\x1b[?1049l"  # of the screen that is the program's own
CLEAR = "\x1b[H"


class Screen(Terminal):
    """``redbike top`` on a terminal."""

    def __init__(self, shell, *arguments, columns=80, lines=24, shows="DUE NEXT", complaints=None, **environment):
        super().__init__(columns, lines)
        self.before = termios.tcgetattr(self.side)
        own = {name: value for name, value in shell.environment.items() if name not in ("COLUMNS", "LINES")}
        files = self.side, self.side, self.side if complaints is None else complaints
        # With a variable of Python's own, a new interpreter is started, and nothing is forked.
        self.process = shell.spawn(("top", *arguments), *files, own | {"TERM": "xterm-256color"} | environment)
        self.wait_for(shows)

    def last(self):
        """The lines of what was drawn last, when all of it has come: it fills the terminal to its last column."""
        lines = []

        def is_whole():
            lines[:] = self._drawn()
            return len(lines) == self.lines and {cell_len(line) for line in lines} == {self.columns}

        wait_until(is_whole)
        return [line.rstrip() for line in lines]

    def _drawn(self):
        drawn = COLOUR.sub("", self.read()).rpartition(BEGIN)[2].partition(END)[0].rpartition(CLEAR)[2]
        return drawn.replace("\r", "").split("\n")

    def end(self, keys=""):
        """Its exit status, when these were typed; the terminal must be as it was."""
        self.type(keys)
        # What is not read would hold it up. What it has written last may come after it is gone.
        wait_until(lambda: (self.read(), self.process.poll() is not None)[1])
        wait_until(lambda: self.read().count(BEGIN) == self.shown.count(END) >= 1)
        assert self.shown.rindex("\x1b[?25h") > self.shown.rindex("\x1b[?25l")
        assert termios.tcgetattr(self.side) == self.before
        return self.process.returncode


@pytest.fixture
def bike(bike):
    """With jobs that wait, fail and are due, and a worker."""
    bike.set("bad:A", "NOW")
    bike.work_one()
    bike.set("waits:A", "NOW")
    list(bike.set_many((f"{n}:B", "EVERY:1h") for n in range(30)))
    with make_worker(bike.store, bike.worker).presence:
        yield bike


OTHERS = ("x\x04", signal.SIGINT, signal.SIGHUP)


@pytest.mark.parametrize(
    "end", ["xq", signal.SIGTERM, *(pytest.param(other, marks=pytest.mark.acceptance) for other in OTHERS)]
)
def test_it_shows_what_there_is_until_a_key_or_a_signal_ends_it(bike, shell, end):
    screen = Screen(shell)
    screen.wait_for('ValueError: no "host"')
    lines = screen.last()
    assert fits(lines, 80, 24)
    text = "\n".join(lines)
    assert lines[0].endswith("UTC  q ends it")
    assert "no dispatcher is running" in text
    assert "32 jobs, 0 paused, 1 failing" in text
    assert re.search(r"work-A +1 ", text)
    assert "worker" in text
    assert "DUE NEXT (of 30)" in text
    assert re.search('bad:A .* ValueError: no "host"', text)
    # What changes is seen without a key.
    bike.set("new:A", "EVERY:1s")
    screen.wait_for("new:A")
    (screen.type if isinstance(end, str) else screen.process.send_signal)(end)
    assert screen.end() == 0


def fits(shown, columns, lines):
    return len(shown) <= lines and max(map(cell_len, shown)) <= columns


def test_it_fits_into_a_window_whose_size_changes(bike, shell):
    screen = Screen(shell, columns=200, lines=50)
    assert len([line for line in screen.last() if ":B" in line]) > 20
    for columns, lines in ((30, 5), (200, 50)):
        seen = len(screen.shown)
        screen.resize(columns, lines)
        screen.process.send_signal(signal.SIGWINCH)
        wait_until(lambda seen=seen: CLEAR in screen.read()[seen:])
        wait_until(lambda lines=lines, columns=columns: fits(screen.last(), columns, lines))
    assert screen.end("q") == 0


def test_a_run_tells_how_far_it_is_until_it_ends(bike, shell):
    bike.set("export:C", "NOW")
    bike.set("import:C", "STOP")
    bike.client.hset(bike.store.keys.progress, "import:C", "tag 0.500000 of a run that is lost")
    run = take_one(bike.store, [("work-C", 100.0)], "tag")
    bike.client.hset(bike.store.keys.progress, "export:C", "tag 0.250000 page 1\x1b of 4")
    screen = Screen(shell, columns=100, lines=40, shows="PROGRESS")
    [line] = [line for line in screen.last() if "export:C" in line and "%" in line]
    assert re.fullmatch(r"export:C +(now|\d+ \w+ ago) +– +25% +page 1\\x1b of 4", line)
    assert "50%" not in "\n".join(screen.last())
    bike.store.runs.end(run, NextState("stop"))
    wait_until(lambda: "PROGRESS" not in "\n".join(screen.last()))
    assert screen.end("q") == 0


def test_ctrl_z_gives_the_terminal_back_and_it_goes_on_later(bike, shell):
    screen = Screen(shell)
    screen.process.send_signal(signal.SIGTSTP)
    wait_until(lambda: read_state(screen.process.pid) == "T")
    wait_until(lambda: screen.read().count(END) == 1)
    assert termios.tcgetattr(screen.side) == screen.before
    screen.process.send_signal(signal.SIGCONT)
    wait_until(lambda: screen.read().count(BEGIN) == 2)
    assert screen.end("q") == 0


@pytest.mark.parametrize(("keys", "shows"), [("", "DUE NEXT"), ("\x1b[B\r", "Any key goes back.")])
def test_a_terminal_that_is_closed_ends_it(bike, shell, keys, shows):
    with memory_file() as complaints:
        screen = Screen(shell, PYTHONUNBUFFERED="", complaints=complaints)
        screen.type(keys)
        screen.wait_for(shows)
        os.close(screen.own)
        os.close(screen.side)
        wait_until(lambda: screen.process.poll() is not None)
        assert "Traceback" not in read(complaints)


def test_a_server_that_goes_away_is_named_and_keys_still_count(own):
    own.server.start()
    with Redbike(RoundRobin("A"), redis_config=own.server.url) as bike:
        bike.set("job:A", "EVERY:1h")
    screen = Screen(own, shows="job:A")
    # It hangs first, and then it is gone.
    pid = own.server.status()["pid"]
    os.kill(pid, signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    screen.wait_for("not of now: ")
    assert screen.end("q") == 0


def test_it_starts_no_server(tmp_path):
    shell = Shell(tmp_path, None)
    terminal = Terminal()
    with memory_file() as said:
        assert shell.spawn(("top",), terminal.side, terminal.side, said).wait(60) == 1
        assert len(read(said).splitlines()) == 1
    assert not (tmp_path / ".redbike").exists()
    os.close(terminal.own)
    os.close(terminal.side)


def test_a_job_is_chosen_and_is_acted_on_after_a_question(bike, shell, prefix):
    screen = Screen(shell, columns=120, lines=40)
    screen.type("p")
    screen.wait_for("No job is chosen")
    screen.type("\x1b[B\x1b[B\x1b[Bp")
    screen.wait_for("? y: yes, any other key: no")
    [jobid] = re.findall(r"Pause (\S+)\? y", "\n".join(screen.last()))
    screen.type("n")
    screen.wait_for(f"{jobid}: nothing was done.")
    assert "paused" not in bike.tell(jobid)
    screen.type("py")
    wait_until(lambda: "paused" in bike.tell(jobid))
    screen.wait_for(f"pause {jobid}: ")
    screen.type("uy")
    wait_until(lambda: "paused" not in bike.tell(jobid))
    assert screen.end("q") == 0
    assert [(entry.action, entry.jobid) for entry in bike.log()][:2] == [("resume", jobid), ("pause", jobid)]


@pytest.mark.parametrize("jobid", ["db[1]:A", "db?:A", "db*:A"])
def test_an_id_that_looks_like_a_pattern_is_one_job(bike, jobid):
    for each in (jobid, "db1:A"):
        bike.set(each, "STOP")
    assert _Reader(bike, Desk())._carry_out(Request("pause", jobid)) == f"pause {jobid}: paused"
    assert ["paused" in bike.tell(each) for each in (jobid, "db1:A")] == [True, False]


def test_jobs_are_found_and_shown(bike, shell):
    screen = Screen(shell, columns=120, lines=40)
    screen.type("/29x\x7f\r")
    screen.wait_for("Jobs like 29")
    wait_until(lambda: "DUE NEXT" not in "\n".join(screen.last()))
    assert [line.split()[0] for line in screen.last() if ":B" in line] == ["29:B"]
    screen.type("\x1b[B\r")
    screen.wait_for("Any key goes back.")
    shown = COLOUR.sub("", screen.read()).rpartition(END)[2]
    assert shown.strip().startswith("29:B")
    assert "Every hour" in shown
    screen.type(" ")
    wait_until(lambda: screen.read().count(BEGIN) == 2)
    # It may be gone when somebody asks for it.
    bike.unset("29:B")
    screen.type("\r")
    screen.wait_for("no such job: '29:B'")
    screen.type(" ")
    wait_until(lambda: screen.read().count(BEGIN) == 3)
    screen.type("\x1b")
    wait_until(lambda: "DUE NEXT" in "\n".join(screen.last()))
    screen.type("/[\r")
    screen.wait_for("bad pattern")
    assert screen.end("q") == 0


KEYS = st.sampled_from(["q", "s", "/", "y", "n", "x", "\r", "\x1b", "\x7f", "\x1b[A", "\x1b[B", *VERBS, "é", "\x00"])


@given(st.lists(KEYS, max_size=40), st.lists(st.sampled_from(["a:A", "b:A", "c:A"]), unique=True))
def test_nothing_is_asked_for_without_a_job_and_a_yes(keys, jobids):
    desk = Desk(jobids)
    for key in keys:
        question, is_typing = desk.question, desk.typed is not None
        for request in desk.press(key):
            if request.verb in VERBS.values():
                assert (key, request) == ("y", question)
            if request.verb in (*VERBS.values(), "show"):
                assert request.jobid in jobids
            assert request.verb != "quit" or (key == "q" and not is_typing and not question)
        assert desk.chosen in ("", *jobids)
        assert desk.describe()


@pytest.mark.parametrize("key", ["\x1b[6~", "\x1b[3~", "\x1b[12;2~", "\x1b[1;2R", "\x1bOQ", "\x1b[[B"])
def test_a_key_without_a_meaning_asks_for_nothing(key):
    for typed in (None, "x"):
        desk = Desk(["a:A"], pattern="a", typed=typed)
        assert [*desk.press(key), desk.pattern, desk.typed, desk.chosen] == ["a", typed, ""]


# What is drawn


def paint(view, desk, width, height, **more):
    console = Console(width=width, height=height, highlight=False, **more)
    with console.capture() as capture:
        console.print(draw(view, "", "here", Clock(view.glance.now, "Europe/Berlin"), desk, width, height))
    return capture.get()


def test_a_job_that_is_chosen_stands_out_and_jobs_that_are_found_are_sorted(bike):
    view = read_view(bike.store, 60)
    desk = Desk(chosen="3:B")

    def names():
        assert paint(view, desk, 100, 50, force_terminal=True).count("\x1b[7m3:B") == 1
        return desk.jobids

    assert {"bad:A", "3:B"} <= set(names())
    view = replace(view, found=find_jobs(bike.store, "*"))
    for order, key in zip(ORDERS[1:], (lambda jobid: (bike.tell(jobid)["next_run"] or 9e9, jobid), str), strict=True):
        desk.order = order
        assert list(names()) == sorted(names(), key=key)
    desk.order = ORDERS[0]
    assert names()[0] == "bad:A"


def drawn(bike, width, height):
    return paint(read_view(bike.store, 60), Desk(), width, height).rstrip("\n").split("\n")


def test_it_is_never_larger_than_the_terminal_and_uses_all_the_room(bike):
    list(bike.set_many((f"more{n}:C", "EVERY:1h") for n in range(100)))
    for width, height in itertools.product([20, 80, 200], [1, 4, 24, 50]):
        lines = drawn(bike, width, height)
        assert fits(lines, width, max(height, 3))
        assert width != 80 or height < 24 or len(lines) == height


def test_ids_of_any_letters_and_what_could_control_the_terminal(bike):
    bike.set("東京レポート:A", "EVERY:1s")
    bike.client.zadd(bike.store.keys.timeline, {"\x1b[2Jevil:A": 1.0})
    bike.client.hset(bike.store.keys.schedules, "\x1b[2Jevil:A", "EVERY:1s@0")
    text = "\n".join(drawn(bike, 100, 40))
    assert "東京レポート:A" in text
    assert r"\x1b[2Jevil:A" in text
    assert "\x1b[2J" not in text


def test_nothing_is_there(bike):
    bike.flush()
    lines = drawn(bike, 80, 24)
    assert lines[0].startswith("redbike here")
    assert "0 jobs" in lines[2]
