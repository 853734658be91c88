"""A folder for this user alone, and a short way to a socket in it."""

import hashlib
import os
import stat
import tempfile
from pathlib import Path

from redbike.errors import ServerError

LONGEST_SOCKET_PATH = 100  # bytes; the system's limit is 104 to 108


def make_private(folder: Path) -> None:
    """Make `folder`, or see that nobody else may enter it. Raises `ServerError` if it is not this user's own."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise ServerError(f"{folder} is not a folder of this user's own")
    if found.st_mode & 0o077:
        folder.chmod(0o700)


def way_to(folder: Path) -> Path:
    """Return `folder`, or if it is too deep for a socket, a link in the temporary folder that is named after it."""
    name = f"redbike-{os.getuid()}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"
    ways = (folder, Path(tempfile.gettempdir(), name), Path("/tmp", name))
    return next((way for way in ways if len(os.fsencode(way / "redis.sock")) <= LONGEST_SOCKET_PATH), ways[-1])


def open_way(way: Path, folder: Path) -> None:
    """See that the link `way` leads to `folder`; so every process finds the same socket, whatever its TMPDIR."""
    try:
        os.symlink(folder, way)
    except FileExistsError:
        found = way.lstat()
        # Versions before this one had a folder of that name, with the socket in it.
        if found.st_uid != os.getuid() or (stat.S_ISLNK(found.st_mode) and os.readlink(way) != str(folder)):
            raise ServerError(f"{way} does not lead to {folder}, as it should") from None


def close_old_way(way: Path) -> None:
    """Remove the folder that versions before this one had in the place of the link."""
    if way.is_dir() and not way.is_symlink():
        (way / "redis.sock").unlink(missing_ok=True)
        way.rmdir()
