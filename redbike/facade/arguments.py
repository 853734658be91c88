"""The arguments of the constructors of `Redbike` and `AsyncRedbike`: their signatures, and errors for unknown names."""

import inspect
import logging
import os
from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from typing import Any, Concatenate, ParamSpec, get_type_hints

from redbike.config.file import DEFAULT_FILE, find_server, find_unread
from redbike.config.settings import KeywordSettings, Settings
from redbike.errors import BadConfig
from redbike.text.printable import suggest

log = logging.getLogger("redbike")

P = ParamSpec("P")

DEFAULTS = Settings()


def name_settings(init: Callable[P, None]) -> Callable[P, None]:
    """Let the signature name each setting with its default, for ``help()`` and the reference."""
    signature = inspect.signature(init)
    *given, settings = signature.parameters.values()
    hints = get_type_hints(KeywordSettings)
    named = [
        settings.replace(name=name, kind=settings.KEYWORD_ONLY, default=getattr(DEFAULTS, name), annotation=hint)
        for name, hint in hints.items()
    ]
    vars(init)["__signature__"] = signature.replace(parameters=[*given, *named])
    return init


def take_arguments(
    method: Callable[Concatenate[Any, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Give a constructor the signature of `method`, which is another constructor."""
    return wraps(method)


def refuse_unknown(kind: Callable[..., object], names: Iterable[str]) -> None:
    """Raise `TypeError` for a name that is no argument of `kind`, which is `Redbike`; suggest the most similar name."""
    known = inspect.signature(kind).parameters
    for name in names:
        if name not in known:
            raise TypeError(f"Redbike() got an unexpected keyword argument {name!r}{suggest(name, known)}")


def read_server(prefix: str | None) -> str | None:
    """Return the URL of the environment, or None. Warn if the command line uses another server, or another prefix."""
    unread = [name for name in find_unread(os.environ) if name == "server" or prefix is None]
    if unread:
        _warn_of_unread(" and ".join(unread))
    return find_server(os.environ)


@lru_cache
def _warn_of_unread(names: str) -> None:
    """Log the warning, once in each process."""
    log.warning("%r names another %s: Redbike() does not read it, Redbike.from_config() does", DEFAULT_FILE, names)


def check_path(path: object) -> str | None:
    """Return the name of a config file; None for None. Raise `BadConfig` for anything else, such as a worker."""
    name = os.fspath(path) if isinstance(path, os.PathLike) else path
    if name is None or isinstance(name, str):
        return name
    kind = type(name).__name__
    raise BadConfig(f"bad path, which is a {kind}: the name of a config file is needed; a worker is given as worker=")
