"""The arguments of the constructors of `Redbike` and `AsyncRedbike`: their signatures, and what is none of them."""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, get_type_hints

from redbike.config.settings import KeywordSettings, Settings
from redbike.text.printable import suggest

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
    """Let a constructor have the arguments of another one."""
    return wraps(method)


def refuse_unknown(kind: Callable[..., object], names: Iterable[str]) -> None:
    """Raise `TypeError` for what is no argument of `kind`, which is `Redbike`, with the most similar one."""
    known = inspect.signature(kind).parameters
    for name in names:
        if name not in known:
            raise TypeError(f"Redbike() got an unexpected keyword argument {name!r}{suggest(name, known)}")
