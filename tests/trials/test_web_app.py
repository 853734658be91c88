"""A web app that works its own reminders, as docs/fastapi.rst has it: real processes, driven by HTTP."""

import shlex
import sys
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from tests.pages import find_block, start_line, write
from tests.servers import free_ports
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

USERS = ("anna", "a*", "[a-z]na", "änna b")


@pytest.fixture
def web(shell):
    """A client of the app, which runs in a process of its own, beside a dispatcher."""
    for name in ("main.py", "web.py"):
        write(shell, name, find_block("fastapi", f"# {name}"))
    dispatch, app = find_block("fastapi", "redbike dispatch web").splitlines()
    [port] = free_ports(1)
    start_line(shell, f"exec {shlex.quote(sys.executable)} -m {dispatch}", "dispatch")
    shell.app = start_line(shell, f"exec {shlex.quote(sys.executable)} -m {app} --port {port}", "app")
    wait_until(lambda: "startup complete" in shell.log("app") and shell.log("dispatch"), 60)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as web:
        yield web


def remind(web, user, name, seconds, text):
    at = datetime.now(UTC) + timedelta(seconds=seconds)
    return web.put(f"/users/{user}/reminders/{name}", json={"at": at.isoformat(), "text": text}).status_code


def test_each_user_sees_changes_and_gets_only_reminders_of_its_own(web, shell):
    for user in USERS:
        assert remind(web, user, "later", 3600, "lunch") == 204
        assert [remind(web, user, f"now{number}", -1, f"{user} {number}") for number in range(5)] == [204] * 5
    for user in USERS:
        wait_until(lambda user=user: len(web.get(f"/users/{user}/sent").json()) == 5, 60)
        assert sorted(web.get(f"/users/{user}/sent").json()) == [f"{user} {number}" for number in range(5)]
        assert web.get(f"/users/{user}/reminders").json() == {"later": "lunch"}
    assert web.get("/users/*/reminders").json() == {}
    assert web.delete("/users/anna/reminders/later").status_code == 204
    assert web.delete("/users/anna/reminders/later").status_code == 404
    assert [len(web.get(f"/users/{user}/reminders").json()) for user in USERS] == [0, 1, 1, 1]
    # Set again, it is another reminder, and comes once.
    assert remind(web, "a*", "later", -1, "dinner") == 204
    wait_until(lambda: "dinner" in web.get("/users/a*/sent").json(), 60)
    assert "lunch" not in web.get("/users/a*/sent").json()
    shell.app.terminate()
    # As uvicorn ends when a signal has ended it.
    assert shell.app.wait(60) in (0, -15)
    assert "Application shutdown complete" in shell.log("app"), shell.log("app")
    assert "Traceback" not in shell.log("app")
    assert {row[4] for row in shell.list_rows("runs")} == {"ok"}


def test_what_is_refused_is_answered_and_changes_nothing(web):
    assert remind(web, "anna", "a%0Ab", 60, "Bob") == 422
    early = {"at": "1960-01-01T09:00:00Z", "text": "Bob"}
    assert web.put("/users/anna/reminders/call", json=early).status_code == 422
    assert remind(web, "anna", "call", 60, "x" * 70_000) == 422
    assert web.get("/users/anna/reminders").json() == {}
