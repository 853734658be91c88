"""What programs see: the signature, and mistakes in a program that are told at once."""

import dataclasses
import functools
import inspect
import re
import runpy
import sys
import textwrap
import typing

import pytest

import redbike
from redbike import AsyncRedbike, BadConfig, Redbike, RoundRobin
from redbike.config.settings import Settings


def test_a_mistyped_setting_is_an_error(client, prefix):
    for facade in (Redbike, AsyncRedbike):
        with pytest.raises(TypeError, match=r"^Redbike\(\) .*'on_eror'; is 'on_error' meant\?"):
            facade(RoundRobin("A"), prefix, client, on_eror="stop")


class Partial:
    def queue_for(self, jobid):
        return "work-A"


class Fitting(RoundRobin):
    def __init__(self, **methods):
        super().__init__("A")
        self.__dict__.update(methods)


class Static:
    queue_for = staticmethod(lambda jobid: "work-A")
    queue_names = classmethod(lambda cls: ["work-A"])
    timeout = staticmethod(lambda queue_name, factor=2: None)

    async def work(self, jobid, data=None, *more, **others):
        pass


class Called(Static):
    class Work:
        def __call__(self, jobid, data):
            pass

    work = Work()


def test_a_worker_may_have_its_methods_in_any_form(client, prefix):
    for worker in (Static(), Called(), Fitting(work=print), Fitting(work=functools.partial(print, 1))):
        assert Redbike(worker, prefix, client).worker is worker


def test_what_is_no_worker_is_refused_at_once(client, prefix):
    for worker, said in (
        (RoundRobin, "RoundRobin is a class, an instance is needed"),
        (Partial(), r"Partial has no method queue_names\(\)"),
        (None, "NoneType has no method"),
        (Fitting(timeout=5), r"Fitting has no method timeout\(\)"),
        (
            Fitting(work=lambda: None),
            r"Fitting.work\(jobid\) is how Redbike calls it, but too many positional arguments",
        ),
        (Fitting(work=lambda jobid, data, more: None), r"Fitting.work\(jobid, data\) is .*: 'more'"),
        (Fitting(work=lambda jobid, *, more: None), r"Fitting.work\(jobid\) is .*: 'more'"),
        (Fitting(queue_for=lambda: "A"), r"Fitting.queue_for\(jobid\) is how Redbike calls it, but"),
        (Fitting(queue_names=lambda more: ["A"]), r"Fitting.queue_names\(\) is .*: 'more'"),
        (Fitting(timeout=lambda: 5), r"Fitting.timeout\(queue_name\) is how Redbike calls it, but"),
    ):
        for make in (Redbike, AsyncRedbike):
            with pytest.raises(BadConfig, match=said):
                make(worker, prefix, client)
            with pytest.raises(BadConfig, match=said):
                make.from_settings(worker, Settings(prefix=prefix), client)


def test_a_schedule_that_is_no_text_is_a_type_error_and_leaves_nothing_behind(bike):
    for schedule in (7, 1.5, b"NOW", ["NOW"], {}, False):
        for call in (bike.set, bike.enter, lambda *pair: list(bike.set_many([("first:A", "NOW"), pair]))):
            with pytest.raises(TypeError, match="a schedule is a text, a datetime,"):
                call("job:A", schedule)
    assert list(bike.get_statuses()) == []


# What is exported


def list_names(hint):
    """What a type names, in brackets too."""
    if isinstance(hint, list | tuple):
        return [name for each in hint for name in list_names(each)]
    if isinstance(hint, typing.ParamSpecArgs | typing.ParamSpecKwargs):
        return []
    if typing.get_args(hint):
        return list_names((typing.get_origin(hint), *typing.get_args(hint)))
    return [hint]


def list_functions(name):
    """The public functions of an exported name, with what each is called."""
    found = getattr(redbike, name)
    if not inspect.isclass(found):
        return {name: found} if inspect.isfunction(found) else {}
    members = inspect.getmembers(found)
    functions = {each: value.fget if isinstance(value, property) else value for each, value in members}
    return {
        f"{name}.{each}": value
        for each, value in functions.items()
        if (each == "__init__" or not each.startswith("_")) and (inspect.isfunction(value) or inspect.ismethod(value))
        # Python makes those of enums and protocols, and only Redbike asynchronous results and decorated functions. The
        # provider of `Tracing` is one of OpenTelemetry, whose names are only loaded when one is made.
        if value.__module__.startswith("redbike")
        and f"{name}.{each}" not in ("AsyncResults.__init__", "JobFunction.__init__", "Tracing.__init__")
    }


def test_the_example_of_the_package_prints_what_it_says(client, server_url, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("REDBIKE_URL", server_url)
    example = textwrap.dedent(re.search(r"::\n\n((?: {4}.*\n|\n)+)", redbike.__doc__)[1])
    (tmp_path / "example.py").write_text(example)
    runpy.run_path(str(tmp_path / "example.py"))
    assert capsys.readouterr().out.splitlines() == re.findall(r"# prints: (.*)", example)


def test_the_overview_of_the_package_names_what_there_is():
    named = {*re.findall(r"(?<!`)`(\w+)`(?!`)", redbike.__doc__)}
    assert named <= {*redbike.__all__}


def test_all_that_a_signature_names_is_exported():
    exported = [getattr(redbike, each) for each in redbike.__all__]
    for name, found in zip(redbike.__all__, exported, strict=True):
        hints = {each: typing.get_type_hints(function) for each, function in list_functions(name).items()}
        if inspect.isclass(found) and (dataclasses.is_dataclass(found) or issubclass(found, tuple | dict)):
            hints[name] = typing.get_type_hints(found)
        elif not inspect.isclass(found) and typing.get_args(found):
            hints[name] = {"": found}
        named = {(each, kind) for each, hint in hints.items() for kind in list_names(tuple(hint.values()))}
        own = {(each, kind) for each, kind in named if getattr(kind, "__module__", "").split(".")[0] == "redbike"}
        variables = typing.TypeVar | typing.ParamSpec
        assert [each for each in own if each[1] not in exported and not isinstance(each[1], variables)] == []
        others = {str(getattr(kind, "__module__", "builtins")).split(".")[0] for _, kind in named - own}
        assert others <= {*sys.stdlib_module_names, "redis"}


def test_the_names_of_events_are_those_of_the_enum():
    assert [*typing.get_args(redbike.EventName)] == [*redbike.Event]


def test_all_that_is_exported_has_a_docstring_and_types():
    for name in redbike.__all__:
        found = getattr(redbike, name)
        if inspect.isclass(found):
            assert found.__doc__, name
            assert not found.__doc__.startswith(f"{name}("), "made by dataclasses"
        for each, function in list_functions(name).items():
            # Constructors are described by their classes, and what an exception inherits by Python.
            assert function.__doc__ or each.endswith("__init__"), each
            if not inspect.isclass(found) or not issubclass(found, BaseException):
                parameters = [*inspect.signature(function).parameters.values()]
                assert [each for each in parameters if each.annotation is each.empty and each.name != "self"] == []
                loose = [each for each in parameters if each.kind is each.VAR_KEYWORD and each.annotation is typing.Any]
                assert not loose or each in ("RoundRobin.work", "Priority.work")


def list_methods(kind):
    return {name for name, value in inspect.getmembers(kind, callable) if not name.startswith("_")}


def test_async_redbike_has_every_method_with_the_same_arguments():
    assert list_methods(AsyncRedbike) == list_methods(Redbike)
    for name in ("__init__", *list_methods(Redbike)):
        mine, its = (inspect.signature(getattr(kind, name)) for kind in (AsyncRedbike, Redbike))
        assert [*mine.parameters.values()] == [*its.parameters.values()], name
        is_direct = name in ("__init__", "from_config", "from_settings", "stop")
        if not is_direct and "Iterator" not in str(its.return_annotation):
            is_read = its.return_annotation.__module__ == "redbike.facade.results" if its.return_annotation else False
            assert is_read or inspect.iscoroutinefunction(getattr(AsyncRedbike, name)), name
