"""The pieces of Python, and the commands beside them, on pages that are not one program."""

import runpy
import shlex
import sys
import time
import urllib.request
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from redbike import Redbike, RoundRobin
from redbike.commands import Commands
from redbike.loop.policies import decide_done
from redbike.store.enums import Outcome
from redbike.worker.log_lines import describe
from tests.pages import find_block, is_like, list_programs, run_line, start_line, write
from tests.servers import free_ports
from tests.verbs import set_job, take_one
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

# In a transaction that a test ends, in which only its own thread sees what it has written, and in none.
TESTS_OF_DJANGO = """
import contextlib
import io

from django.contrib.auth.models import User
from django.test import TestCase, TransactionTestCase
from redbike.testing import isolate
from shop.jobs import jobs

def run(test, jobid):
    User.objects.create(username="anna")
    bike = test.enterContext(isolate())(jobs)
    bike.set(jobid, "NOW")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        bike.run_due()
    test.assertEqual(printed.getvalue(), f"{jobid} for 1 users\\n")
    test.assertEqual(User.objects.count(), 1)

class PlainTests(TestCase):
    def test_invoices(self):
        run(self, "invoices")

class CoroutineTests(TransactionTestCase):
    def test_reminders(self):
        run(self, "reminders")
"""
REPEATED = """
from datetime import UTC, datetime, timedelta


def test_a_charge_is_tried_until_it_works(redbike):
    bike = redbike(jobs, now=datetime(2027, 1, 1, 5, 59, tzinfo=UTC))
    bike.set("charge", "0 6 1 * *", retries=5, backoff="1m")
    runs = bike.run_due(timedelta(hours=1), reraise=False)
    assert [run.attempt for run in runs] == [1, 2, 3]
    assert len({run.due for run in runs}) == 1


def test_an_invoice_is_written_once(redbike):
    bike = redbike(jobs, now=datetime(2027, 1, 1, 12, tzinfo=UTC))
    bike.set("invoice", "0 0 1 * *", tz="Europe/Berlin")
    bike.run_due(timedelta(days=60))
    bike.run("invoice")
    bike.run_due()
    assert len(invoices) == 3


def test_a_payment_without_an_account_is_not_tried_again(redbike, monkeypatch):
    asked = []

    class Accounts:
        def __contains__(self, name):
            asked.append(name)
            if len(asked) == 1:
                raise ConnectionError("the bank does not answer")
            return False

    monkeypatch.setitem(globals(), "accounts", Accounts())
    bike = redbike(jobs)
    bike.set("pay", "NOW", data="bob")
    bike.run_due(timedelta(days=1), reraise=False)
    assert asked == ["bob", "bob"]
    [failure] = bike.failures()
    assert failure["error"] == "NoSuchAccount: bob (stop_on has NoSuchAccount)"
"""
BIKE = """
import os
from redbike import Redbike, RoundRobin

bike = Redbike(RoundRobin("A"), redis_config=os.environ["REDBIKE_URL"])
"""
# A job, by how much it was late, how long it took, the number of the try, and how its runs of a second ended.
LOGGED = [
    ("backup:db", 0.0, 251.0, 1, [Outcome.OK]),
    ("poll:web", 3.0, 0.012, 2, [*[Outcome.OK] * 4, Outcome.FAILED]),
]


def run_program(shell, text):
    write(shell, "program.py", text)
    done = run_line(shell, "python program.py")
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_code(folder, text, **names):
    """Run a piece of Python, which presumes `names`; return all the names that there are then."""
    (folder / "piece.py").write_text(text)
    return runpy.run_path(str(folder / "piece.py"), init_globals=names)


def test_a_program_listens(shell):
    write(shell, "program.py", BIKE + find_block("command-line", "for event in"))
    start_line(shell, f"exec {shlex.quote(sys.executable)} -u program.py")
    wait_until(lambda: shell.bike.client.pubsub_shardnumsub("redbike-journal")[0][1], 60)
    shell.bike.set("job:A", "NOW")
    assert shell.bike.work_one() == "job:A"
    wait_until(lambda: "PastRun(jobid='job:A'" in shell.log(), 60)


def test_jobs_are_tried_again_as_the_page_on_retries_says(shell):
    [blocks] = list_programs("retries").values()
    write(shell, "app.py", "\n\n".join(block.text for block in blocks) + REPEATED)
    done = run_line(shell, "python -m pytest -q -p no:cacheprovider -p redbike.testing app.py")
    assert (done.returncode, "3 passed" in done.stdout) == (0, True), done.stdout


def test_a_program_asks_how_many_replicas_have_a_job(shell):
    names = run_code(shell.folder, find_block("durability", "bike.set("), bike=shell.bike)
    assert names["safe"] is False  # this server has none
    assert shell.bike.tell("report:A")["schedule"] == "AT:2030-01-01T00:00:00Z"


def test_a_deploy_and_the_command_line_have_the_same_jobs_of_one_module_or_of_several(shell):
    for name, blocks in list_programs("jobs").items():
        write(shell, name, "\n\n\n".join(block.text for block in blocks) + "\n")
    url = shell.environment.pop("REDBIKE_URL")
    config = "[redbike]\nprefix: mine\ntimezone: Asia/Tokyo\n[redbike-redis]\nurl: "
    write(shell, ".redbike.conf", f"{config}{url}\n")
    for _ in range(2):
        assert run_line(shell, "python deploy.py").returncode == 0
    for worker, said in (("app", "3 unchanged"), ("worker", "2 added")):
        up = shell.start("up", f"{worker}:jobs", log=worker)
        wait_until(lambda worker=worker: "works work-" in shell.log(worker), 60)
        assert f"redbike: {worker}:jobs: {said}\n" in shell.log(worker)
        up.terminate()
        assert up.wait(timeout=60) == 0
    jobids = [row.partition(",")[0] for row in shell.run("schedules").stdout.splitlines()]
    assert sorted(jobids) == ["backup", "bill", "clean", "count", "report"]
    assert not (shell.folder / ".redbike").exists()


def test_the_project_of_the_page_on_django_runs_its_jobs_and_tests(shell):
    def manage(*words, status=0):
        done = run_line(shell, f"python -m django {shlex.join(words)} --settings=mysite.settings --pythonpath=.")
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr * bool(status)

    assert run_line(shell, "django-admin startproject mysite . && django-admin startapp shop").returncode == 0
    settings = shell.folder / "mysite" / "settings.py"
    text = settings.read_text().replace("INSTALLED_APPS = [", "INSTALLED_APPS = [\n    'shop',")
    # To close a database in memory does nothing.
    settings.write_text(f"{text}\nDATABASES['default']['TEST'] = {{'NAME': BASE_DIR / 'test.sqlite3'}}\n")
    programs = list_programs("django")
    assert len(programs) == 5
    for name, [block] in programs.items():
        write(shell, name, f"{block.text}\n")
    write(shell, "shop/test_more.py", TESTS_OF_DJANGO)
    write(shell, ".redbike.conf", "[redbike]\nprefix: mine\n")
    del shell.environment["REDBIKE_URL"]
    manage("migrate")
    assert manage("set_jobs") == "jobs: 2 added\n"
    tested = run_line(shell, "python manage.py test")
    assert (tested.returncode, "Ran 3 tests" in tested.stderr) == (0, True), tested.stderr
    up = shell.start(*find_block("django", "redbike up").split()[1:])
    wait_until(lambda: "works work-invoices" in shell.log(), 60)
    assert "redbike: worker:jobs: 2 unchanged\n" in shell.log()
    for jobid in ("invoices", "reminders"):
        assert shell.run("run", jobid).returncode == 0
        wait_until(lambda jobid=jobid: f"{jobid} for 0 users" in shell.log(), 60)
        wait_until(lambda jobid=jobid: f"{jobid}: ok" in shell.log(), 60)
    up.terminate()
    assert up.wait(timeout=60) == 0
    assert manage("set_jobs") == "jobs: 2 unchanged\n"
    write(shell, "other.csv", "invoices,@daily\n")
    assert shell.run("load", "other.csv", "--take").returncode == 0
    refused = manage("set_jobs", status=1)
    assert "CommandError: jobs: 1 unchanged, 1 bad" in refused
    assert "worker:jobs: 'invoices': it is a row of the group" in refused


def test_the_jobs_of_the_web_app_are_worked(shell):
    jobs, app = find_block("fastapi", "redbike up").splitlines()
    write(shell, "main.py", find_block("fastapi", "# main.py"))
    start_line(shell, f"exec {shlex.quote(sys.executable)} -m {jobs}")
    wait_until(lambda: "works work-remind" in shell.log(), 60)
    assert app.startswith("uvicorn main:app ")
    assert run_program(shell, "import main\nprint(type(main.app).__name__)\n") == "FastAPI\n"


def test_a_mounted_page_that_somebody_has_open_does_not_keep_its_server(shell):
    write(shell, "app.py", find_block("page", "from fastapi import FastAPI, HTTPException"))
    [port] = free_ports(1)
    limited = find_block("page", "uvicorn ").strip().replace("shutdown 5", "shutdown 1")
    server = start_line(shell, f"exec {limited} --port {port}")
    wait_until(lambda: "Uvicorn running on" in shell.log(), 60)
    admin = {"x-user": "anna", "host": "shop.example.org"}
    opener = urllib.request.Request(f"http://127.0.0.1:{port}/jobs/events?page=jobs", headers=admin)
    with urllib.request.urlopen(opener) as stream:
        assert stream.readline().startswith(b"retry:")
        server.terminate()
        server.wait(timeout=30)


def test_the_lines_of_the_log_are_like_those_shown(shell):
    now = time.time()
    lines = []
    for jobid, late, took, attempt, outcomes in LOGGED:
        set_job(shell.bike.store, jobid, "EVERY:1d@0.0", now - late)
        run = replace(
            take_one(shell.bike.store.at(now), [(shell.bike.store.queue_for(jobid), 1000.0)], f"tag{attempt}"),
            tries=attempt - 1,
        )
        run.began, run.over = run.received, run.received + took
        done = decide_done(run, None, shell.bike.settings, now)
        text, _ = describe([(run, replace(done, outcome=outcome)) for outcome in outcomes])
        lines.append(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} INFO {text}")
    shown = find_block("monitoring", "2026-03-02T03:04:11Z").splitlines()
    assert [is_like(*pair) for pair in zip(lines, shown, strict=True)] == [True, True], lines


def test_a_worker_class_limits_queues(shell):
    write(shell, "tour.py", find_block("workers", "from redbike import Limit") + "    def work(self, jobid): pass\n")
    shell.start("work", "tour:Worker('mail')")
    wait_until(lambda: shell.run("limit", "work-mail").stdout == "work-mail: at once 5, rate 100/m\n", 60)


def test_a_worker_class_hears_of_failures(shell):
    mails = []
    names = {"RoundRobin": RoundRobin, "send_mail": mails.append}
    worker = run_code(shell.folder, find_block("workers", "class Worker"), **names)["Worker"]

    class Failing(worker):
        def work(self, jobid):
            raise OSError("full")

    own = Redbike(Failing("A"), redis_config=shell.bike.client)
    own.set("job:A", "NOW")
    own.work_one()
    assert mails == ["job:A: failed OSError: full"]


def test_a_command_is_chosen_by_the_id_of_a_job(shell):
    write(shell, "backup", "#!/bin/sh\necho $1\n").chmod(0o755)
    text = find_block("workers", "[commands]").replace("/usr/local/bin", str(shell.folder))
    commands = Commands("A", str(write(shell, "commands.ini", text)))
    bike = Redbike(commands, redis_config=shell.environment["REDBIKE_URL"])
    for jobid in ("backup:A", "backup:db1:A"):
        bike.set(jobid, "NOW")
        assert bike.work_one() == jobid
        assert bike.runs(jobid)[0].outcome == "ok"


# Of a web app that works its own reminders.
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
