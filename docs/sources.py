"""Make pages of the reference from where each thing is defined: ``.. source:: commands``.

``commands`` are those of the usage text, ``options`` those of jobs, and ``keys`` those in Redis. The settings are in
``redbike.conf.example``, and the names of Python in their docstrings: Sphinx itself can read both.
"""

from collections.abc import Callable, Iterator
from types import UnionType
from typing import Literal, Union, get_origin

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

import redbike
from redbike.cli import help
from redbike.cli.usage import Usage
from redbike.cli.usage_text import TEXT
from redbike.config.definitions import OPTIONS
from redbike.store import keys


def list_commands() -> Iterator[str]:
    """Yield a section for each command, with what ``redbike help`` says of it."""
    usage = Usage(TEXT)
    for command in usage.lines:
        yield from (command, "-" * len(command), "", "::", "")
        yield from (f"   {line}" for line in help.explain(usage, command).splitlines())
        yield ""


def list_options() -> Iterator[str]:
    """Yield a definition for each option of jobs."""
    for option in OPTIONS.values():
        allowed = ", ".join(f"``{choice}``" for choice in option.choices) or f"a {option.kind}"
        none = "none" if option.kind in ("url", "traceparent", "group") else "that of the worker class"
        default = none if option.default is None else f"``{option.default}``"
        yield from (f"``{option.name}``", f"   {option.help}. It is {allowed}; the default is {default}.", "")


def list_aliases() -> Iterator[str]:
    """Yield each public name that stands for several types, with what is said of it where it is defined."""
    for name in redbike.__all__:
        if get_origin(getattr(redbike, name)) in (Literal, Union, UnionType, Callable):
            # Sphinx finds by itself what is said of classes and functions.
            module = redbike._PLACES[name]
            text = ModuleAnalyzer.for_module(module).find_attr_docs()["", name]
            yield from (f".. py:data:: {name}", "   :module: redbike", "", *(f"   {line}" for line in text), "")


def list_keys() -> Iterator[str]:
    """Yield what the module of the keys says."""
    yield from (keys.__doc__ or "").splitlines()


SOURCES: dict[str, Callable[[], Iterator[str]]] = {
    "commands": list_commands,
    "options": list_options,
    "aliases": list_aliases,
    "keys": list_keys,
}


def skip_member(app: Sphinx, what: str, name: str, member: object, skip: bool, options: object) -> bool | None:
    """Leave out the logger: the page itself describes it. None leaves the decision to Sphinx."""
    return True if member is redbike.log else None


class Source(SphinxDirective):
    """Puts one of `SOURCES` into a page."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return what it says, as nodes."""
        name = self.arguments[0]
        return self.parse_text_to_nodes("\n".join(SOURCES[name]()), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register it."""
    app.add_directive("source", Source)
    app.connect("autodoc-skip-member", skip_member)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
