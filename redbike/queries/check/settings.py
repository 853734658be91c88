"""Check the config: the file, the environment and the command line, and what overrides what."""

import os
import stat
from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from redbike.config.settings import DEFAULT_FILE, SHARED, Examined, Settings, describe_shared, get_default
from redbike.connection.options import list_bad_arguments
from redbike.connection.urls import parse_login, redact, split_url
from redbike.errors import BadConfig
from redbike.queries.check.findings import Finding, note
from redbike.store.workers import Process


def check_settings(examined: Examined, path: str | None) -> Iterator[Finding]:
    """Yield what was found in the config that was examined, whose file is at `path`; None for the default."""
    yield from map(Finding, (*examined.problems, *examined.config.warnings))
    for source, server in examined.servers:
        if isinstance(server, dict):
            yield from (Finding(f"{source}: {problem}") for problem in list_bad_arguments(server))
    yield from _check_overridden(examined)
    yield from _check_mode(examined, DEFAULT_FILE if path is None else path)


def check_shared(settings: Settings, processes: Sequence[Process]) -> Iterator[Finding]:
    """Yield which processes place jobs by other settings than these. Those of older versions do not tell theirs."""
    own, found = describe_shared(settings), dict[str, list[str]]()
    for process in processes:
        if process.state == "lost" or process.settings is None:
            continue
        others = dict(process.settings)
        for key in SHARED:
            name, default = key.replace("_", "-"), get_default(key)
            if own.get(name) != others.get(name):
                differs = f"{name}: {others.get(name, default)}, this config has {own.get(name, default)}"
                found.setdefault(differs, []).append(f"{process.kind} {process.id}")
    for differs, ids in found.items():
        more = f" and {len(ids) - 1:,} more" if len(ids) > 1 else ""
        yield Finding(f"the {ids[0]}{more} has {differs}: what becomes of a job depends on who places it")


def _check_overridden(examined: Examined) -> Iterator[Finding]:
    """Yield which server counts, if more than one is named: that surprises people most often."""
    if len(examined.servers) > 1:
        (source, server), *others = examined.servers
        shown = redact(server) if isinstance(server, str) else "one"
        yield note(f"the server is {shown}, by {source}, which overrides {' and '.join(name for name, _ in others)}")


def _check_mode(examined: Examined, path: str) -> Iterator[Finding]:
    """Yield who else can read or change the config file, where that matters."""
    try:
        found = os.stat(path)
    except OSError:
        return  # there is none, or it was said already that it cannot be read
    if not stat.S_ISREG(found.st_mode):
        return
    mode = f"its mode is {stat.S_IMODE(found.st_mode):04o}"
    if found.st_mode & stat.S_IWOTH:
        yield Finding(f"every user can change the config file {path!r}, and so what workers run: {mode}")
    if found.st_mode & stat.S_IROTH and _holds_password(examined):
        yield Finding(f"every user can read the config file {path!r}, which holds a password: {mode}, 0600 is better")


def _holds_password(examined: Examined) -> bool:
    """Tell whether the config file has a password."""
    server = next((server for source, server in examined.servers if source[:1] == "["), None)
    if isinstance(server, dict):
        return any("password" in name for name in server)
    if server is None:
        return False
    parts = split_url(server)
    try:
        return bool(parse_login(parts)["password"]) or "password=" in unquote(parts.query)
    except (BadConfig, ValueError):
        return True  # a malformed one is taken for the worse
