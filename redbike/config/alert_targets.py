"""The values of ``alert``: a command, or a URL that gets a POST; and the part of each that may be shown.

A command is a program and its arguments, split as by a shell; no shell runs it. A URL that begins with
``slack+https://`` gets what Slack expects: an object with a ``text``.
"""

import re
import shlex
from dataclasses import dataclass

from redbike.config.ping_urls import MAX_LENGTH, mask, split_url
from redbike.errors import BadConfig

SLACK = "slack+"
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AlertTarget:
    """The target of alerts: a command, or else a URL."""

    argv: tuple[str, ...] = ()
    url: str = ""
    is_slack: bool = False

    @property
    def name(self) -> str:
        """The part that is no secret, for messages: the program, or the host."""
        return repr(self.argv[0]) if self.argv else mask(self.url)


def read_target(value: object) -> AlertTarget:
    """Return the target that `value` names. Raise `BadConfig`, whose message shows no secret."""
    if not isinstance(value, str):
        raise BadConfig(f"bad alert {value!r:.80}: a command or a URL is needed")
    if not _URL.match(value):
        return AlertTarget(_split(value))
    is_slack = value.lower().startswith(SLACK)
    url = value[len(SLACK) :] if is_slack else value
    if len(value) > MAX_LENGTH:
        raise BadConfig(f"bad alert {mask(value)!r}: it has {len(value)} characters, {MAX_LENGTH} are allowed")
    parts = split_url(url)
    if parts is None:
        raise BadConfig(f"bad alert {mask(value)!r}: https://, http:// or slack+https:// and a host are needed")
    if "@" in parts.netloc:
        raise BadConfig(f"bad alert {mask(value)!r}: it has a login, which is not supported")
    return AlertTarget(url=url, is_slack=is_slack)


def check_alert(value: object) -> str:
    """Return `value` if alerts can be sent to it. Raise `BadConfig`."""
    read_target(value)
    return str(value)


def _split(command: str) -> tuple[str, ...]:
    try:
        argv = tuple(shlex.split(command))
    except ValueError as error:
        # The arguments of the program may be secrets.
        raise BadConfig(f"bad alert {command.partition(' ')[0]!r:.80} …: {error}") from None
    if not argv or not argv[0] or "\0" in command:
        raise BadConfig(f"bad alert {command[:80]!r}: it names no program")
    return argv
