"""What docs/api.rst shows is what happens: its commands, its table, and nginx in front."""

import base64
import json
import re
import shlex
import shutil
import subprocess

import pytest

from redbike.store.tokens import ROLES
from redbike.web.api.routes import ROUTES
from tests.pages import PAGES, find_block, is_like
from tests.servers import free_ports
from tests.serving import get, get_port, start_page
from tests.waiting import wait_until
from tests.web.test_docs import NGINX

TEXT = PAGES["api"].read_text()


def test_the_page_lists_all_that_can_be_asked():
    rows = re.findall(r"^``(GET|PUT|POST|DELETE) (\S+)`` +``(\w+)``", TEXT, re.MULTILINE)
    more = {("GET", "/events", "read"), ("GET", "/openapi.json", "read")}
    assert {*rows} == {(route.method, route.path, route.role) for route in ROUTES} | more
    assert [role for role in ROLES if not re.search(rf"^``{role}`` ", TEXT, re.MULTILINE)] == []


def start(shell, *more):
    command, line = find_block("api", "$ redbike web --api --write\n").splitlines()
    _, url = start_page(shell, "--listen=127.0.0.1:0", *command.split()[3:], *more)
    assert url.rpartition(":")[0] == line.split()[-1].rpartition(":")[0]
    return get_port(url)


def run(shell, text, port, **environment):
    """Run the commands of a block, with what each has printed."""
    joined = re.sub(r" *\\\n +", " ", text).replace("127.0.0.1:8080", f"127.0.0.1:{port}")
    for command, shown in re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", joined, re.MULTILINE):
        done = subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            text=True,
            check=True,
            cwd=shell.folder,
            env={**shell.environment, **environment},
            timeout=60,
        )
        yield done.stdout, shown.strip()


@pytest.mark.acceptance
def test_jobs_are_set_and_run_as_shown(shell):
    port = start(shell)
    (job, _), (ran, shown), (runs, none) = run(shell, find_block("api", "$ curl -X PUT"), port)
    assert json.loads(job)["options"] == {"retries": 2}
    assert (ran, runs) == (shown, none)


@pytest.mark.acceptance
def test_a_token_is_given_and_used_as_shown(shell):
    shell.run("set", "etl:A", "EVERY:1h")
    port = start(shell)
    command, *shown = find_block("api", "$ redbike token add").splitlines()
    done = shell.run(*shlex.split(command)[2:])
    secret, said = done.stdout.strip(), [line for line in shown if line.startswith("redbike: ")]
    assert is_like(done.stderr, "\n".join(said))
    assert len(secret) == len(next(line for line in shown if line.startswith("redbike_")))
    header = re.search("send it as (.*)", done.stderr)[1].replace("TOKEN", secret)
    command = f"$ curl -H '{header}' -X POST http://127.0.0.1:8080/api/jobs/etl:A/run\n"
    assert list(run(shell, command, port)) == [('{"jobid":"etl:A","word":"queued"}', "")]
    assert get(port, "/api/jobs")[0] == 401


@pytest.mark.acceptance
def test_a_problem_and_events_look_as_shown(shell):
    port = start(shell)
    problem = json.loads(find_block("api", '{"type"'))
    _, text, _ = get(port, "/api/jobs/a:A", "PUT", '{"schedule": "x"}', Content_Type="application/json")
    assert {**json.loads(text), "detail": "…"} == problem
    lines = find_block("api", "$ curl -N").splitlines()
    shell.run("set", "etl:A", "EVERY:1h")
    with subprocess.Popen(
        ["curl", "-sN", lines[0].split()[-1].replace("8080", str(port))], stdout=subprocess.PIPE, text=True
    ) as stream:
        assert stream.stdout.readline().startswith(": ")
        assert [stream.stdout.readline().strip() for _ in range(4)] == ["", *lines[1:3], ""]
        shell.start("up", "redbike:RoundRobin('A')")
        shell.run("run", "etl:A")
        found = {}
        while "run" not in found.values():
            kind, _, value = stream.stdout.readline().strip().partition(": ")
            found[kind] = value
        event = json.loads(stream.stdout.readline().partition(": ")[2])
        assert (event["jobid"], event["kind"]) == ("etl:A", "run")
        assert {*re.findall(r'"(\w+)":', lines[5])} <= event.keys()
        stream.kill()


@pytest.mark.acceptance
@pytest.mark.skipif(not shutil.which("nginx"), reason="nginx is not installed")
def test_users_of_nginx_have_roles_as_shown(shell):
    shell.run("set", "etl:A", "EVERY:1h")
    command = find_block("api", "$ redbike web --api --write --who").replace("\\\n", "")
    port = start(shell, *shlex.split(command)[5:])
    [front] = free_ports(1)
    host, own = "    proxy_set_header Host $http_host;\n", find_block("api", 'auth_basic "jobs"')
    block = find_block("page", "location /redbike/").replace("location /redbike/", "location /")
    assert host in block
    block = block.replace(host, own).replace("127.0.0.1:8080", f"127.0.0.1:{port}")
    block = block.replace("auth_basic_user_file users;", f"auth_basic_user_file {shell.folder}/users;")
    (shell.folder / "users").write_text("anna:{PLAIN}secret\n")
    (shell.folder / "nginx.conf").write_text(NGINX % (front, block))
    process = subprocess.Popen(["nginx", "-p", str(shell.folder), "-c", "nginx.conf"], cwd=shell.folder)
    shell.started.append(process)
    basic = {"Authorization": "Basic " + base64.b64encode(b"anna:secret").decode()}

    def ask(method, path, at=front, **headers):
        try:
            return get(at, f"/api{path}", method, host="127.0.0.1", **headers)[0]
        except ConnectionError:
            return None

    wait_until(lambda: ask("GET", "/jobs") == 401, timeout=60)
    assert ask("GET", "/jobs", **basic) == 200
    assert ask("POST", "/jobs/etl:A/run", Remote_Groups="admins", **basic) == 200
    assert ask("DELETE", "/jobs/etl:A", Remote_Groups="admins", **basic) == 403, "groups are what nginx says"
    assert shell.list_rows("log", "--limit=1")[0][1] == "anna (api@127.0.0.1)"
    assert get(front, "/jobs", **basic)[0] == 200
    assert ask("GET", "/jobs", at=port) == 401, "without a user a token is needed"
    assert ask("GET", "/jobs", at=port, Remote_User="anna", Host="evil.example") == 401
