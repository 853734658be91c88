"""A client that a generator makes of ``openapi.json`` sets, runs, lists and tails, in a process of its own."""

import json
import subprocess
import sys

import pytest

from tests.serving import get, get_port, start_page

PROGRAM = """
import json, sys

import httpx
from redbike_client import AuthenticatedClient
from redbike_client.api.default import (
    cancel_job, list_jobs, list_runs_of_job, pause_job, resume_job, run_job, set_job, tell_job, unset_job,
)
from redbike_client.models import CancelJobBody, Options, PauseJobBody, Problem, ResumeJobBody, RunJobBody, SetJobBody

url, token = sys.argv[1:]
job = "etl/1:A"
with AuthenticatedClient(base_url=url, token=token) as client:
    wanted = SetJobBody(schedule="EVERY:1h", options=Options(retries=2))
    made = set_job.sync_detailed(job, client=client, body=wanted)
    assert (made.status_code, made.parsed.schedule[:8]) == (201, "EVERY:1h"), made
    with client.get_httpx_client().stream("GET", "/events", params={"pattern": "etl*"}, timeout=60) as stream:
        lines = stream.iter_lines()
        while next(lines) != "event: listening":
            pass
        assert run_job.sync(job, client=client, body=RunJobBody()).word == "queued"
        while next(lines) != "event: run":
            pass
        event = json.loads(next(lines).removeprefix("data: "))
    runs = list_runs_of_job.sync(job, client=client).items
    assert [run.jobid for run in runs] == [event["jobid"]] == [job], runs
    assert runs[0].outcome == event["event"]
    assert [each.jobid for each in list_jobs.sync(client=client, pattern=["etl*"], limit=5).items] == [job]
    assert pause_job.sync(job, client=client, body=PauseJobBody(reason="why not")).word in ("paused", "held")
    assert tell_job.sync(job, client=client).paused
    resume_job.sync(job, client=client, body=ResumeJobBody())
    assert cancel_job.sync(job, client=client, body=CancelJobBody()).word == "idle"
    assert unset_job.sync_detailed(job, client=client).status_code == 204
    gone = tell_job.sync(job, client=client)
    assert isinstance(gone, Problem) and gone.detail == f"no such job: {job!r}", gone
    print("done")
"""


@pytest.mark.acceptance
def test_a_generated_client_sets_runs_lists_and_tails(shell):
    generator = pytest.importorskip("openapi_python_client")
    assert generator
    secret = shell.run("token", "add", "ci", "--role=write").stdout.strip()
    _, url = start_page(shell, "--listen=127.0.0.1:0", "--api", "--write")
    status, text, _ = get(get_port(url), "/api/openapi.json", Authorization=f"Bearer {secret}")
    assert (status, json.loads(text)["openapi"]) == (200, "3.1.0")
    (shell.folder / "redbike.json").write_text(text)
    (shell.folder / "config.yml").write_text("package_name_override: redbike_client\npost_hooks: []\n")
    command = ["openapi_python_client", "generate", "--path=redbike.json", "--config=config.yml", "--meta=none"]
    made = subprocess.run(
        [sys.executable, "-m", *command, "--output-path=redbike_client", "--fail-on-warning"],
        cwd=shell.folder, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    (shell.folder / "program.py").write_text(PROGRAM)
    shell.start("up", "tests.verbs:Quiet('A')")
    done = subprocess.run(
        [sys.executable, "program.py", f"{url}api", secret],
        cwd=shell.folder, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert {row[1] for row in shell.list_rows("log")} >= {"ci (api@127.0.0.1)"}
