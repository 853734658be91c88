"""``/api/openapi.json``: it is valid, has each route, answers fit its schemas, and generators make clients of it."""

import json
import shutil
import subprocess
import sys

import pytest

from redbike.config.definitions import OPTIONS
from redbike.web import app
from redbike.web.api.routes import ROUTES
from tests.pages import find_block
from tests.serving import get, get_port, start_page
from tests.web.api import JOB, Api, list_requests


@pytest.fixture
def api(bike):
    return Api(app(bike, write=True, api=True, show_data=True))


def test_the_document_is_valid_and_has_all_that_can_be_asked(api):
    from openapi_spec_validator import OpenAPIV31SpecValidator  # takes seconds: only where it is needed

    _, document = api.ask("GET", "/openapi.json")
    assert [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()] == []
    described = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    assert described == {(route.method, route.path) for route in ROUTES} | {("GET", "/events")}
    names = [each["operationId"] for item in document["paths"].values() for each in item.values()]
    assert len(names) == len({*names})
    assert document["components"]["schemas"]["Options"]["properties"].keys() == OPTIONS.keys()
    assert document["servers"] == [{"url": "/api"}]


def test_what_is_answered_fits_its_schema(bike, api):
    from jsonschema import Draft202012Validator

    _, document = api.ask("GET", "/openapi.json")
    components = {"components": document["components"]}
    for route, path, body in list_requests():
        bike.limit("A", at_once=3)
        bike.set(JOB, "EVERY:1h", retries=1, data={"error": "no"})
        bike.run(JOB)
        bike.work_one()
        bike.pause(JOB)
        described = document["paths"][route.path][route.method.lower()]
        status, found = api.ask(route.method, path, body)
        reply = described["responses"][str(status)]
        if status != 204:
            schema = reply["content"]["application/json"]["schema"]
            Draft202012Validator(schema | components).validate(found)
        if body is not None:
            given = described["requestBody"]["content"]["application/json"]["schema"]
            Draft202012Validator(given | components).validate(body)


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
    assert unset_job.sync(job, client=client).word == "unset"
    gone = tell_job.sync(job, client=client)
    assert isinstance(gone, Problem) and gone.detail == f"no such job: {job!r}", gone
    print("done")
"""


TYPESCRIPT = r"""
import createClient from "openapi-fetch";
import type { components, paths } from "./redbike.js";

const [url, token] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${token}` };
const client = createClient<paths>({ baseUrl: url, headers });
const params = { path: { id: "etl/1:A" } };

function check<T>(found: T | undefined, is: (value: T) => boolean): T {
  if (found === undefined || !is(found)) throw new Error(JSON.stringify(found));
  return found;
}

const body = { schedule: "EVERY:1h", options: { retries: 2 } };
check((await client.PUT("/jobs/{id}", { params, body })).data, (job) => job.jobid === "etl/1:A");
const stream = (await fetch(`${url}/events?pattern=etl*`, { headers })).body!.pipeThrough(new TextDecoderStream());
let heard = "";
async function wait(words: RegExp) {
  for await (const part of stream.values({ preventCancel: true })) {
    heard += part;
    if (words.test(heard)) return;
  }
}
await wait(/event: listening/);
check((await client.POST("/jobs/{id}/run", { params, body: {} })).data, (done) => done.word === "queued");
await wait(/event: run\ndata: .*\n/);
const event: components["schemas"]["Event"] = JSON.parse(heard.split("event: run\ndata: ")[1].split("\n")[0]);
const runs = check((await client.GET("/jobs/{id}/runs", { params })).data, (page) => page.items.length === 1);
check(runs.items[0], (run) => run.jobid === event.jobid && run.outcome === event.event);
const query = { pattern: ["etl*"] };
check((await client.GET("/jobs", { params: { query } })).data, (page) => page.items.length === 1);
check((await client.DELETE("/jobs/{id}", { params })).data, (done) => done.word === "unset");
check((await client.GET("/jobs/{id}", { params })).error, (problem) => problem.status === 404);
console.log("done");
process.exit(0);
"""


@pytest.fixture
def described(shell):
    """The address of an API, and a token for it; what describes it is in ``redbike.json``."""
    secret = shell.run("token", "add", "ci", "--role=write").stdout.strip()
    _, url = start_page(shell, "--listen=127.0.0.1:0", "--api", "--write")
    status, text, _ = get(get_port(url), "/api/openapi.json", Authorization=f"Bearer {secret}")
    assert (status, json.loads(text)["openapi"]) == (200, "3.1.0")
    (shell.folder / "redbike.json").write_text(text)
    shell.start("up", "tests.verbs:Quiet('A')")
    return f"{url}api", secret


def run(shell, *command, timeout=120):
    """What it has printed."""
    done = subprocess.run(
        command, cwd=shell.folder, capture_output=True, text=True, check=False, timeout=timeout
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.acceptance
@pytest.mark.skipif(not shutil.which("npm"), reason="npm is not installed")
def test_a_generated_client_in_typescript_does_so_too(shell, described):
    (shell.folder / "package.json").write_text('{"type": "module"}')
    packages = ("openapi-typescript@7", "openapi-fetch@0.14", "typescript@5", "@types/node@22")
    try:
        run(shell, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *packages, timeout=240)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"npm cannot install the generator: {error!s:.200}")
    run(shell, "npx", "openapi-typescript", "redbike.json", "-o", "redbike.d.ts")
    (shell.folder / "program.ts").write_text(TYPESCRIPT.replace("\\\n", "\n"))
    options = ("--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck")
    run(shell, "npx", "tsc", *options, "program.ts")
    assert run(shell, "node", "program.js", *described) == "done\n"


@pytest.mark.acceptance
def test_a_generated_client_sets_runs_lists_and_tails(shell, described):
    pytest.importorskip("openapi_python_client")
    generate = find_block("api", "$ curl -o redbike.json").splitlines()[1]
    assert generate == "$ openapi-python-client generate --path redbike.json"
    (shell.folder / "config.yml").write_text("package_name_override: redbike_client\npost_hooks: []\n")
    command = ["openapi_python_client", "generate", "--path=redbike.json", "--config=config.yml", "--meta=none"]
    run(shell, sys.executable, "-m", *command, "--output-path=redbike_client", "--fail-on-warning")
    (shell.folder / "program.py").write_text(PROGRAM)
    assert run(shell, sys.executable, "program.py", *described) == "done\n"
    assert {row[1] for row in shell.list_rows("log")} >= {"ci (api@127.0.0.1)"}
