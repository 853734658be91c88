"""What the files of deploy/ say agrees with Redbike and with each other. The checks try them for real."""

import configparser
import json
import os
import re
import subprocess
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from redbike import Redbike, RoundRobin
from redbike.config.file import load
from redbike.store.enums import Outcome, Skip
from tests.commandline import ROOT, Shell
from tests.pages import run_line, write

DEPLOY = ROOT / "deploy"
SYSTEMD, DOCKER, KUBERNETES = DEPLOY / "systemd", DEPLOY / "docker", DEPLOY / "kubernetes"
PAGE = (ROOT / "docs" / "deployment.rst").read_text()
RULES = (DEPLOY / "prometheus" / "alerts.yaml").read_text()
SERVICES = sorted(SYSTEMD.glob("*.service"))
ALIVE = DOCKER / "redbike-alive"
EXAMPLES = [DOCKER / "app" / ".redbike.conf", SYSTEMD / "redbike.conf.example", *KUBERNETES.rglob(".redbike.conf")]


def protection(unit: str) -> list[str]:
    lines = unit.partition("# Protection")[2].partition("\n\n")[0].splitlines()[1:]
    assert len(lines) > 20
    return lines


def test_all_units_have_the_same_protection_and_the_same_places():
    units = {file.name: file.read_text() for file in SERVICES}
    assert len(units) == 5
    assert len({tuple(protection(unit)) for unit in units.values()}) == 1
    for unit in units.values():
        for line in ("WorkingDirectory=/etc/redbike", "EnvironmentFile=/etc/redbike/redbike.env", "User=redbike"):
            assert f"\n{line}\n" in unit
        [command] = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
        assert command.startswith("/opt/redbike/bin/redbike --config=/etc/redbike/redbike.conf ")


def test_the_units_of_loops_have_a_watchdog_and_do_not_repeat_bad_input():
    for name in ("redbike-dispatcher.service", "redbike-worker@.service"):
        lines = (SYSTEMD / name).read_text().splitlines()
        wanted = {"Type=notify", "WatchdogSec=30", "Restart=on-failure", "RestartPreventExitStatus=2"}
        assert wanted <= set(lines)


def list_queries() -> list[str]:
    """The queries of the dashboard."""
    board = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def test_alarms_and_dashboard_ask_for_figures_that_there_are(client, prefix):
    bike = Redbike(RoundRobin("A"), prefix, client)
    bike.set("job:A", "NOW")
    families = list(text_string_to_metric_families(bike.metrics()))
    labels = {sample.name: {*sample.labels, "job", "instance"} for family in families for sample in family.samples}
    values = {*Outcome, *Skip, "alive", "lost", "dispatcher", "worker", "$job", "60.0"}
    records = set(re.findall(r"record: (\S+)", RULES))
    timers = re.findall(r"expr: (.*(?:\n {10,}.*)*)", RULES)
    assert len(timers) == RULES.count("- alert: ") + RULES.count("- record: ") > 20
    for query in (*timers, *list_queries(), "label_values(redbike_up, job)"):
        asked = re.findall(r"(redbike_\w+)(?:\{([^}]*)\})?", query)
        recorded = re.findall(r"redbike:[\w:]+", query)
        assert asked or recorded, query
        assert set(recorded) <= records, query
        for name, selector in asked:
            assert name in labels, query
            for label, value in re.findall(r'(\w+)=~?"([^"]*)"', selector):
                assert label in labels[name], query
                assert set(value.split("|")) <= values, query
        grouped = {name for group in re.findall(r"by \(([^)]*)\)", query) for name in group.split(", ")}
        assert grouped <= set().union(*(labels[name] for name, _ in asked)), query


def test_the_panels_of_the_dashboard_do_not_overlap():
    board = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
    cells = [
        (place["x"] + across, place["y"] + down)
        for place in (panel["gridPos"] for panel in board["panels"])
        for across in range(place["w"])
        for down in range(place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert {x for x, _ in cells} == set(range(24))
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_a_worker_has_more_time_to_stop_than_its_jobs():
    timeout = load(None, {}).settings.default_timeout
    unit = (SYSTEMD / "redbike-worker@.service").read_text()
    assert float(re.search(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)[1]) > timeout
    pod = (KUBERNETES / "base" / "worker.yaml").read_text()
    assert float(re.search(r"terminationGracePeriodSeconds: (\d+)", pod)[1]) > timeout
    for grace in re.findall(r"stop_grace_period: (\d+)s", (DOCKER / "compose.yaml").read_text()):
        assert float(grace) > timeout


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: str(file.relative_to(DEPLOY)))
def test_the_config_files_are_right(file):
    config = load(str(file), {})
    assert list(config.warnings) == []
    parser = configparser.ConfigParser()
    parser.read(file)
    assert parser["redbike"]["worker"] == config.settings.worker == "jobs:Worker('A')"


@pytest.mark.acceptance
def test_the_example_of_a_worker_class_works(shell):
    for place in (DOCKER / "app", KUBERNETES / "base"):
        for name in (".redbike.conf", "jobs.py"):
            (shell.folder / name).write_text((place / name).read_text())
        assert shell.run("set", "hello:A", "NOW").returncode == 0
        worker = f"jobs.Worker('A'), redis_config={shell.environment['REDBIKE_URL']!r}"
        write(shell, "program.py", f"import jobs\nfrom redbike import Redbike\nRedbike({worker}).work_one()\n")
        assert run_line(shell, "python program.py").stdout == "working hello:A\n"


def test_no_example_has_a_url_that_redbike_accepts(tmp_path):
    texts = [
        re.search(r"REDBIKE_URL: (.*)", (KUBERNETES / "base" / "secret.example.yaml").read_text())[1],
        re.search(r'REDBIKE_URL="(.*)"', (SYSTEMD / "redbike.env.example").read_text())[1],
    ]
    for text in texts:
        done = Shell(tmp_path, text).run("dispatch")
        assert done.returncode == 2
        assert "bad url" in done.stderr
    assert "secret.example.yaml" not in re.findall(r"- (.*)", (KUBERNETES / "base" / "kustomization.yaml").read_text())


def test_autoscalers_ask_for_the_load_that_is_recorded_of_their_own_prefix_and_queue():
    queue, recorded = RoundRobin("A").queue_for("job:A"), "redbike:queue_load:jobs"
    files = {
        name: (KUBERNETES / "components" / name).read_text() for name in ("keda/scaledobject.yaml", "hpa/hpa.yaml")
    }
    assert f"record: {recorded}\n" in RULES
    assert f'query: sum({recorded}{{prefix="redbike",queue="{queue}"}})\n' in files["keda/scaledobject.yaml"]
    example = KUBERNETES / "overlays" / "example"
    prefix = load(str(example / ".redbike.conf"), {}).settings.prefix
    query = f'value: sum({recorded}{{prefix="{prefix}",queue="{queue}"}})\n'
    assert query in (example / "kustomization.yaml").read_text()
    hpa = files["hpa/hpa.yaml"]
    assert f"prefix: redbike\n              queue: {queue}\n" in hpa
    assert recorded in hpa
    assert len(re.findall("redbike_queue_load", hpa)) == 3, "the adapter provides what the autoscaler asks for"
    for text in (*files.values(), PAGE):
        assert "llen" not in text.lower()
        assert "listName" not in text


def is_alive(*arguments: str, **environment: str) -> int:
    command = ["sh", str(ALIVE), *arguments]
    return subprocess.run(
        command, env={"PATH": "/usr/bin:/bin", **environment}, capture_output=True, check=False
    ).returncode


def test_a_container_is_alive_while_its_file_is_young(tmp_path):
    file = tmp_path / "alive"
    assert is_alive() != 0
    assert is_alive(REDBIKE_WATCHDOG_FILE=str(file)) == 1
    file.touch()
    assert is_alive(REDBIKE_WATCHDOG_FILE=str(file)) == 0
    old = time.time() - 40
    os.utime(file, (old, old))
    assert is_alive(REDBIKE_WATCHDOG_FILE=str(file)) == 1
    assert is_alive("60", REDBIKE_WATCHDOG_FILE=str(file)) == 0


def test_every_file_is_named_by_a_kustomization_or_by_the_page():
    for folder in (file.parent for file in KUBERNETES.rglob("kustomization.yaml")):
        listed = (folder / "kustomization.yaml").read_text()
        for file in folder.iterdir():
            assert file.name == "kustomization.yaml" or f"- {file.name}\n" in listed or f"``base/{file.name}``" in PAGE


def test_an_init_program_is_process_1_of_the_image_also_in_pods():
    assert '\nENTRYPOINT ["tini", "--", "redbike"]\n' in (DOCKER / "Dockerfile").read_text()
    # It would take the place of the entry point.
    assert not any("\n          command:" in file.read_text() for file in KUBERNETES.rglob("*.yaml"))
    assert "entrypoint:" not in (DOCKER / "compose.yaml").read_text()


def test_lines_are_short():
    for file in DEPLOY.rglob("*"):
        # Grafana writes the dashboard.
        if file.is_file() and "__pycache__" not in file.parts and file.suffix != ".json":
            assert [line for line in file.read_text().splitlines() if len(line) > 100] == [], file
