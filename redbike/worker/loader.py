"""Make a worker, or an object that names its queues, from a worker specification.

This is ``package.module:Class('init string')``, or ``package.module:name`` for an instance that the module has.
"""

import ast
import importlib
import inspect
import os
import re
import sys
import sysconfig
from pathlib import Path
from typing import Any, NamedTuple

from redbike.errors import BadConfig, RedbikeError
from redbike.loop.worker_class import find_missing_method
from redbike.process import command_log
from redbike.text.printable import describe

PLACING = ("queue_for", "name_queue")  # the methods of the stock worker that name a queue


class _Found(NamedTuple):
    """A worker class with its arguments, or an instance, which has none."""

    worker: Any
    arguments: list[Any]
    keywords: dict[str, Any]

    @property
    def is_instance(self) -> bool:
        return not isinstance(self.worker, type)


def load_worker(spec: str, folder: str | None = None) -> Any:
    """Make the worker that `spec` describes, or find the instance that it names.

    Modules in the current folder are found. `spec` is never evaluated as code: the module is imported, and the class
    called with the literal arguments. Raises `BadConfig` if that fails, or if the class lacks one of the methods of a
    worker class. No message shows an argument: it may be a password.

    If a worker has a method ``use_folder``, it gets `folder`, in which it looks for files with relative names.
    """
    found = _find_worker(spec)
    arguments, keywords = found.arguments, found.keywords
    wrong = f"bad worker {quote_spec(spec)!r}"
    try:
        worker = found.worker if found.is_instance else found.worker(*arguments, **keywords)
        if folder is not None and callable(getattr(worker, "use_folder", None)):
            worker.use_folder(folder)
    except RedbikeError as error:
        # Errors of ours quote only the name of a queue or a file.
        raise BadConfig(f"{wrong}: {error}") from error
    except (Exception, SystemExit) as error:
        raise BadConfig(f"{wrong}: {_leave_out(describe(error), [*arguments, *keywords.values()])}") from error
    finally:
        command_log.revive()
    return worker


def load_placer(spec: str, folder: str | None, stock: type) -> Any:
    """Make an object that names queues as the worker of `spec` does, for processes without jobs. Raise `BadConfig`.

    This is an instance of `stock` if the class has the `queue_for` of `stock`, or one that needs no instance. So such a
    class may bind a port, or open a file for itself alone: only workers make an instance of it. A class with another
    `queue_for` is called here, too. An instance that `spec` names exists as soon as its module is imported.
    """
    found = _find_worker(spec)
    if found.is_instance:
        return load_worker(spec, folder)
    maker = found.worker
    own = inspect.getattr_static(maker, "queue_for")
    if all(inspect.getattr_static(maker, name, None) is getattr(stock, name) for name in PLACING):
        return stock("A")
    if isinstance(own, staticmethod | classmethod):
        placer: Any = stock("A")
        placer.queue_for = own.__get__(None, maker)
        return placer
    try:
        return load_worker(spec, folder)
    except BadConfig as error:
        raise BadConfig(
            f"{error}; it is made here too, because it has a queue_for() of its own that is no staticmethod"
        ) from error


def check_spec(spec: str) -> None:
    """Raise `BadConfig` for a text that is no worker specification; nothing is imported."""
    _parse_worker(spec)


def load_early(spec: str, folder: str | None) -> Any:
    """Make the worker as `load_worker` does, or find the instance, for a process that runs no jobs.

    Return None for a class with an ``__init__`` that is the user's own: it may bind a port, or open a file.
    """
    found = _find_worker(spec)
    own = getattr(found.worker.__init__, "__module__", "")
    return load_worker(spec, folder) if found.is_instance or own.startswith("redbike.") else None


def _find_worker(spec: str) -> _Found:
    """Return what `spec` names: a class with its arguments, or an instance."""
    module_name, name, arguments, keywords = _parse_worker(spec)
    wrong = f"bad worker {quote_spec(spec)!r}"
    _find_local_modules()
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        # The module is the user's own: it may raise anything.
        reason = _explain_hidden(module_name) or f"importing {module_name} fails: {describe(error)}"
        raise BadConfig(f"{wrong}: {reason}") from error
    finally:
        command_log.revive()
    found = getattr(module, name, None)
    missing = find_missing_method(found)
    # Nothing but a worker class is ever called: os:system('…') is an import path and a literal too.
    if not isinstance(found, type) and missing:
        raise BadConfig(f"{wrong}: {_explain_hidden(module_name) or f'{module_name} has no class {name!r}'}")
    if missing:
        raise BadConfig(f"{wrong}: {name} has no method {missing}()")
    if arguments is not None and not isinstance(found, type):
        raise BadConfig(f"{wrong}: {name} is an instance, which takes no arguments: '{module_name}:{name}' names it")
    return _Found(found, arguments or [], keywords)


def _find_local_modules() -> None:
    """Let modules of the current folder be found, behind those of Python: a queue.py there must not hide Python's."""
    if "" in sys.path or os.getcwd() in sys.path:
        return
    library = sysconfig.get_path("platstdlib")
    own = {sysconfig.get_path("stdlib"), library, os.path.join(library, "lib-dynload")}
    places = [place for place, path in enumerate(sys.path, 1) if path in own]
    sys.path.insert(max(places, default=0), os.getcwd())


def _explain_hidden(module_name: str) -> str | None:
    """Return a message if a module of the current folder cannot be imported because another one has its name."""
    name = module_name.partition(".")[0]
    found = getattr(sys.modules.get(name), "__file__", None)
    local = next((path for path in (f"{name}.py", name) if os.path.exists(path)), None)
    if not local or not found or Path(found).is_relative_to(os.getcwd()):
        return None
    return f"{local!r} in the current folder is hidden by the module {name!r} of {found!r}: give it another name"


def quote_spec(spec: str) -> str:
    """Return a worker specification as messages quote it: the module and the class, without the arguments."""
    head = re.match(r"[\w.:/-]*", spec)
    rest = spec[head.end() :] if head else spec
    return f"{spec[: len(spec) - len(rest)]}{'(…)' if rest[:1] == '(' else '…' * bool(rest)}"


def _leave_out(message: str, values: list[Any]) -> str:
    """Return `message` without the literals that are in `values`, at any depth."""
    for value in values:
        if isinstance(value, dict):
            message = _leave_out(message, [*value, *value.values()])
        elif isinstance(value, list | tuple | set):
            message = _leave_out(message, list(value))
        elif value not in (None, True, False, "", b""):
            message = message.replace(repr(value), "…")
            # A short value in the middle of another word reveals nothing.
            message = re.sub(rf"(?<!\w){re.escape(str(value))}(?!\w)", "…", message)
            message = message.replace(str(value), "…") if len(str(value)) >= 4 else message
    return message


def _parse_worker(spec: str) -> tuple[str, str, list[Any] | None, dict[str, Any]]:
    """Return the module, the name, and the arguments; None in their place if there are no parentheses."""
    needed = "package.module:Class('init string') is needed, or package.module:jobs for an instance"
    wrong = BadConfig(f"bad worker {quote_spec(spec)!r}: {needed}")
    module_name, colon, call = spec.partition(":")
    if not colon or not all(part.isidentifier() for part in module_name.split(".")):
        raise wrong
    try:
        node = ast.parse(call.strip(), mode="eval").body
        if isinstance(node, ast.Name):
            return module_name, node.id, None, {}
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            raise wrong
        arguments = [ast.literal_eval(argument) for argument in node.args]
        keywords = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords if keyword.arg}
        if len(keywords) != len(node.keywords):
            raise wrong
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        raise wrong from None
    return module_name, node.func.id, arguments, keywords
