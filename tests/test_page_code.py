"""What is code on the pages and presumes more than a set-up: output without its command, URLs, scripts, a crontab."""

import configparser
import csv
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from datetime import date, datetime
from zoneinfo import ZoneInfo

import pytest

from redbike.config.file import load
from redbike.connection.client import connect
from redbike.connection.embedded import EmbeddedServer
from redbike.schedule.parser import parse
from redbike.text.printable import name_host
from tests.commandline import ROOT
from tests.pages import find_block, is_like, run_line, show, write
from tests.servers import free_ports, make_certificates
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

WORKER = """
from redbike import RoundRobin

class Worker(RoundRobin):
    def work(self, jobid):
        if jobid.startswith("backup"):
            raise OSError("full")
"""


def test_servers_with_tls_and_sentinels_are_configured(shell):
    server = load(str(write(shell, "conf", find_block("security", "[redbike-redis]"))), {}).redis
    make_certificates(shell.folder)
    own = {"host": "127.0.0.1", "ssl_ca_certs": server["ssl_ca_certs"].replace("/etc/redbike", str(shell.folder))}
    client = connect(server | own)
    assert client.connection_pool.connection_kwargs["ssl_ca_certs"] == f"{shell.folder}/ca.pem"
    for line in find_block("security", "REDBIKE_URL='rediss:"), find_block("security", "REDBIKE_URL='redis+sentinel:"):
        name, _, url = shlex.split(re.sub("@[^/]*", "@127.0.0.1:1", line))[0].partition("=")
        shell.environment[name] = url.replace("/etc/redbike", str(shell.folder))
        done = shell.run("health")
        assert done.returncode == 1
        assert "127.0.0.1:1" in done.stdout
        assert "PASSWORD" not in done.stdout


def test_rows_have_the_fields_that_are_shown(shell):
    write(shell, "jobs.py", WORKER)
    for queue in ("A", "B", "mail"):
        shell.bike.set(f"job:{queue}", "NOW")
    shell.bike.limit("work-mail", at_once=5)
    shell.bike.pause_queue("work-B")
    shell.start("work", "jobs:Worker('C')")
    wait_until(lambda: shell.list_rows("workers"), 60)
    rows = {"queues": find_block("command-line", "queue,waiting"), "workers": find_block("command-line", "id,kind")}
    for name, text in rows.items():
        titles, *shown = csv.reader(text.splitlines())
        header, *printed = csv.reader(shell.run(name).stdout.splitlines())
        assert titles == header
        assert {len(row) for row in printed} == {len(row) for row in shown}
        for column in zip(*shown, *printed, strict=True):
            assert len({re.fullmatch(r"[\d.]+", field) is None for field in column if field}) <= 1, column


def test_what_happens_is_shown(shell):
    """On a terminal, by `tail`; it ends by Ctrl-C."""
    command, _, shown = find_block("command-line", "$ redbike tail").partition("\n")
    write(shell, "jobs.py", WORKER)
    shell.run("set", "backup:db", "@yearly", "--on-error=reschedule")
    shell.start("up", "jobs:Worker('db')")

    def run():
        wait_until(lambda: shell.run("workers").stdout.count("alive") == 2, 60)
        subscribed = connect(shell.environment["REDBIKE_URL"]).pubsub_shardnumsub
        wait_until(lambda: subscribed("redbike-journal")[0][1], 60)
        assert shell.run("run", "backup:db").returncode == 0

    printed = show(shell, *shlex.split(command)[2:], meanwhile=run, until=b"OSError: full")
    assert is_like(printed.replace("^C", ""), shown), printed


def test_a_crontab_moves_in(shell):
    write(shell, "bin/crontab", "#!/bin/sh\necho '0 3 * * * echo it works'\n").chmod(0o755)
    lines = find_block("from-cron", "redbike import crontab --out").splitlines()
    assert [run_line(shell, " && ".join(line.split("#")[0] for line in lines[:2])).returncode] == [0]
    shell.folder /= "jobs"
    assert lines[2].startswith("redbike up ")
    up = shell.start("up")
    jobid = shell.run("schedules").stdout.partition(",")[0]
    assert shell.run("run", jobid).returncode == 0
    wait_until(lambda: "it works" in shell.log(), 60)
    up.send_signal(signal.SIGINT)
    assert up.wait(60) == 0


def test_a_crontab_of_the_system_moves_in(shell):
    write(shell, "backup.cron", "0 3 * * * root backup\n")
    command = find_block("from-cron", "redbike import crontab --system").replace("/etc/cron.d/backup", "backup.cron")
    done = run_line(shell, command)
    assert done.returncode == 0, done.stderr
    assert f"cron-{name_host()}-root" in (shell.folder / "backup" / "schedules.csv").read_text()


def test_a_unit_is_extended(shell):
    text = (ROOT / "deploy" / "systemd" / "redbike-health.service").read_text()
    own = configparser.ConfigParser(strict=False)
    own.read_string(text + find_block("alerting", "[Unit]\nOnFailure"))
    assert own["Unit"]["OnFailure"] == "redbike-alert.service"
    assert "redbike-alert.service" in (ROOT / "docs" / "alerting.rst").read_text().partition("Write ``")[2]


def test_an_image_of_your_own_replaces_what_is_in_app():
    base, copy = find_block("deployment", "FROM redbike").splitlines()
    assert "\nWORKDIR /app\n" in (ROOT / "deploy" / "docker" / "Dockerfile").read_text()
    assert f"-t {base.split()[1]}" in (ROOT / "docs" / "deployment.rst").read_text()
    *files, target = copy.split()[1:]
    assert (sorted(files), target) == (sorted(os.listdir(ROOT / "deploy" / "docker" / "app")), "./")


def test_the_holidays_of_the_example_are_left_out():
    zone = ZoneInfo("Europe/Berlin")
    schedule = parse(find_block("schedules", "CRON_TZ").strip(), jobid="job:A", anchor=0.0)
    moment = datetime(2026, 12, 24, tzinfo=zone).timestamp()
    runs = []
    while not runs or runs[-1] < datetime(2027, 1, 4, tzinfo=zone):
        moment = schedule.next(moment)
        runs.append(datetime.fromtimestamp(moment, zone))
    assert date(2026, 12, 25) not in [run.date() for run in runs]
    assert [(run.month, run.day, run.hour) for run in runs[-3:]] == [(1, 1, 9), (1, 2, 10), (1, 4, 9)]


@pytest.mark.skipif(not shutil.which("redis-server"), reason="redis-server is not installed")
def test_a_script_is_tried_by_hand(shell):
    [port] = free_ports(1)
    blocks = (
        find_block("scripts", "$ python"),
        find_block("scripts", "$ redis-server"),
        find_block("scripts", "$ redbike"),
        find_block("scripts", "import redis"),
    )
    look, start, use, program = (block.strip().replace("6400", str(port)) for block in blocks)
    assert "#!lua" in run_line(shell, look.removeprefix("$ ")).stdout
    server = subprocess.Popen(start.removeprefix("$ "), shell=True, cwd=shell.folder, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: run_line(shell, f"redis-cli -p {port} ping").stdout == "PONG\n", 60)
        done = run_line(shell, re.sub(r"^\$ ", "", use, flags=re.MULTILINE))
        assert json.loads(done.stdout.splitlines()[-1])["queued"].endswith(" work-A")
        write(shell, "program.py", program)
        assert run_line(shell, "python program.py").stdout == "['ok']\n"
    finally:
        run_line(shell, f"redis-cli -p {port} shutdown nosave")
        server.wait(60)


def test_a_job_that_is_nowhere_is_repaired(shell):
    shell.bike.set("report:A", "NOW")
    shell.bike.client.hset(shell.bike.store.keys.statuses, "report:A", "ENQ:1700000000")
    shell.bike.client.delete(shell.bike.store.keys.queued, shell.bike.store.keys.queue("work-A"))
    done = shell.run("fsck", "--repair")
    assert is_like(done.stdout, find_block("durability", "'report:A'")), done.stdout


@pytest.mark.skipif(not shutil.which("redis-check-aof"), reason="redis-tools is not installed")
def test_a_damaged_log_is_cut_off(shell):
    del shell.environment["REDBIKE_URL"]
    server = EmbeddedServer(shell.folder / ".redbike")
    try:
        shell.run("set", "first:A", "@daily")
        server.stop()
        [log] = (server.folder / "appendonlydir").glob("*.incr.aof")
        log.write_bytes(log.read_bytes() + b"*damaged\r\n" + b"*1\r\n$4\r\nPING\r\n" * 9)
        assert shell.run("schedules").returncode == 1
        cut, repair = find_block("durability", "$ redis-check-aof").replace("$ ", "").splitlines()
        assert str(log).endswith(cut.split()[-1])
        assert run_line(shell, f"yes | {cut}").returncode == 0
        assert run_line(shell, repair).returncode == 0
        assert shell.run("schedules").stdout == "first:A,@daily\n"
    finally:
        server.stop()
