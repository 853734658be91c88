"""What a function of `redbike.worker.functions.Jobs` is called with: its job's id, its data, or arguments in the data.

A function has one of these forms; each may also have ``jobid``, and more parameters with a default:

- ``()``: it ignores the data.
- ``(*args)``: it runs only without data, as its arguments have no names.
- ``(data)``: it gets the data as a whole.
- Any other parameters, or ``**fields``: the data are an object, which has the arguments by their names.
"""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redbike.errors import CommandFailed
from redbike.loop.worker_class import has_yield, is_coroutine_function

JOBID, DATA = "jobid", "data"
_FILLED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True)
class CallSignature:
    """How a function is called for a job."""

    name: str
    takes_jobid: bool
    takes_data: bool  # as a whole
    arguments: inspect.Signature  # the parameters that the data of a job give: ``data``, or each by its name
    called: inspect.Signature  # the parameters when a program sets a job: also those that no job can give
    is_async: bool
    rest: str = ""  # the name of ``*args`` if it has no other parameter for data

    @property
    def reads_arguments(self) -> bool:
        """Tell whether the data have arguments by their names."""
        return bool(self.arguments.parameters) and not self.takes_data

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return the data of a job that calls the function with these arguments. Raise `TypeError`."""
        try:
            bound = self.called.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{self}: {error}") from None
        if lost := next((name for name in bound if name not in self.arguments.parameters), None):
            raise TypeError(f"{self}: a job cannot pass anything to {lost!r}")
        if self.takes_data:
            return bound.get(DATA)
        data: dict[str, Any] = {}
        for name, value in bound.items():
            is_rest = self.arguments.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
            data |= value if is_rest else {name: value}
        if JOBID in data:
            raise TypeError(f"{self}: {JOBID!r} is the id of its job, not an argument")
        return data or None

    def drop_defaults(self, data: Any) -> Any:
        """Return `data`, which `bind` has returned, without the arguments that are the same JSON as their defaults."""
        if not self.reads_arguments or data is None:
            return data
        known = self.arguments.parameters
        kept = {name: value for name, value in data.items() if name not in known or _differs(value, known[name])}
        return kept or None

    def check(self, data: Any) -> str:
        """Return what is wrong with these data; "" if the function can be called with them."""
        if self.rest and data:
            return (
                f"{self.name}(*{self.rest}) gets arguments by their names, and names none: {data!r:.80} would be lost"
            )
        if not self.reads_arguments:
            return ""
        if data is not None and not isinstance(data, dict):
            return f"{self} needs an object with its arguments, not {data!r:.80}"
        if JOBID in (data or {}):
            return f"{self}: {JOBID!r} is the id of its job, not an argument"
        try:
            self.arguments.bind(**(data or {}))
        except TypeError as error:
            return f"{self}: {error}"
        return ""

    def make_arguments(self, jobid: str, data: Any) -> dict[str, Any]:
        """Return the arguments of the function, by name. Raise `CommandFailed` for data that do not fit it."""
        if wrong := self.check(data):
            raise CommandFailed(f"bad data of the job {jobid!r}: {wrong}")
        given: dict[str, Any] = dict(data or {}) if self.reads_arguments else {}
        if self.takes_data:
            given[DATA] = data
        if self.takes_jobid:
            given[JOBID] = jobid
        return given

    def __str__(self) -> str:
        parameters = [each.replace(annotation=each.empty) for each in self.arguments.parameters.values()]
        return f"{self.name}{inspect.Signature(parameters)}"


def _differs(value: Any, parameter: inspect.Parameter) -> bool:
    try:
        return json.dumps(value, sort_keys=True) != json.dumps(parameter.default, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        # One of them is no JSON, or there is no default.
        return True


def read_signature(function: object) -> CallSignature:
    """Return how the function is called. Raise `TypeError` if it is no function, or no job can call it."""
    if isinstance(function, type) or not callable(function):
        raise TypeError(f"a job is a function, not {function!r:.80}")
    name = get_name(function)
    if has_yield(function):
        raise TypeError(f"{name}() has a yield: a call would run none of its code")
    own = inspect.signature(function).parameters.values()
    parameters = [
        each
        for each in own
        if each.kind is not each.VAR_POSITIONAL
        and not (each.kind is each.POSITIONAL_ONLY and each.default is not each.empty)
    ]
    if unnamed := next((each for each in parameters if each.kind is each.POSITIONAL_ONLY), None):
        raise TypeError(f"{name}() has the parameter {unnamed.name!r}, which cannot be passed by its name")
    names = {each.name for each in parameters if each.kind not in _FILLED}
    takes_data = DATA in names
    if takes_data:
        arguments = [each for each in parameters if each.name == DATA]
        rest = [each for each in parameters if each.name not in (JOBID, DATA) and each.kind not in _FILLED]
        if needed := next((each for each in rest if each.default is each.empty), None):
            raise TypeError(f"{name}() has 'data' and the parameter {needed.name!r} without a default: have only one")
    else:
        arguments = [each for each in parameters if each.name != JOBID or each.kind is each.VAR_KEYWORD]
    rests = [] if arguments else [each.name for each in own if each.kind is each.VAR_POSITIONAL]
    called = [
        each for each in own if each.kind is not each.VAR_POSITIONAL and (each.name not in names or each.name != JOBID)
    ]
    signatures = inspect.Signature(arguments), inspect.Signature(called)
    return CallSignature(name, JOBID in names, takes_data, *signatures, is_coroutine_function(function), "".join(rests))


def get_name(function: Callable[..., Any]) -> str:
    """Return the name of a function."""
    return getattr(function, "__qualname__", type(function).__name__)
