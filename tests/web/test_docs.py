"""What docs/page.rst shows is what happens: how the page starts, proxies in front of it; and its rights in Redis."""

import re
import shlex
import shutil
import subprocess

import pytest
from starlette.testclient import TestClient

from redbike import Redbike, RoundRobin
from redbike.errors import ServerError
from redbike.web import app, pages
from tests.commandline import ROOT
from tests.pages import PAGES, find_block, list_blocks, list_programs, run_line, write
from tests.servers import free_ports
from tests.serving import answers, get, get_port, start_page
from tests.states import untouched
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

TOKEN = "a-token-of-the-tests"
ACL = re.search(
    r"redis-cli (ACL SETUSER redbike-page .*)$", PAGES["security"].read_text().replace("\\\n", ""), re.MULTILINE
)


def test_the_page_starts_as_shown(shell):
    command, line = find_block("page", "$ redbike web").splitlines()
    assert command == "$ redbike web"
    _, url = start_page(shell, "--listen=127.0.0.1:0")
    assert url.rpartition(":")[0] == line.split()[-1].rpartition(":")[0]


def test_the_page_starts_with_a_token_as_shown(shell):
    first, second = find_block("page", "$ export REDBIKE_WEB_TOKEN").splitlines()
    command = ["sh", "-c", first.removeprefix("$ ") + "; printf %s $REDBIKE_WEB_TOKEN"]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert re.fullmatch(r"\w{48}", made)
    shell.environment["REDBIKE_WEB_TOKEN"] = made
    _, url = start_page(shell, second.split()[-1].replace(":8080", ":0"))
    assert get(get_port(url), Authorization=f"Bearer {made}")[0] == 200


@pytest.fixture
def proxied(shell):
    """Starts the page, and a proxy in front of it; the port of the proxy."""
    started = []

    def proxied(arguments, write):
        shell.environment["REDBIKE_WEB_TOKEN"] = TOKEN
        shell.run("set", "job:A", "EVERY:1h")
        _, url = start_page(shell, "--listen=127.0.0.1:0", "--root-path=/redbike")
        [port] = free_ports(1)
        write(port, get_port(url))
        environment = shell.environment | {"HOME": str(shell.folder)}
        started.append(subprocess.Popen(arguments, cwd=shell.folder, env=environment))
        wait_until(lambda: answers(port, "/redbike/login"), timeout=60)
        return port

    yield proxied
    for process in started:
        process.terminate()
        process.wait(30)


def browse(port):
    """Logs in through a proxy, looks at a job, and changes something that needs no rights."""
    host = f"jobs.example.org:{port}"
    status, _, headers = get(port, "/redbike/job?id=job:A", Host=host)
    assert (status, headers["location"]) == (303, "./login?to=job%3Fid%3Djob%3AA")
    sent = {"Content_Type": "application/x-www-form-urlencoded", "Host": host, "Origin": f"http://{host}"}
    status, _, headers = get(port, f"/redbike/{headers['location'][2:]}", "POST", f"token={TOKEN}", **sent)
    assert (status, headers["location"]) == (303, "./job?id=job:A")
    [session] = [cookie for cookie in headers.get_all("set-cookie") if "session" in cookie]
    assert "; Path=/redbike;" in session
    cookie = session.partition(";")[0]
    status, text, _ = get(port, "/redbike/job?id=job:A", Host=host, Cookie=cookie)
    assert status == 200
    asset = re.search(r'href="(static/style[^"]*)"', text)[1]
    assert get(port, f"/redbike/{asset}", Host=host)[0] == 200
    assert get(port, "/redbike/logout", "POST", "", Cookie=cookie, **sent)[0] == 303
    assert get(port, "/redbike/logout", "POST", "", **sent | {"Origin": "http://example.org"})[0] == 403
    status, _, headers = get(port, "/redbike", Host=host)
    assert status in (301, 302, 307)
    assert re.fullmatch(rf"(http://{re.escape(host)})?(/redbike/|redbike/)", headers["location"])


def test_an_application_that_mounts_the_page_checks_who_asks(shell):
    [blocks] = list_programs("page").values()
    ask = "TestClient(app, base_url='https://shop.example.org').get('/jobs/', headers={'x-user': '%s'}).status_code"
    text = f"from fastapi.testclient import TestClient\nprint({ask % 'anna'}, {ask % 'eve'})\nbike.close()\n"
    write(shell, "app.py", "\n\n".join([*(block.text for block in blocks), text]))
    done = run_line(shell, "python app.py")
    assert (done.returncode, done.stdout) == (0, "200 403\n"), done.stderr


NGINX = """
daemon off; pid nginx.pid; error_log stderr; worker_processes 1; master_process off;
events {}
http {
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server {
        listen 127.0.0.1:%d;
        server_name jobs.example.org;
        absolute_redirect off;
        %s
    }
}
"""


@pytest.mark.skipif(not shutil.which("nginx"), reason="nginx is not installed")
def test_the_page_is_behind_nginx(shell, proxied):
    block = find_block("page", "location /redbike/")

    def write(port, behind):
        text = block.replace("127.0.0.1:8080", f"127.0.0.1:{behind}")
        (shell.folder / "nginx.conf").write_text(NGINX % (port, text))

    folder = str(shell.folder)
    browse(proxied(["nginx", "-p", folder, "-c", f"{folder}/nginx.conf", "-e", "stderr"], write))


@pytest.mark.skipif(not shutil.which("caddy"), reason="caddy is not installed")
def test_the_page_is_behind_caddy_which_strips_its_path(shell, proxied):
    block = find_block("page", "redir /redbike")

    def write(port, behind):
        text = block.replace("127.0.0.1:8080", f"127.0.0.1:{behind}")
        text = re.sub(r"reverse_proxy (\S+) (\S+)", r"handle_path \1 {\nreverse_proxy \2\n}", text)
        (shell.folder / "Caddyfile").write_text(f"{{\nadmin off\nauto_https off\n}}\nhttp://:{port} {{\n{text}}}\n")

    browse(proxied(["caddy", "run", "--config", "Caddyfile", "--adapter", "caddyfile"], write))


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_the_unit_of_the_page_is_right(shell):
    block = next(each for each in list_blocks("deployment") if each.text.startswith("$ /opt/redbike/bin/pip"))
    install, make, add, *_ = [command for command, _ in block.commands()]
    assert install.endswith("pip install '.[web]'")
    (shell.folder / "redbike.env").write_text("REDBIKE_URL=x\n")
    for line in (make.replace("deploy/", f"{ROOT}/deploy/"), add):
        line = line.replace("/etc/systemd/system/", "./").replace("/etc/redbike/", "./")
        subprocess.run(["sh", "-c", line], cwd=shell.folder, check=True)
    assert re.fullmatch(r"REDBIKE_URL=x\nREDBIKE_WEB_TOKEN=\w{48}\n", (shell.folder / "redbike.env").read_text())
    unit = shell.folder / "redbike-web.service"
    text = unit.read_text()
    assert text.startswith("[Unit]\nDescription=Redbike page\n")
    [command] = re.findall("^ExecStart=/opt/redbike/bin/redbike (.*)$", text, re.MULTILINE)
    assert command == "--config=/etc/redbike/redbike.conf web"
    unit.write_text(re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", text).replace("/etc/redbike\n", "/\n"))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert "redbike-web" not in done.stderr, done.stderr


@pytest.fixture(params=[1, 4])
def reader(client, server_url, request):
    """A Redbike whose user in Redis has the rights that the page shows."""
    client.execute_command(*ACL[1].replace("'", "").split())
    if request.param > 1:
        more = re.search(r"With `shards .*?, add ``(.*?)``", PAGES["security"].read_text())[1]
        client.execute_command("ACL", "SETUSER", "redbike-page", *shlex.split(more))
    client.acl_setuser("redbike-page", enabled=True, passwords=["+secret"])
    client.acl_log_reset()
    path = client.connection_pool.connection_kwargs["path"]
    settings = {"unix_socket_path": path, "username": "redbike-page", "password": "secret"}
    with Redbike(RoundRobin("A"), redis_config=settings, shards=request.param) as bike:
        yield bike
    client.acl_deluser("redbike-page")


def test_a_user_who_only_reads_can_open_every_page(client, server_url, reader):
    with Redbike(RoundRobin("A"), redis_config=server_url, shards=reader.settings.shards) as bike:
        bike.set("job:A", "NOW", data=1)
        bike.set("other:A", "EVERY:1h")
        bike.dispatch_due()
        bike.work_one()
        bike.pause("other:A")
    page = TestClient(app(reader, show_data=True), base_url="http://localhost")
    queries = ["id=job:A", "id=other:A", "pattern=*:A", "pattern=job:A", "sort=next", "failed=1", "status=STP"]
    for path in {*pages.PAGES} - {*pages.FORMS}:
        for query in ("", "overdue=1", *queries):
            answer = page.get(f"/{path}?{query}")
            refused = [entry["object"] for entry in client.acl_log() if entry["object"] != "client|setinfo"]
            assert refused == [], (path, query)
            assert answer.status_code in (200, 400, 404), (path, query, answer.text)
    for change, *more in ((reader.set, "NOW"), (reader.unset,), (reader.run,)):
        with untouched(client), pytest.raises(ServerError):
            change("job:A", *more)
