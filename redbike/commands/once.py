"""The data of a one-off of a shell: the words of its command, and the folder, environment and umask for it.

They are stored in Redis as JSON. A user who can write there can let any `Commands` run anything: see
``docs/security.rst``. Nothing in them is evaluated here.
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from redbike.commands.file import Command
from redbike.config.file import OF_FAILURE, OF_RUN, SECRETS
from redbike.errors import BadConfig, CommandFailed

KEYS = ("argv", "cwd", "env", "umask")
KEPT = 16 * 1024  # bytes of output
SHELL = "/bin/sh"  # which runs a script

# Variables of the terminal, the shell or the run of the caller; at(1) also leaves them out.
LEFT_OUT = {
    *("TERM", "TERMCAP", "DISPLAY", "WAYLAND_DISPLAY", "_", "SHLVL", "SHELLOPTS", "BASHOPTS", "BASH_VERSINFO"),
    *("EUID", "GROUPS", "PPID", "UID", *SECRETS, *OF_RUN, *OF_FAILURE),
}
_UMASK = re.compile(r"0?[0-7]{1,3}", re.ASCII)


def make_record(argv: Sequence[str], cwd: str, env: Mapping[str, str], umask: int) -> dict[str, Any]:
    """Return the data of a job that runs `argv` in `cwd`. Raise `BadConfig` if one of them cannot be stored or run."""
    for name, text in [*(("argument", word) for word in argv), ("folder", cwd)]:
        if not _is_utf8(text):
            raise BadConfig(f"bad {name} {text!r:.80}: it is not UTF-8")
    kept = {name: value for name, value in env.items() if name not in LEFT_OUT}
    if wrong := [name for name, value in kept.items() if not _is_utf8(name + value)]:
        raise BadConfig(f"bad variable {wrong[0]!r:.80}: it is not UTF-8; env -u leaves it out")
    record = {"argv": list(argv), "cwd": cwd, "env": kept, "umask": f"{umask:04o}"}
    if why := find_problem(record):
        raise BadConfig(f"bad command {' '.join(argv)!r:.80}: {why}")
    return record


def read_command(data: Any) -> Command:
    """Return the command of a job with these data. Raise `CommandFailed` if they are no record."""
    if why := find_problem(data):
        raise CommandFailed(f"it is no one-off of a shell: {why}")
    return Command(
        data["argv"][0],
        argv=tuple(map(str.encode, data["argv"])),
        cwd=data["cwd"].encode(),
        # Earlier versions have stored more of them.
        env={name.encode(): value.encode() for name, value in data["env"].items() if name not in SECRETS},
        inherits=False,
        umask=int(data["umask"], 8),
        output=KEPT,
    )


def find_problem(data: Any) -> str:
    """Return why data are no record, "" if they are one. It quotes no value, as that may be secret."""
    if not isinstance(data, dict) or data.keys() != {*KEYS}:
        return f"its data must be an object with {', '.join(KEYS)}"
    argv, cwd, env, umask = (data[key] for key in KEYS)
    if not isinstance(argv, list) or not argv or not all(map(_is_text, argv)):
        return "argv must be a list of texts without NUL"
    if not argv[0]:
        return "its command is empty"
    if not _is_text(cwd) or not os.path.isabs(cwd):
        return "cwd must be the full path of a folder"
    if not isinstance(env, dict) or not all(map(_is_text, env.values())):
        return "env must be an object with texts without NUL"
    if not all(name and _is_text(name) and "=" not in name for name in env):
        return "env has a name that no variable can have"
    if not isinstance(umask, str) or not _UMASK.fullmatch(umask):
        return "umask must be a text of up to four octal digits"
    return ""


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value and _is_utf8(value)


def _is_utf8(text: str) -> bool:
    try:
        return bool(text.encode()) or True
    except UnicodeEncodeError:
        return False
