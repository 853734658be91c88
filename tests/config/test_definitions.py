"""Each setting and option has one row: whatever is written out elsewhere agrees with it."""

import dataclasses
import inspect
import re
from collections.abc import Collection
from typing import Literal, get_type_hints

import pytest

from redbike import BadConfig, JobOptions, KeywordSettings, Limit, Limits, Redbike, RoundRobin, Settings
from redbike.cli.usage import GENERAL, Usage
from redbike.cli.usage_text import TEXT as text
from redbike.config.definitions import NO_OR_YES, OPTIONS, PARAMETERS, SETTINGS
from redbike.config.file import examine, load
from redbike.config.options import COLUMNS, read_changes
from redbike.config.queue_limits import LIMITS
from tests.commandline import ROOT

PAGE, _, OPTIONS_PAGE = (ROOT / "docs" / "configuration.rst").read_text().partition("Options of a job\n")
PYTHON = {
    "duration": float,
    "count": int,
    "share": float,
    "url": str,
    "traceparent": str,
    "clock": str,
    "group": str,
    "tags": str | Collection[str],
    "line": str,
    "size": int,
    "text": str,
}
# For each setting, a value that is not its default, as a text and as it is read.
OTHERS = {
    key: {
        "duration": ("7", 7.0),
        "count": ("7", 7),
        "share": ("0.5", 0.5),
        "size": ("16k", 16384),
        "choice": (row.choices[-1:] * 2),
        "url": ("http://h/x",) * 2,
    }.get(row.kind, ("other", "other"))
    for key, row in SETTINGS.items()
} | {"timezone": ("Europe/Berlin",) * 2, "overlap": ("queue",) * 2, "forget_after": ("never",) * 2}


def allow(row, other=None):
    """The type of its values; with `other`, where a text is taken for a number as well."""
    kind = Literal[row.choices] if row.choices else PYTHON[row.kind]
    kind = kind | str if row.endless or row.kind == "size" or (other and row.kind == "duration") else kind
    kind = kind | bool if row.choices == NO_OR_YES else kind
    return kind | None if row.default is None or other else kind


def test_the_settings_have_their_types_and_defaults():
    fields = {field.name: field.default for field in dataclasses.fields(Settings)}
    assert fields == {key: row.default for key, row in SETTINGS.items()}
    assert get_type_hints(Settings) == {key: allow(row) for key, row in SETTINGS.items()}


def test_python_takes_each_by_its_name_and_type():
    taken = {key: allow(row) for key, row in SETTINGS.items()}
    named = {"prefix", "worker", "timefile", "default_timeout"}  # these are arguments in their own right
    assert get_type_hints(KeywordSettings) == {key: kind for key, kind in taken.items() if key not in named}
    options = get_type_hints(JobOptions)
    del options["data"]
    assert options == {row.key: allow(row, "text") for row in OPTIONS.values()}
    assert [*JobOptions.__annotations__] == [name.replace("-", "_") for name in COLUMNS[2:]]
    arguments = dict(inspect.signature(Redbike).parameters)
    worker, server, noted_as = (arguments.pop(name) for name in ("worker", "redis_config", "noted_as"))
    assert (worker.default, server.default, noted_as.default) == (inspect.Parameter.empty, None, None)
    # The environment may name the prefix.
    defaults = {key: row.default for key, row in SETTINGS.items() if key != "worker"} | {"prefix": None}
    assert {name: argument.default for name, argument in arguments.items()} == defaults


def test_limits_have_one_list_of_names():
    assert LIMITS.keys() == Limits.__annotations__.keys() == Limit.__annotations__.keys()


BAD = {
    "duration": [-1, "soon", True, float("nan"), 10**10, [1]],
    "count": ["1.5", "-1", -1, 2.5, 10**8, "some", True],
    "share": ["half", "20%", "1/2", "", "-0.1", -0.1, 1.5, "1.5", True, float("nan"), [1]],
    "choice": ["explode", "s\u212aip", 7],
    "url": ["ftp://host", 7],
    "traceparent": [
        7,
        "",
        "4bf92f3577b34da6a3ce929d0e0e4736",
        f"00-{'0' * 32}-{'b7' * 8}-01",
        f"00-{'4b' * 16}-{'0' * 16}-01",
        f"ff-{'4b' * 16}-{'b7' * 8}-01",
        f"00-{'4B' * 16}-{'b7' * 8}-01",
        f"00-{'4b' * 16}-{'b7' * 8}-01-",
        f"00-{'4b' * 16}-{'b7' * 8}-01\n",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-" + "\u0667" * 16 + "-01",
    ],
    "clock": ["", "6", "24:00", "06:60", "06:00:00", "6:5", "\u0666:00", " 06:00", 6.5, 600, True],
    "group": [7, "", "a\nb", " a", "x" * 201, "ü" * 101, "\ud800"],
    "tags": ["a;b", "-x", "t" * 51, "\ud800", "a\0", 7, [7], {"a": 1}],
    "line": ["x" * 501, "two\nlines", "\ud800", "\x1b[1m", 7, ["a"]],
    "size": ["", "1.5k", "1g", "2m", "-1", -1, 1.5, 2**21, True, "\u0661", [1]],
    "text": [7],
}
MORE = {
    "prefix": ["", "a*", "x" * 129, None],
    "timezone": ["/etc/passwd", "localtime", "posix/Europe/Berlin", "right/UTC", "posixrules"],
    "timeout": [0, ""],
    "default_timeout": [0, ""],
    "max_losses": [0],
    "on_lost": ["retry"],
    "overlap": ["STOP", ""],
}


@pytest.mark.parametrize("row", PARAMETERS.values(), ids=lambda row: row.name)
def test_a_bad_value_is_quoted_in_one_line_whoever_gives_it(row):
    givers = [lambda value: Settings(**{row.key: value})] * row.is_setting
    givers += [lambda value: read_changes({row.name: value})] * row.is_option
    for value in BAD[row.kind] + MORE.get(row.key, []):
        for give in givers:
            with pytest.raises(BadConfig) as refused:
                give(value)
            assert str(refused.value).startswith(f"bad {row.name} {value!r}"[:60])
            assert len(str(refused.value).splitlines()) == 1


def test_every_setting_that_is_given_counts(client):
    others = {key: read for key, (_, read) in OTHERS.items() if key != "worker"}
    assert Redbike(RoundRobin("A"), redis_config=client, **others).settings == Settings(**others)


def test_set_has_a_flag_for_each_option():
    usage, others = Usage(text), {"--after", "--tz", "--data", "--except", *GENERAL}
    assert [name for name in usage.get_options("set") if name not in others] == [f"--{name}" for name in OPTIONS]
    for name, row in OPTIONS.items():
        words = f"{row.help}: {', '.join(row.choices)}" if row.choices else row.help
        # What other commands mean by the same flag may follow.
        assert usage.options[f"--{name}"].text.startswith(f"{words}.")


def test_the_page_has_every_setting_with_its_default():
    rows = re.findall(r"^``([a-z-]+)`` +(?:``)?([^` ]*?)(?:``)?  +\S", PAGE, re.MULTILINE)
    # Without a default of its own, the worker class decides.
    defaults = {row.name: row.default for row in SETTINGS.values()} | {"on-error": "stop", "on-timeout": "stop"}
    shown = {name: f"{value:g}" if isinstance(value, float | int) else value or "" for name, value in defaults.items()}
    assert dict(rows) == shown


def test_the_page_has_each_option_with_its_kind():
    section = OPTIONS_PAGE.partition("The server\n")[0]
    shared = {row.name for row in SETTINGS.values()} & OPTIONS.keys()
    [named] = re.findall(r"is an option, too, with the same meaning: (.*?)\. ", section, re.DOTALL)
    assert sorted(re.findall(r"``([a-z-]+)``", named)) == sorted(shared)
    rows = re.findall(r"^``([a-z-]+)`` +(\w+)", section.partition("\n===")[2], re.MULTILINE)
    kinds = {"duration": "duration", "traceparent": "text", "clock": "time"}
    kinds |= {"group": "name", "tags": "tags", "line": "text"}
    assert dict(rows) == {name: kinds[OPTIONS[name].kind] for name in OPTIONS.keys() - shared} | {"data": "JSON"}


def test_the_example_shows_every_setting_with_its_default():
    example = ROOT / "redbike.conf.example"
    assert load(str(example), {}).settings == Settings()
    shown = {line.partition(":")[0] for line in example.read_text().splitlines() if line and line[0].isalpha()}
    assert shown == {row.name for row in SETTINGS.values()} | {"url"}


@pytest.mark.parametrize("key", SETTINGS)
def test_the_environment_has_any_setting_and_counts_before_the_file(tmp_path, monkeypatch, key):
    monkeypatch.chdir(tmp_path)
    variable, default, (given, expected) = f"REDBIKE_{key.upper()}", getattr(Settings(), key), OTHERS[key]
    assert expected != default
    (tmp_path / ".redbike.conf").write_text(f"[redbike]\n{SETTINGS[key].name}: {default or ''}\n")
    for read in (load(None, {variable: given}), examine(None, {variable: given}).config):
        assert getattr(read.settings, key) == expected
        assert read.folder is None, "relative files of a worker are not beside the config that does not name it"
    assert getattr(load(None, {variable: ""}).settings, key) == default


@pytest.mark.parametrize("key", SETTINGS)
@pytest.mark.parametrize("sign", ["'", '"'])
def test_quotes_around_a_value_in_the_file_are_refused(tmp_path, key, sign):
    path, (given, expected) = tmp_path / "conf", OTHERS[key]
    path.write_text(f"[redbike]\n{SETTINGS[key].name}: {sign}{given}{sign}\n")
    if key == "alert":
        assert getattr(load(str(path), {}).settings, key), "a shell would take them away"
        return
    problem = f"bad {SETTINGS[key].name} in [redbike]: leave out the quotes around its value"
    with pytest.raises(BadConfig, match=re.escape(problem)):
        load(str(path), {})
    assert examine(str(path), {}).problems == (problem,)
    assert getattr(examine(str(path), {f"REDBIKE_{key.upper()}": given}).config.settings, key) == expected
