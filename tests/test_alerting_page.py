"""The recipes of docs/alerting.rst, and the figures that docs/monitoring.rst has served: each rings."""

import json
import re
import urllib.error
import urllib.request

import pytest

from tests.pages import PAGES, find_block, is_like, run_line, start_line, write
from tests.pinged import serve
from tests.servers import free_ports
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance


def test_the_dispatcher_calls_its_switch(shell):
    with serve() as pinged:
        commands = find_block("alerting", "$ export").replace("https://hc-ping.com", pinged.url)
        start_line(shell, re.sub(r"^\$ ", "", commands, flags=re.MULTILINE).replace("redbike d", "exec redbike d"))
        wait_until(lambda: pinged.called, 60)
        assert pinged.called[0] == "/UUID"


def test_a_command_mails_after_a_failure(shell):
    write(shell, "bin/mail", '#!/bin/sh\n{ printf "%s\\n" "$@"; cat; } >mail.new; mv mail.new mail\n').chmod(0o755)
    write(shell, "backup", "#!/bin/sh\necho half a backup\nexit 3\n").chmod(0o755)
    commands = find_block("alerting", "[commands]").replace("/usr/local/bin", str(shell.folder))
    write(shell, "commands.ini", commands)
    assert shell.run("set", "backup:A", "NOW").returncode == 0
    start_line(shell, "exec redbike work \"redbike.commands:Commands('A', 'commands.ini')\"")
    wait_until((shell.folder / "mail").exists, 60)
    said = "backup:A failed: exit status 3: half a backup"
    assert (shell.folder / "mail").read_text().splitlines() == ["-s", said, "ops@example.org", "half a backup"]


def test_nagios_is_told_that_it_is_critical(shell):
    conf = write(shell, "redbike.conf", "")
    done = run_line(shell, find_block("alerting", "redbike --config").replace("/etc/redbike/redbike.conf", str(conf)))
    assert (done.returncode, done.stdout.partition(":")[0]) == (2, "PROBLEM")


def test_the_figures_are_served(shell):
    command, _, shown = find_block("monitoring", "$ redbike metrics").removeprefix("$ ").partition("\n")
    [port] = free_ports(1)
    start_line(shell, f"exec {command.replace('9199', str(port))}")
    wait_until(lambda: shell.log().endswith("\n"), 60)
    assert is_like(shell.log(), shown)
    url = re.search(r"'(.*)'", find_block("alerting", "curl -f"))[1]
    shell.bike.set("backup:A", "NOW")
    with pytest.raises(urllib.error.HTTPError, match="503"):
        urllib.request.urlopen(url.replace("redbike-monitor:9199", f"127.0.0.1:{port}"), timeout=60)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        assert b'redbike_up{prefix="redbike"} 1.0' in answer.read()


def try_alert(shell, block, **places):
    """Try a recipe, with other programs and hosts in their places; what `redbike alert --test` prints."""
    config = block if block.endswith("\n") else find_block("alerting", block)
    for before, after in places.values():
        config = config.replace(before, after)
    write(shell, ".redbike.conf", config)
    done = shell.run("alert", "--test")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_command_is_told(shell):
    write(shell, "tell-ops", '#!/bin/sh\n{ echo "$REDBIKE_ALERT"; cat; } >told\n').chmod(0o755)
    place = "/usr/local/bin", str(shell.folder)
    said = try_alert(shell, "[redbike]\nalert: /usr/local", place=place)
    assert said == f"the test was sent to '{shell.folder}/tell-ops': exit status 0\n"
    shown = find_block("alerting", "$ redbike alert").partition("\n")[2]
    assert said.replace(*reversed(place)).strip() == shown.strip()
    word, line = (shell.folder / "told").read_text().splitlines()
    assert (word, json.loads(line)["alert"]) == ("test", "test")
    assert (
        json.loads(line).keys() | {"jobid"} == json.loads(find_block("alerting", '{"alert"').replace("…", '""')).keys()
    )


def test_sendmail_mails(shell):
    write(shell, "sendmail", '#!/bin/sh\n{ echo "$@"; cat; } >mail\n').chmod(0o755)
    try_alert(shell, "[redbike]\nalert: sh -c", place=("/usr/sbin", str(shell.folder)))
    address, subject, blank, line = (shell.folder / "mail").read_text().splitlines()
    assert (address, subject, blank, json.loads(line)["alert"]) == ("root", "Subject: test", "", "test")


@pytest.mark.parametrize(
    ("url", "host", "key"),
    [
        ("https://ops.example.org/hooks/redbike", "https://ops.example.org", "alert"),
        ("slack+https://hooks.slack.com/services/T0/B0/SECRET", "https://hooks.slack.com", "text"),
    ],
)
def test_a_url_is_told(shell, url, host, key):
    assert f"``{url}``" in PAGES["alerting"].read_text()
    with serve() as pinged:
        said = try_alert(shell, f"[redbike]\nalert: {url}\n", place=(host, pinged.url))
        assert said == f"the test was sent to {pinged.url}/…: the answer is 200\n"
    [(kind, body)] = pinged.posted
    assert (kind, key in json.loads(body)) == ("application/json", True)
