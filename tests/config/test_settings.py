"""Settings: defaults, files, environment, and worker specifications."""

import re

import pytest

from redbike.config.definitions import SETTINGS
from redbike.config.file import examine, load
from redbike.errors import BadConfig
from redbike.loop.worker_class import RoundRobin
from redbike.worker.loader import load_worker
from tests.commandline import ROOT


@pytest.fixture
def conf(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(text, name=".redbike.conf"):
        (tmp_path / name).write_text(text)

    return write


def test_the_command_line_counts_before_the_environment_before_the_file(conf):
    conf("[redbike]\nworker: a:B\nprefix: file\n[redbike-redis]\nurl: redis://file\n[other]\nwhatever: %s\n")
    assert load(None, {}).redis == "redis://file"
    assert load(None, {"REDIS_URL": "redis://second"}).redis == "redis://second"
    assert load(None, {"REDIS_URL": "redis://second", "REDBIKE_URL": "redis://first"}).redis == "redis://first"
    assert load(None, {"REDBIKE_URL": "redis://first"}, url="redis://line").redis == "redis://line"
    assert load(None, {}, worker="c:D").settings.worker == "c:D"
    assert load(None, {}, worker=None).settings.worker == "a:B"
    assert load(None, {}).settings.prefix == "file"


def test_relative_names_in_a_file_count_from_its_folder(conf, tmp_path, monkeypatch):
    conf("[redbike]\ntimefile: time\n[redbike-redis]\nurl: embedded:data\n", "farm.conf")
    monkeypatch.chdir("/")
    config = load(str(tmp_path / "farm.conf"), {})
    assert (config.settings.timefile, config.redis) == (str(tmp_path / "time"), f"embedded:{tmp_path / 'data'}")
    elsewhere = load(str(tmp_path / "farm.conf"), {"REDBIKE_TIMEFILE": "time", "REDBIKE_URL": "embedded:data"})
    assert (elsewhere.settings.timefile, elsewhere.redis) == ("time", "embedded:data")
    for absolute in ("embedded:", "embedded:/data", "redis://data"):
        conf(f"[redbike]\ntimefile: /time\n[redbike-redis]\nurl: {absolute}\n", "farm.conf")
        config = load(str(tmp_path / "farm.conf"), {})
        assert (config.settings.timefile, config.redis) == ("/time", absolute)


MISSPELT = {
    "REDBIKE_RETRYS": "REDBIKE_RETRIES",
    "REDBIKE_TIME_ZONE": "REDBIKE_TIMEZONE",
    "REDBIKE_prefix": "REDBIKE_PREFIX",
    "REDBIKE_ULR": "REDBIKE_URL",
    "REDBIKE_WEBTOKEN": "REDBIKE_WEB_TOKEN",
}
# What Kubernetes sets for services of these names.
SERVICES = [
    f"REDBIKE{name}_{word}"
    for name in ("", "_DISPATCHER", "_METRICS", "_SERVER", "_URL", "_WEB", "_WORKER")
    for word in ("PORT", "PORT_80_TCP", "PORT_80_TCP_ADDR", "PORT_80_TCP_PORT", "SERVICE_HOST", "SERVICE_PORT")
]


@pytest.mark.parametrize("name", MISSPELT)
def test_a_misspelt_variable_is_a_warning_without_its_value(name):
    said = f"the variable {name!r} is ignored; is {MISSPELT[name]!r} meant?"
    assert load(None, {name: "secret"}).warnings == (said,)
    assert examine(None, {name: "secret"}).config.warnings == (said,)
    assert load(None, {name: "", f"MY_{name}": "secret"}).warnings == ()


def test_variables_of_redbike_and_of_others_are_no_warning():
    texts = (path for folder in ("redbike", "docs", "deploy") for path in (ROOT / folder).rglob("*") if path.is_file())
    named = [re.findall(rb"REDBIKE_[A-Z_]*[A-Z]", path.read_bytes()) for path in texts if path.suffix != ".pyc"]
    names = {name.decode() for found in named for name in found} - {
        *MISSPELT,
        *(f"REDBIKE_{name.upper()}" for name in SETTINGS),
    }
    assert {"REDBIKE_ERROR", "REDBIKE_TEST_URL", "REDBIKE_SUPERVISED", "REDBIKE_IMAGE"} < names
    assert (
        examine(None, dict.fromkeys([*names, *SERVICES, "REDBIKE_TOKEN", "REDBIKE_HOSTNAME"], "x")).config.warnings
        == ()
    )


def test_a_byte_order_mark_and_percent_signs_are_nothing_special(conf, tmp_path):
    (tmp_path / ".redbike.conf").write_bytes(b"\xef\xbb\xbf[redbike]\nworker: a:B('%(x)s %d')\n")
    assert load(None, {}).settings.worker == "a:B('%(x)s %d')"


def test_an_unknown_key_is_named_with_its_neighbour(conf):
    conf("[redbike]\non-eror: stop\n")
    with pytest.raises(BadConfig, match=r"'on-eror'.*'on-error'"):
        load(None, {})


@pytest.mark.parametrize(
    ("text", "line"), [("password: hunter2\n", 1), ("[redbike-redis]\nhost: h\nredis//u hunter2\n", 3)]
)
def test_a_line_that_is_none_is_named_without_showing_it(conf, text, line):
    conf(text)
    with pytest.raises(BadConfig, match=f"line {line} ") as refused:
        load(None, {})
    assert "hunter2" not in str(refused.value)


def test_a_worker_is_an_import_path_with_literal_arguments(conf, tmp_path):
    (tmp_path / "mine_literal.py").write_text(
        "from redbike import RoundRobin\n"
        "class Mine(RoundRobin):\n"
        "    def __init__(self, queues='A', *, more=None):\n"
        "        super().__init__(queues)\n"
        "        self.more = more\n"
    )
    assert load_worker("mine_literal:Mine").queue_names() == ["work-A"]
    worker = load_worker("mine_literal:Mine('B:C', more=[1, {'x': None}])")
    assert worker.queue_names() == ["work-B", "work-C"]
    assert worker.more == [1, {"x": None}]
    assert isinstance(load_worker("redbike:RoundRobin('A')"), RoundRobin)


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "redbike:",
        "redbike:RoundRobin(",
        "redbike:RoundRobin('A') or 1",
        "redbike:RoundRobin(open('pwned', 'w'))",
        "redbike:RoundRobin(*['A'])",
        "redbike:RoundRobin(**{'initstring': 'A'})",
        "redbike:__import__('os').system('touch pwned')",
        "os:system('touch pwned')",
        "redbike:Redbike('A')",
        "redbike:nothing('A')",
        "nowhere.at.all:Worker('A')",
        "redbike:RoundRobin()",
        "redbike:RoundRobin" + "(" * 10_000,
        "\0:x",
    ],
)
def test_what_is_none_is_quoted_and_not_run(conf, tmp_path, spec):
    with pytest.raises(BadConfig) as refused:
        load_worker(spec)
    quoted = re.match(r"[\w.:]*", spec)[0]
    assert f"bad worker '{quoted}" in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    "spec",
    [
        "nomod:W('A', api_key='hunter2')",
        "nomod:W('A', api_key='hunter2'",
        "nomod.W('A', api_key='hunter2')",
        "nomod W('A', api_key='hunter2')",
        "mine_secret:Nobody('A', api_key='hunter2')",
        "mine_secret:Bare('A', api_key='hunter2')",
        "mine_secret:Fussy('A', api_key='hunter2')",
        "mine_secret:Fussy('A', {'keys': ('hunter2',)})",
        "mine_secret:Fussy('hunter2')",
        "mine_secret:Fussy('A', 'x', more='hunter2')",
    ],
)
def test_no_argument_of_a_worker_is_ever_shown(conf, tmp_path, spec):
    (tmp_path / "mine_secret.py").write_text(
        "from redbike import RoundRobin\n"
        "class Bare:\n"
        "    pass\n"
        "class Fussy(RoundRobin):\n"
        "    def __init__(self, queues='A', api_key=None):\n"
        "        raise ValueError(f'refused: {api_key!r} {api_key} for {queues}/x')\n"
    )
    with pytest.raises(BadConfig) as refused:
        load_worker(spec)
    assert "hunter2" not in str(refused.value)
    assert re.split(r"\W", spec)[0] in str(refused.value)


def test_our_own_workers_say_which_queue_or_file_is_wrong(conf):
    with pytest.raises(BadConfig, match=r"RoundRobin\(…\)': bad queues 'A:'"):
        load_worker("redbike:RoundRobin('A:')")
    with pytest.raises(BadConfig, match=r"Commands\(…\)': bad file name 3"):
        load_worker("redbike.commands:Commands('A', 3)")
