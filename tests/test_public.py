"""What programs see: the signature, and mistakes in a program that are told at once."""

import dataclasses
import inspect
import subprocess
import sys

import pytest

from redbike import BadConfig, Redbike, RoundRobin
from redbike.config import CHOICES, Settings
from tests.commandline import ROOT


@pytest.fixture
def bike(client, prefix):
    return Redbike(RoundRobin("A"), prefix, client)


def test_every_setting_is_an_argument_by_its_name_with_its_default():
    arguments = dict(inspect.signature(Redbike).parameters)
    worker, server, noted_as = (arguments.pop(name) for name in ("worker", "redis_config", "noted_as"))
    assert (worker.default, server.default, noted_as.default) == (inspect.Parameter.empty, None, None)
    settings = {field.name: field.default for field in dataclasses.fields(Settings) if field.name != "worker"}
    assert {name: argument.default for name, argument in arguments.items()} == settings
    assert all(argument.kind is not inspect.Parameter.VAR_KEYWORD for argument in arguments.values())


def test_every_setting_that_is_given_counts(client):
    others = {"prefix": "other", "timezone": "Europe/Berlin", "timefile": "time", "ping_url": "http://host"}
    for field in dataclasses.fields(Settings):
        if isinstance(field.default, int | float):
            others[field.name] = field.default + 1
        elif field.name in CHOICES:
            others[field.name] = CHOICES[field.name][-1]
    assert others.keys() == {field.name for field in dataclasses.fields(Settings)} - {"worker"}
    assert Redbike(RoundRobin("A"), redis_config=client, **others).settings == Settings(**others)


def test_a_mistyped_setting_or_name_is_an_error_for_python_and_for_type_checkers(client, prefix, tmp_path):
    with pytest.raises(TypeError, match="on_eror"):
        Redbike(RoundRobin("A"), prefix, client, on_eror="stop")
    (tmp_path / "wrong.py").write_text(
        "import redbike\nfrom redbike import Redbike, RoundRobin\nRedbike(RoundRobin('A'), on_eror='stop')\n"
        "redbike.Redbik\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path), str(tmp_path / "wrong.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 'Unexpected keyword argument "on_eror"' in done.stdout
    assert 'Module has no attribute "Redbik"' in done.stdout


class Partial:
    def queue_for(self, jobid):
        return "work-A"


@pytest.mark.parametrize(
    ("worker", "said"),
    [
        (RoundRobin, "RoundRobin is a class, an instance is needed"),
        (Partial(), r"Partial has no method queue_names\(\)"),
        (None, "NoneType has no method"),
        ("jobs:Worker('A')", "str has no method"),
    ],
)
def test_what_is_no_worker_is_refused_at_once(client, prefix, worker, said):
    with pytest.raises(BadConfig, match=said):
        Redbike(worker, prefix, client)
    with pytest.raises(BadConfig, match=said):
        Redbike.from_settings(worker, Settings(prefix=prefix), client)


@pytest.mark.parametrize("schedule", [7, 1.5, b"NOW", ["NOW"], {}, False])
def test_a_schedule_that_is_no_text_is_a_type_error_and_leaves_nothing_behind(bike, schedule):
    for call in (bike.set, bike.enter):
        with pytest.raises(TypeError, match="a schedule is a text, a datetime,"):
            call("job:A", schedule)
    with pytest.raises(TypeError, match="a schedule is a text, a datetime,"):
        list(bike.set_many([("first:A", "NOW"), ("job:A", schedule)]))
    assert list(bike.get_statuses()) == []


def test_none_still_unsets(bike):
    bike.set("job:A", "EVERY:1h")
    assert bike.set("job:A", None) is True
    bike.set("job:A", "EVERY:1h")
    assert list(bike.set_many([("job:A", None)])) == [("job:A", True)]
    assert list(bike.get_schedules()) == []
