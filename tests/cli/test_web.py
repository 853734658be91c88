"""The command web, in real processes: how it starts, what it refuses, and how it ends."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from urllib.parse import urlencode

import pytest

from redbike.cli.messages import FAILED
from redbike.web.keys import TRIES
from tests.cli.refused import check_refused
from tests.pages import start_line, write
from tests.servers import free_ports
from tests.serving import answers, get, get_port, start_page
from tests.waiting import wait_until

TOKEN = "a-token-of-the-tests"
FORM = "application/x-www-form-urlencoded"


def start(shell, *more, listen="127.0.0.1:0", **environment):
    shell.environment |= environment
    process, url = start_page(shell, f"--listen={listen}", *more)
    return process, get_port(url)


def test_it_shows_jobs_until_it_is_told_to_stop(shell):
    shell.run("set", "backup:A", "EVERY:1h")
    process, port = start(shell)
    status, text, headers = get(port, "/jobs?pattern=backup:*")
    assert status == 200
    assert "backup:A" in text
    assert headers["server"] is None
    check_refused(shell.run("web", f"--listen={port}"), 1, f"cannot listen on '{port}': Address already in use")
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert len(shell.log("web").splitlines()) == 1, "no line for each request"


def test_wrong_tokens_count_for_who_sends_them_whatever_a_header_says(shell):
    """Only a proxy is believed, here one on this machine, also where one socket is for both kinds of addresses."""
    _, port = start(shell, listen="[::]:0", REDBIKE_WEB_TOKEN=TOKEN)

    def ask(source, forwarded, token):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60, source_address=(source, 0))
        headers = {"X-Forwarded-For": forwarded, "Authorization": f"Bearer {token}"}
        connection.request("GET", "/jobs", headers=headers)
        return connection.getresponse().status

    for source, forwarded in (("127.0.0.2", "192.0.2.{}"), ("127.0.0.1", "192.0.2.1")):
        assert [ask(source, forwarded.format(n), "wrong") for n in range(TRIES)] == [401] * TRIES
        assert ask(source, forwarded.format(99), TOKEN) == 429
    assert ask("127.0.0.3", "127.0.0.2", TOKEN) == ask("127.0.0.1", "192.0.2.2", TOKEN) == 200


@pytest.mark.acceptance
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_other_signals_end_it_too(shell, number):
    process, port = start(shell)
    with socket.create_connection(("127.0.0.1", port)):
        process.send_signal(number)
        assert process.wait(60) == 0
    assert len(shell.log("web").splitlines()) == 1


@pytest.mark.acceptance
def test_a_server_of_redis_that_is_away_hangs_and_comes_back(own):
    own.environment["REDBIKE_URL"] = f"embedded:{own.server.folder}"
    process, port = start(own)
    status, text, headers = get(port)
    assert status == 503
    assert "<h1>Redis cannot be used</h1>" in text
    assert "no server runs in" in text
    assert headers["cache-control"] == "no-store"
    assert not own.server.folder.exists(), "it starts none"
    own.server.start()
    assert get(port)[0] == 200
    own.server.stop()
    wait_until(lambda: get(port)[0] == 503)
    own.server.start()
    wait_until(lambda: get(port)[0] == 200)
    os.kill(own.server.status()["pid"], signal.SIGSTOP)
    with socket.create_connection(("127.0.0.1", port)) as hanging:
        hanging.sendall(b"GET /runs HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert get(port, "/static/style.css")[0] == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert "Traceback" not in own.log("web")


@pytest.mark.parametrize("listen", ["0.0.0.0:0", pytest.param("[::]:0", marks=pytest.mark.acceptance)])
def test_others_can_reach_it_only_with_a_token(shell, listen):
    if listen.startswith("[") and not os.path.exists("/proc/net/if_inet6"):
        pytest.skip("this machine has no IPv6")
    said = f"bad --listen {listen!r}: other machines can reach it, so a token is needed: set REDBIKE_WEB_TOKEN"
    check_refused(shell.run("web", f"--listen={listen}"), 2, said)
    _, port = start(shell, listen=listen, REDBIKE_WEB_TOKEN=TOKEN)
    assert get(port, Host="page.example.org")[0] == 303
    assert get(port, Host="page.example.org", Authorization=f"Bearer {TOKEN}")[0] == 200
    assert TOKEN not in shell.log("web")


def test_an_empty_token_is_too_simple(shell):
    shell.environment["REDBIKE_WEB_TOKEN"] = ""
    check_refused(shell.run("web"), 2, "bad REDBIKE_WEB_TOKEN: at least 16 letters")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--listen="], 2, "bad --listen '': a port, or HOST:PORT, is needed"),
        (["--listen=nowhere.invalid:0"], 1, "cannot listen on 'nowhere.invalid:0': "),
        (["--listen=192.0.2.1:0"], 1, "cannot listen on '192.0.2.1:0': Cannot assign requested address"),
        (["--root-path=redbike"], 2, "bad --root-path 'redbike': a path such as /redbike is needed"),
        (["--root-path=/static/x"], 2, "bad --root-path '/static/x': /static is a path of the page itself; name"),
        (["--root-path=/api", "--api"], 2, "bad --root-path '/api': /api is a path of the page itself; name"),
        (["--who-header=X Y"], 2, "bad --who-header 'X Y': the name of a header is needed, such as X-Forwarded-User"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(shell, arguments, status, said):
    shell.environment["REDBIKE_WEB_TOKEN"] = TOKEN
    check_refused(shell.run("web", *arguments), status, said)


def test_without_its_package_it_says_what_to_install(shell):
    code = "import sys; sys.modules |= {'uvicorn': None, 'prometheus_client': None}; from redbike.cli import main"
    command = [sys.executable, "-c", f"{code}; sys.exit(main(['web']) + main(['metrics']))"]
    done = subprocess.run(command, cwd=shell.folder, env=shell.environment, capture_output=True, text=True)
    said = [re.search(r"install Redbike with its extra '(\w+)'$", line)[1] for line in done.stderr.splitlines()]
    assert (done.returncode, said) == (2 * FAILED, ["web", "metrics"])


def test_it_needs_the_worker_class_only_to_write(shell):
    write(shell, ".redbike.conf", "[redbike]\nworker: nowhere:Worker\n")
    check_refused(shell.run("web", "--write"), 2, "nowhere")
    _, port = start(shell)
    assert get(port)[0] == 200
    assert "without it, the queues of some jobs are unknown" in shell.log("web")


@pytest.mark.acceptance
@pytest.mark.parametrize("streams", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_it_goes_on_without_its_streams(shell, streams):
    [port] = free_ports(1)
    process = start_line(shell, f"exec {' '.join(shell.command(('web', f'--listen={port}')))} {streams}")
    wait_until(lambda: answers(port), timeout=60)
    process.terminate()
    assert process.wait(60) == 0


def test_it_is_below_the_path_of_a_proxy_and_asks_for_the_token_that_nobody_sees(shell):
    process, port = start(shell, "--root-path=/redbike/", REDBIKE_WEB_TOKEN=TOKEN)
    status, _, headers = get(port, "/redbike/jobs?queue=x")
    assert (status, headers["location"]) == (303, "./login?to=jobs%3Fqueue%3Dx")
    sent = {"Content_Type": FORM, "X_Forwarded_Proto": "https"}
    status, _, headers = get(port, "/redbike/login?to=jobs", "POST", f"token={TOKEN}", **sent)
    assert (status, headers["location"]) == (303, "./jobs")
    cookie = headers.get_all("set-cookie")[0]
    assert ("; Secure" in cookie, "; Path=/redbike;" in cookie) == (True, True), "behind a proxy with https"
    status, text, _ = get(port, "/redbike/jobs", Cookie=cookie.partition(";")[0])
    assert status == 200
    links = re.findall(r'(?:href|src|action)="([^"]*)"', text)
    assert not [link for link in links if link.startswith("/") or "//" in link]
    assert f"http://127.0.0.1:{port}/redbike/\n" in shell.log("web")
    with open(f"/proc/{process.pid}/cmdline") as file:
        assert TOKEN not in file.read()


def test_the_log_names_whom_the_proxy_names(shell):
    shell.run("set", "job:A", "EVERY:1h")
    _, port = start(shell, "--write", "--who-header=X-User")
    _, page, headers = get(port, "/job?id=job%3AA")
    fields = {name: re.search(rf'name="{name}" value="([^"]*)"', page)[1] for name in ("form", "once")}
    body = urlencode({**fields, "action": "run", "id": "job:A"})
    sent = {"cookie": headers["set-cookie"].partition(";")[0], "content_type": FORM}
    assert get(port, "/do", "POST", body, x_user="ada", **sent)[0] == 303
    [entry, *_] = json.loads(shell.run("log", "--format=json").stdout)
    assert (entry["action"], entry["jobid"], entry["who"]) == ("run", "job:A", "ada (page@127.0.0.1)")
