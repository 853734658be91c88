"""A file of commands that changes while a worker runs: it is read again, or refused, and the old one stays in force."""

import os

import pytest

from redbike.commands import Commands, reloading
from redbike.config.settings import Settings
from redbike.errors import BadConfig
from redbike.loop.queues import Queues
from redbike.store.store import Store
from redbike.worker.worker import Worker
from tests.verbs import set_job
from tests.waiting import wait_until


@pytest.fixture
def write(tmp_path, monkeypatch, caplog):
    """Write the file, as nobody looks at a clock; its time is long past, so it is complete."""
    monkeypatch.setattr(reloading, "LOOK", 0.0)
    caplog.set_level("INFO", "redbike.commands")
    path, number = tmp_path / "commands.ini", iter(range(1000))

    def writing(text):
        path.write_text(f"[commands]\n{text}\n")
        os.utime(path, (next(number), 1))
        return path

    return writing


def test_what_has_changed_counts_and_is_said_once(write, caplog):
    handler = Commands("A", str(write("a = true\nb = true\n[b]\ntimeout = 5")))
    with pytest.raises(BadConfig):
        Commands("A", "none.ini").name_commands()
    assert handler.name_commands() == ["a", "b"]
    assert caplog.messages == []
    path = write("b = false\nc = true\n")
    assert [handler.name_commands() for _ in range(3)] == [["b", "c"]] * 3
    assert caplog.messages == [f"{path} was read again: added 'c'; changed 'b'; removed 'a'"]


@pytest.mark.parametrize("text", ["b = 'open", "b = true\n[b]\ntimeout = soon", None])
def test_a_broken_file_is_refused_in_one_line_and_the_old_one_stays(write, caplog, text):
    handler = Commands("A", str(path := write("a = true")))
    assert handler.has_command("a:A")
    path.unlink() if text is None else write(text)
    assert [handler.name_commands() for _ in range(3)] == [["a"]] * 3
    [line] = caplog.messages
    assert str(path) in line
    assert line.endswith("; the previous commands stay in force")
    write("c = true")
    assert handler.name_commands() == ["c"]


def test_a_file_that_is_just_written_is_left_to_the_next_look(write, caplog, monkeypatch):
    monkeypatch.setattr(reloading, "SETTLED", 600.0)
    handler = Commands("A", str(path := write("a = true")))
    assert handler.name_commands() == ["a"]
    path.write_text("[commands]\na = tr")
    os.utime(path)
    assert handler.name_commands() == ["a"]
    path.write_text("[commands]\na = true\nb = true")
    os.utime(path)
    assert handler.name_commands() == ["a"]
    assert handler.name_commands() == ["a", "b"]
    assert len(caplog.messages) == 1


def test_the_timeout_of_the_queue_follows(write):
    queues = Queues(Commands("A", str(write("a = true\n[a]\ntimeout = 5"))), 10.0, iter(range(1000)).__next__)
    next(queues.polls())
    assert queues.shortest_timeout == 10.0
    write("a = true\n[a]\ntimeout = 50")
    assert queues.refresh()
    assert queues.shortest_timeout == 55.0
    assert not queues.refresh()


def test_on_failure_may_come_later(write, client, prefix, tmp_path):
    handler = Commands("A", str(write("x = false")))
    store = Store(client, prefix, handler.queue_for)
    worker = Worker(store, handler, Settings())
    write(f"x = false\n[*]\non-failure = touch {tmp_path}/told")
    set_job(store, "x:A", "EVERY:3600@0.0", "now")
    assert worker.work_one() == "x:A"
    wait_until((tmp_path / "told").exists)


def test_a_running_worker_reads_it_by_itself(shell):
    ini = shell.folder / "commands.ini"
    ini.write_text("[commands]\nold = true\n")
    shell.start("dispatch")
    shell.start("work", "redbike.commands:Commands('A', 'commands.ini')")
    shell.run("set", "new:A", "NOW")
    wait_until(lambda: "no command 'new'" in shell.log())
    (shell.folder / "next").write_text("[commands]\nnew = echo here it is\n")
    (shell.folder / "next").rename(ini)
    wait_until(lambda: "here it is" in shell.log())
    wait_until(lambda: "no worker" not in shell.run("set", "new:other:A", "NOW").stderr)
    assert "has a command or function for 'old'" in shell.run("set", "old:A", "NOW").stderr
