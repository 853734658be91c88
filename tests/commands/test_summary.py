"""What is told of a command line to others: enough to know it again, and nothing that could be a secret."""

import pytest

from redbike.commands import Commands
from redbike.commands.file import Command
from redbike.commands.summary import MOST, MOST_TOGETHER, summarize, summarize_all
from redbike.facade.redbike import Redbike
from redbike.web import app
from tests.loops import make_worker
from tests.terminal import run_on_terminal
from tests.web.conftest import TestClient


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("backup-db --full /srv/backup >/dev/null 2>&1", "backup-db --full … > /dev/null 2>&1"),
        ("PGPASSWORD=hunter2 psql -h db -phunter2", "PGPASSWORD=… psql -h … -p…"),
        ("cd /srv && ./run hunter2 | mail -s x a@b; ls", "cd /srv && ./run … | mail -s …; ls"),
        ("curl -u me:hunter2 --token=hunter2 https://h/hunter2", "curl -u … --token=… …"),
        # What is in quotes, or behind a backslash, is no operator.
        ("PASS='a;hunter2' run", "PASS=… …"),
        ('run "a | hunter2"', "run …"),
        ("run ';' hunter2", "run …"),
        (r"run \; hunter2", "run …"),
        ("run $'a' `x; hunter2`", "run …"),
        ("run 'hunter2", "run …"),
        ("x=$(pass hunter2); 'hunter 2'", "x=… ( pass … ); …"),
        ("case $x in a) hunter2;; esac", "case … ) …;; esac"),
        ("run <<EOF\nhunter2", "run << …"),
        # What follows an option may be a secret that looks like a path, and a comment is no command.
        ("sshpass -p /hunter2 ssh /srv", "sshpass -p … /srv"),
        ("run # login (admin/hunter2)", "run …"),
        ("run -- hunter2 \x1b[31m", "run …"),
    ],
)
def test_only_what_is_no_secret_by_its_form_is_told(line, told):
    assert summarize(Command("x", (b"/bin/sh", b"-c", line.encode()))) == told


def test_words_without_a_shell_have_no_operators_and_all_is_of_limited_size():
    argv = (b"/usr/bin/run", b"--password=hunter2", b";", b"hunter2", b"~/x")
    assert summarize(Command("x", argv)) == "/usr/bin/run --password=… … ~/x"
    assert summarize(Command("x", (b"mytool", b"-c", b"hunter2 | hunter3"))) == "mytool -c …"
    argv = (b"run", *[b"/srv"] * 100)
    assert len(summarize(Command("x", argv))) == MOST
    told = summarize_all(Command(f"x{number}", argv) for number in range(1000))
    assert 0 < sum(len(name) + len(text) for name, text in told.items()) <= MOST_TOGETHER


def test_workers_note_what_show_jobs_and_the_page_tell_of_a_command(client, server_url, tmp_path, shell):
    (tmp_path / "other.ini").write_text("[commands]\nx = /bin/run --all hunter2\ny = true\n")
    bike = Redbike(Commands("A", str(tmp_path / "other.ini")), redis_config=server_url)
    bike.set("x:1:A", "0 3 * * *")
    bike.set("other:A", "0 3 * * *")
    told = "/bin/run --all …"
    with make_worker(bike.store, bike.worker).presence:
        assert f"  command   {told}\n" in shell.run("show", "x:1:A").stdout
        assert "  command " not in shell.run("show", "other:A").stdout
        assert told in run_on_terminal(shell, "jobs", columns=200)
        assert told not in shell.run("jobs").stdout  # these columns are agreed
        assert told in TestClient(app(bike), base_url="http://localhost").get("/job?id=x:1:A").text
        assert "hunter2" not in str(client.hgetall(bike.store.keys.workers))
    assert "COMMAND" not in run_on_terminal(shell, "jobs", columns=200)
