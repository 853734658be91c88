"""The INI file of `redbike.commands.Commands`: which commands there are, and how each of them is run."""

import configparser
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from redbike.config import CHOICES
from redbike.errors import BadConfig

OWN_NAMES = ("REDBIKE_JOBID", "REDBIKE_DUE")
LONGEST = 1e8  # seconds
MOST_RETRIES = 1_000_000
KEYS = ("timeout", "on-error", "on-timeout", "retries", "cwd", "backoff")

DURATION = re.compile(r"(?=\d)(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?", re.ASCII)
SECONDS = re.compile(r"\d{1,12}(\.\d{1,9})?", re.ASCII)
COUNT = re.compile(r"\d{1,7}", re.ASCII)
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the INI file. Times are seconds; bytes are what the system gets, in UTF-8 whatever the locale."""

    name: str
    argv: tuple[bytes, ...]
    timeout: float | None = None
    cwd: bytes | None = None
    env: Mapping[bytes, bytes] = field(default_factory=dict)
    backoff: float = 60.0
    on_error: str | None = None
    on_timeout: str | None = None
    retries: int | None = None


class Parser(configparser.ConfigParser):
    """Reads an INI file as it stands: case matters, ``%`` and ``[DEFAULT]`` mean nothing special."""

    def __init__(self) -> None:
        super().__init__(interpolation=None, default_section="")

    def optionxform(self, optionstr: str) -> str:
        """The key itself, where the standard one is in lower case."""
        return optionstr


def read(filename: str) -> dict[str, Command]:
    """The commands of an INI file by name; raises `BadConfig`, in one line that quotes what is wrong."""
    parser = parsed(filename)
    if not parser.has_section("commands"):
        raise BadConfig(f"{filename}: a section [commands] is needed")
    lines = parser["commands"]
    folder = os.path.dirname(os.path.abspath(filename))
    for section in parser.sections():
        if section != "commands" and section not in lines:
            raise BadConfig(f"{filename}: section {section!r:.80} has no command of that name in [commands]")
    commands = {}
    for name, line in lines.items():
        # One that is called "commands" cannot have settings.
        options = parser[name] if name != "commands" and parser.has_section(name) else {}
        try:
            commands[name] = command_of(name, line, options, folder)
        except BadConfig as error:
            raise BadConfig(f"{filename}: command {name!r:.80}: {error}") from None
    return commands


def parsed(filename: str) -> Parser:
    """The sections and keys of an INI file."""
    parser = Parser()
    try:
        with open(filename, encoding="utf-8-sig") as file:
            parser.read_file(file)
    except OSError as error:
        raise BadConfig(f"cannot read commands from {filename!r}: {error.strerror}") from None
    except ValueError as error:
        # Not UTF-8, or a file name with a NUL in it.
        raise BadConfig(f"cannot read commands from {filename!r}: {error}") from None
    except configparser.Error as error:
        raise BadConfig(" ".join(str(error).split())[:300]) from None
    return parser


def command_of(name: str, line: str, options: Mapping[str, str], folder: str) -> Command:
    """A command from its line and its settings; a relative ``cwd`` is in `folder`."""
    env = {key: value for key, value in options.items() if key.startswith("env.")}
    for key in options:
        if key not in (*KEYS, *env):
            raise BadConfig(f"unknown key {key!r:.80}")
    return Command(
        name,
        argv=words(line),
        timeout=duration("timeout", options["timeout"], least=0.001) if "timeout" in options else None,
        cwd=system_bytes(os.path.join(folder, options["cwd"])) if "cwd" in options else None,
        env=dict(variable(key, value) for key, value in env.items()),
        backoff=duration("backoff", options.get("backoff", "60"), least=0),
        on_error=choice("on-error", options),
        on_timeout=choice("on-timeout", options),
        retries=count("retries", options["retries"]) if "retries" in options else None,
    )


def words(line: str) -> tuple[bytes, ...]:
    """A command line in its words, of which the first is a program."""
    try:
        argv = shlex.split(line)
    except ValueError as error:
        raise BadConfig(f"bad command line {line!r:.200}: {error}") from None
    if not argv or not argv[0]:
        raise BadConfig(f"bad command line {line!r:.200}: it names no program")
    return tuple(system_bytes(word) for word in argv)


def duration(key: str, text: str, least: float) -> float:
    """Seconds from ``90``, ``1.5`` or ``1h30m``, between `least` and `LONGEST`."""
    if SECONDS.fullmatch(text):
        value = float(text)
    elif parts := DURATION.fullmatch(text):
        value = sum(int(part or 0) * unit for part, unit in zip(parts.groups(), (86400, 3600, 60, 1), strict=True))
    else:
        raise BadConfig(f"bad {key} {text!r:.80}: seconds or a duration such as '15m' are needed")
    if not least <= value <= LONGEST:
        raise BadConfig(f"bad {key} {text!r:.80}: {least:g} to {LONGEST:g} seconds are allowed")
    return value


def choice(key: str, options: Mapping[str, str]) -> str | None:
    """The value of `key`, which has the choices of the setting of its name; None if it is not given."""
    allowed = CHOICES[key.replace("-", "_")]
    if key not in options:
        return None
    if options[key] not in allowed:
        raise BadConfig(f"bad {key} {options[key]!r:.80}: {', '.join(allowed)} are allowed")
    return options[key]


def count(key: str, text: str) -> int:
    """A whole number from 0 to `MOST_RETRIES`."""
    if not COUNT.fullmatch(text) or int(text) > MOST_RETRIES:
        raise BadConfig(f"bad {key} {text!r:.80}: 0 to {MOST_RETRIES} are allowed")
    return int(text)


def variable(key: str, value: str) -> tuple[bytes, bytes]:
    """A variable of a command's environment, from its ``env.NAME`` and its value."""
    name = key.removeprefix("env.")
    if not VARIABLE.fullmatch(name):
        raise BadConfig(f"bad name of a variable {key!r:.80}: letters, digits and '_' are allowed")
    if name in OWN_NAMES:
        raise BadConfig(f"{key!r} is set for each job, it cannot be set here")
    return name.encode(), system_bytes(value)


def system_bytes(text: str) -> bytes:
    """`text` as the system takes it, to which a NUL would be its end."""
    place = text.find("\0")
    if place >= 0:
        raise BadConfig(f"a NUL in {text[max(0, place - 40) : place + 40]!r}")
    return text.encode(errors="surrogateescape")
