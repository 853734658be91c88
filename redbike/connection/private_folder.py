"""Make a folder that only this user can enter, and a short path to a socket in it."""

import hashlib
import os
import stat
import tempfile
from pathlib import Path

from redbike.errors import ServerError

LONGEST_SOCKET_PATH = 100  # bytes; the system's limit is 104 to 108


def make_private(folder: Path) -> None:
    """Make `folder` if needed, so that only this user can enter it. Raise `ServerError` if another user owns it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise ServerError(f"{folder} is not a folder of this user's own")
    if found.st_mode & 0o077:
        folder.chmod(0o700)


def find_short_path(folder: Path) -> Path:
    """Return `folder`; if its path is too long for a socket, the path of a link in the temporary folder."""
    name = f"redbike-{os.getuid()}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"
    paths = (folder, Path(tempfile.gettempdir(), name), Path("/tmp", name))
    return next((path for path in paths if len(os.fsencode(path / "redis.sock")) <= LONGEST_SOCKET_PATH), paths[-1])


def link_short_path(path: Path, folder: Path) -> None:
    """Make the link `path` to `folder`, so that every process finds the same socket, whatever its TMPDIR.

    Raise `ServerError` if something else is there.
    """
    try:
        os.symlink(folder, path)
    except FileExistsError:
        found = path.lstat()
        # Older versions had a folder of that name, with the socket in it.
        if found.st_uid != os.getuid() or (stat.S_ISLNK(found.st_mode) and os.readlink(path) != str(folder)):
            raise ServerError(f"{path} does not lead to {folder}, as it should") from None


def remove_old_folder(path: Path) -> None:
    """Remove the folder that older versions made at the path of the link."""
    if path.is_dir() and not path.is_symlink():
        (path / "redis.sock").unlink(missing_ok=True)
        path.rmdir()
