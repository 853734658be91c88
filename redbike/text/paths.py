"""Paths that users give."""

import os

MAX_SOCKET = 100  # bytes of the path of a socket, about: the system refuses longer ones


def make_absolute(path: str) -> str:
    """Return the absolute path, which names the same file after a job has changed the current folder."""
    try:
        return os.path.abspath(path)
    except OSError:
        # The current folder was deleted.
        return path


def make_absolute_socket(path: str) -> str:
    """Return the absolute path of a socket; `path` unchanged if the absolute one is too long for the system."""
    found = make_absolute(path)
    return found if len(os.fsencode(found)) <= MAX_SOCKET else path
