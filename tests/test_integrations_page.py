"""The middleware of docs/integrations.rst and docs/django.rst, as a reader saves them: real workers run their jobs."""

import json
import re
import sqlite3
from itertools import pairwise

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.pages import find_block, list_programs, run_line, write
from tests.pinged import serve
from tests.waiting import wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

# The jobs of the page, and some that see the connections of Django when they begin, in the thread of the queries.
OBSERVER = """
from worker import jobs
from asgiref.sync import sync_to_async
from django.db import connection

def observe(kind):
    print(kind, "reuses" if connection.connection else "opens", flush=True)
    connection.ensure_connection()

@jobs.job("observe")
def observe_plain():
    observe("plain")

@jobs.job("observe-async")
async def observe_async():
    await sync_to_async(observe)("async")
"""
DAY = 1767225600.0  # 2026-01-01
# A coroutine that stops its job.
REMIND = """
@jobs.job("remind")
async def remind() -> None:
    sentry_sdk.set_tag("user", "anna")
    raise StopWork("she has paid")
"""


@pytest.fixture
def save(shell):
    """Save a program of a page."""

    def save(name, page="integrations", more=""):
        write(shell, name, "\n\n\n".join([*(block.text for block in list_programs(page)[name]), more]) + "\n")

    return save


def start_worker(shell, worker):
    up = shell.start("up", worker)
    wait_until(lambda: len(shell.list_rows("workers")) == 2, 60)
    return up


def stop(worker):
    worker.terminate()
    assert worker.wait(60) == 0


def run_jobs(shell, *rows):
    """Set jobs, and return how their runs have ended."""
    for jobid, data in rows:
        assert shell.run("set", jobid, "NOW", f"--data={json.dumps(data)}").returncode == 0
    wait_until(lambda: all(shell.bike.runs(jobid) and not shell.bike.is_working(jobid) for jobid, _ in rows), 60)
    wait_until(lambda: all(shell.bike.tell(jobid)["next_run"] is None for jobid, _ in rows), 60)
    return [[run.outcome for run in shell.bike.runs(jobid)][::-1] for jobid, _ in rows]


def test_a_session_of_sqlalchemy_commits_what_ends_well_and_rolls_the_rest_back(shell, save):
    save("orders.py")
    text = (shell.folder / "orders.py").read_text()
    more = '\n\n@jobs.job("{0}"{2})\ndef {0}(number: int) -> None:\n    pay(number, 1)\n    {1}\n'
    text += more.format("stop", "raise StopWork", "")
    late, options = "__import__('time').sleep(0.3)", ", timeout=0.2, on_timeout='stop'"
    text += more.format("late", late, options) + more.format("late_again", f"{late}\n    raise Again", options)
    text += more.format("cancelled", "__import__('redbike').current_run().cancelled = True\n    raise StopWork", "")
    (shell.folder / "orders.py").write_text(text)
    worker = start_worker(shell, "orders:jobs")
    rows = [(f"pay:{number}", {"number": number, "amount": amount}) for number, amount in ((1, 5), (2, 0), (3, 5))]
    assert run_jobs(shell, *rows) == [["ok"], ["failed"], ["ok"]]
    more = ("stop", "late", "late_again", "cancelled")
    rows = [(jobid, {"number": number}) for number, jobid in enumerate(more, 4)]
    assert run_jobs(shell, *rows) == [["ok"], ["overrun"], ["overrun"], ["cancelled"]]
    stop(worker)
    found = sqlite3.connect(shell.folder / "orders.db").execute("select number, is_paid from orders order by number")
    assert found.fetchall() == [(1, 1), (3, 1), (4, 1)]


def test_connections_of_django_are_closed_around_each_run(shell, save):
    assert run_line(shell, "django-admin startproject mysite .").returncode == 0
    assert run_line(shell, "python -m django migrate --settings=mysite.settings --pythonpath=.").returncode == 0
    save("shop/jobs.py", "django")
    save("worker.py", "django")
    write(shell, "observer.py", OBSERVER)
    worker = start_worker(shell, "observer:jobs")
    names = ("invoices", "reminders", "observe", "observe", "observe-async", "observe-async")
    for number, name in enumerate(names):
        assert run_jobs(shell, (f"{name}:{number}", None)) == [["ok"]]
    shell.bike.set("observe-async", "@daily")
    shell.bike.backfill("observe-async", DAY, DAY + 86400, at_once=1)
    wait_until(lambda: shell.log().count("async ") == 4, 60)
    stop(worker)
    wanted = {"invoices for 0 users\n": 1, "reminders for 0 users\n": 1, "plain opens\n": 2, "async opens\n": 4}
    for line, number in wanted.items():
        assert shell.log().count(line) == number


def test_each_line_of_structlog_has_its_run(shell, save):
    save("parcels.py", more='@jobs.job("track")\nasync def track() -> None:\n    log.info("tracking")')
    worker = start_worker(shell, "parcels:jobs")
    rows = [("send:7", {"weight": 2.5}), ("send:8", {"weight": 31}), ("track", None)]
    assert run_jobs(shell, *rows) == [["ok"], ["retry", "failed"], ["ok"]]
    stop(worker)
    found = [json.loads(line) for line in re.findall(r"^work-1 +\| (\{.*)", shell.log(), re.MULTILINE)]
    assert sorted((each["job"], each["attempt"], each["event"], each.get("weight")) for each in found) == [
        ("send:7", 1, "sending", 2.5),
        ("send:8", 1, "sending", 31),
        ("send:8", 2, "sending", 31),
        ("track", 1, "tracking", None),
    ]
    assert {each["key"].partition("@")[0] for each in found} == {"send:7", "send:8", "track"}
    shown, [printed] = (
        json.loads(find_block("integrations", '{"weight"')),
        [each for each in found if each["job"] == "send:7"],
    )
    assert shown | {name: printed[name] for name in ("key", "timestamp")} == printed


def test_sentry_is_told_of_an_error_when_no_try_is_left(shell, save):
    save("invoices.py", more=REMIND)
    with serve() as pinged:
        shell.environment["SENTRY_DSN"] = pinged.url.replace("://", "://key@") + "/1"
        worker = start_worker(shell, "invoices:jobs")
        rows = [("charge:1", {"amount": 5}), ("charge:2", {"amount": 0}), ("remind", None)]
        assert run_jobs(shell, *rows) == [["ok"], ["retry", "failed"], ["ok"]]
        stop(worker)
    lines = [json.loads(line) for _, body in pinged.posted for line in body.splitlines() if line]
    # An item of an envelope is a line that says what it is, and then that.
    events = [item for header, item in pairwise(lines) if header.get("type") == "event"]
    [event] = events
    [error] = event["exception"]["values"]
    assert (error["type"], error["value"]) == ("ValueError", "no amount: 0")
    assert event["tags"] == {"job": "charge:2", "queue": "work-charge"}
    assert event["contexts"]["run"]["attempt"] == 2
    assert event["contexts"]["run"]["key"].startswith("charge:2@")


def read_spans(pinged):
    """The spans of all requests to a collector, by their names, with their attributes as a dict."""
    spans = {}
    assert {*pinged.called} == {"/v1/traces"}
    for _, body in pinged.posted:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for span in (span for scope in resource.scope_spans for span in scope.spans):
                spans.setdefault(span.name, []).append((span, {each.key: each.value for each in span.attributes}))
    return spans


def test_a_collector_has_the_spans_of_runs_with_their_links_durations_and_errors(shell, save):
    save("shipping.py")
    save("checkout.py")
    with serve() as pinged:
        shell.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = pinged.url
        worker = start_worker(shell, "shipping:jobs")
        done = run_line(shell, "python checkout.py")
        assert (done.returncode, done.stderr) == (0, "")
        wait_until(lambda: sorted(run.outcome for run in shell.bike.runs()) == ["failed", "ok", "ok", "retry"], 60)
        stop(worker)
    spans = read_spans(pinged)
    [(checkout, _)] = spans["checkout"]
    runs = spans["process work-ship"] + spans["process work-notify"]
    assert len(runs) == 4
    for run, own in runs:
        assert (run.kind, run.parent_span_id) == (run.SPAN_KIND_CONSUMER, b"")
        assert [(link.trace_id, link.span_id) for link in run.links] == [(checkout.trace_id, checkout.span_id)]
        [child] = [child for name in ("print label", "send mail") for child, _ in spans[name]
                   if child.parent_span_id == run.span_id]  # fmt: skip
        assert child.trace_id == run.trace_id != checkout.trace_id
        assert run.start_time_unix_nano <= child.start_time_unix_nano < child.end_time_unix_nano
        assert child.end_time_unix_nano <= run.end_time_unix_nano
        is_error = own["messaging.redbike.outcome"].string_value in ("retry", "failed")
        assert (run.status.code, run.status.message) == ((2, "ValueError: no order: 0") if is_error else (0, ""))
        assert [event.name for event in run.events] == ["exception"] * is_error
    found = [(own["messaging.redbike.job.id"].string_value, own["messaging.redbike.outcome"].string_value,
              own["messaging.redbike.message.delivery_attempt"].int_value) for _, own in runs]  # fmt: skip
    assert sorted(each[1:] for each in found) == [("failed", 2), ("ok", 1), ("ok", 1), ("retry", 1)]
    assert {each[0] for each in found if each[1] != "ok"} == {"ship:0"}
    [(notified, _)] = spans["process work-notify"]
    assert notified.end_time_unix_nano - notified.start_time_unix_nano >= 10_000_000
