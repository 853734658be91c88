"""Read the INI file of `redbike.commands.Commands`: its commands, and the settings of each.

The environment of a command is that of the worker, or the small one that cron makes (crontab(5)).
"""

import configparser
import os
import pwd
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from signal import SIGTERM, Signals

from redbike.commands.values import (
    encode,
    find_operator,
    get_choice,
    get_path,
    get_seconds,
    make_argv,
    parse_signal,
    parse_statuses,
    parse_variable,
)
from redbike.config.definitions import MAX_COUNT, MAX_OUTPUT, MAX_SECONDS, read_choice, read_number, read_size
from redbike.config.file import explain_ini
from redbike.errors import BadConfig
from redbike.text.parsing import load_json
from redbike.text.printable import suggest

POLICIES = ("timeout", "on-error", "on-timeout", "retries", "backoff")
ENDS = ("success", "signal", "grace")
KEYS = (*POLICIES, *ENDS, "cwd", "shell", "env", "env-file", "input", "output", "on-failure")
COMMANDS, ALL = "commands", "*"  # the section of the command lines, and the one that holds for all commands
JSON = "json."  # before a key whose value is a JSON string

WORKER, CRON = "worker", "cron"  # the values of ``env``
CRON_PATH = "/usr/bin:/bin"
CRON_SHELL = "/bin/sh"


def make_small_environment(variables: Mapping[bytes, bytes], shell: str | None) -> dict[bytes, bytes]:
    """Return `variables` with those that cron sets: HOME, LOGNAME, PATH and SHELL. Only LOGNAME cannot be overridden.

    The values are those of the user of this process. Raise `BadConfig` if the system does not know that user.
    """
    try:
        user = pwd.getpwuid(os.geteuid())
    except KeyError:
        raise BadConfig(f"env is 'cron', but the system has no user with the id {os.geteuid()}") from None
    given = {
        b"HOME": os.fsencode(user.pw_dir),
        b"PATH": CRON_PATH.encode(),
        b"SHELL": os.fsencode(shell or CRON_SHELL),
    }
    return {**given, **variables, b"LOGNAME": os.fsencode(user.pw_name)}


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the INI file, with times in seconds.

    Bytes are passed to the system as they are. They are UTF-8, whatever the locale is.
    """

    name: str
    argv: tuple[bytes, ...]
    timeout: float | None = None
    cwd: bytes | None = None
    env: Mapping[bytes, bytes] = field(default_factory=dict)
    inherits: bool = True  # whether it gets the variables of the worker, too
    input: bytes = b""
    backoff: float = 60.0
    on_error: str | None = None
    on_timeout: str | None = None
    retries: int | None = None
    output: int | None = None  # bytes of its output that are kept with each run; None: the setting
    on_failure: tuple[bytes, ...] = ()  # the words of another command; empty for no command
    umask: int = -1  # -1: that of the worker
    success: frozenset[int] = frozenset({0})  # the exit statuses of a run that has succeeded
    env_file: str | None = None  # the path of a file with further variables
    signal: Signals = SIGTERM  # which asks it to end
    grace: float | None = None  # seconds until SIGKILL; None: that of the worker class
    operator: str = ""  # of a shell, such as ``>``; it is only a word here, as no shell reads the line


class IniParser(configparser.ConfigParser):
    """Parses an INI file literally: keys keep their case; ``%`` and ``[DEFAULT]`` have no special meaning."""

    def __init__(self) -> None:
        super().__init__(interpolation=None, default_section="")

    def optionxform(self, optionstr: str) -> str:
        """Return the key unchanged; the standard parser converts it to lower case."""
        return optionstr


def read_commands(filename: str) -> dict[str, Command]:
    """Return the commands of an INI file by name. Raise `BadConfig`, with the invalid text in one line."""
    commands = {}
    for found in list_commands(filename):
        if isinstance(found, BadConfig):
            raise found
        commands[found.name] = found
    return commands


def read_common(filename: str) -> Command:
    """Return a command with the settings of ``[*]``, for jobs without a command; none without a valid ``[*]``."""
    try:
        parser = parse_ini(filename)
        options = decode_options(parser[ALL]) if parser.has_section(ALL) else {}
        return make_command(ALL, ":", options, os.path.dirname(os.path.abspath(filename)))
    except BadConfig:
        return Command(ALL, ())


def list_commands(filename: str) -> Iterator[Command | BadConfig]:
    """Yield the commands of an INI file, and the errors in it."""
    try:
        parser = parse_ini(filename)
        if not parser.has_section(COMMANDS):
            raise BadConfig(f"{filename}: a section [commands] is needed")
    except BadConfig as error:
        yield error
        return
    lines = parser[COMMANDS]
    folder = os.path.dirname(os.path.abspath(filename))
    for section in parser.sections():
        if section not in (COMMANDS, ALL) and section not in lines:
            yield BadConfig(f"{filename}: section {section!r:.80} has no command of that name in [commands]")
    for name, line in lines.items():
        try:
            if "/" in name or " -" in name:
                raise BadConfig("a name cannot contain '/' or an option: is a colon missing after the name?")
            yield make_command(name, line, get_options(parser, name), folder)
        except BadConfig as error:
            yield BadConfig(f"{filename}: command {name!r:.80}: {error}")


def get_options(parser: IniParser, name: str) -> dict[str, str]:
    """Return the keys of the command's section, and other keys of ``[*]``. Raise `BadConfig`."""
    if name == ALL:
        raise BadConfig("the section [*] applies to all commands, so no command can have this name")
    # A command named "commands" cannot have settings of its own.
    sections = (ALL, name) if name != COMMANDS else (ALL,)
    options: dict[str, str] = {}
    for section in sections:
        if parser.has_section(section):
            options |= decode_options(parser[section])
    return options


def decode_options(section: Mapping[str, str]) -> dict[str, str]:
    """Return keys and values; ``json.KEY`` becomes ``KEY``, with the text of its JSON string. Raise `BadConfig`."""
    options = {}
    for key, value in section.items():
        name = key.removeprefix(JSON)
        if name in options:
            raise BadConfig(f"{name!r:.80} is given twice, with and without {JSON!r}")
        options[name] = value if name == key else parse_json(key, value)
    return options


def parse_json(key: str, text: str) -> str:
    """Return the text of a JSON string. Raise `BadConfig`."""
    value = load_json(text)
    if not isinstance(value, str):
        # The value is not quoted: it may hold a secret, and more people read the log than this file.
        raise BadConfig(f'bad {key}: a JSON string such as "a\\nb" is needed')
    return value


def parse_ini(filename: str) -> IniParser:
    """Return the sections and keys of an INI file. Raise `BadConfig` if it cannot be read or parsed."""
    parser = IniParser()
    try:
        with open(filename, encoding="utf-8-sig") as file:
            parser.read_file(file)
    except OSError as error:
        raise BadConfig(f"cannot read commands from {filename!r}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadConfig(f"cannot read commands from {filename!r}: it is not UTF-8") from None
    except ValueError:
        raise BadConfig(f"cannot read commands from {filename!r}: its name has a NUL") from None
    except configparser.Error as error:
        raise BadConfig(f"{filename}: {explain_ini(error, shows=True)}") from None
    return parser


def make_command(name: str, line: str, options: Mapping[str, str], folder: str) -> Command:
    """Return a command with its line and its settings; a relative ``cwd`` is in `folder`. Raise `BadConfig`."""
    env = {key: value for key, value in options.items() if key.startswith("env.")}
    for key in options:
        if key not in (*KEYS, *env):
            raise BadConfig(f"unknown key {key!r:.80}{suggest(key, KEYS)}")
    variables = dict(parse_variable(key, value) for key, value in env.items())
    inherits = read_choice("env", options.get("env", WORKER), (WORKER, CRON)) == WORKER
    if not inherits:
        variables = make_small_environment(variables, options.get("shell"))
    home = None if inherits else variables[b"HOME"].decode(errors="surrogateescape")
    cwd = options.get("cwd", home)
    unread = () if "shell" in options else (line, options.get("on-failure", ""))
    return Command(
        name,
        argv=make_argv(line, options.get("shell")),
        timeout=get_seconds("timeout", options, 0.001),
        cwd=None if cwd is None else encode(os.path.join(folder, cwd)),
        env=variables,
        inherits=inherits,
        input=encode(options.get("input", "")),
        backoff=read_number("backoff", options.get("backoff", "60"), 0, MAX_SECONDS, float),
        on_error=get_choice("on-error", options),
        on_timeout=get_choice("on-timeout", options),
        retries=read_number("retries", options["retries"], 0, MAX_COUNT, int) if "retries" in options else None,
        output=read_size("output", options["output"], MAX_OUTPUT) if "output" in options else None,
        on_failure=make_argv(options["on-failure"], options.get("shell")) if "on-failure" in options else (),
        success=parse_statuses("success", options.get("success", "0")),
        env_file=os.path.join(folder, get_path("env-file", options)) if "env-file" in options else None,
        signal=parse_signal("signal", options.get("signal", "TERM")),
        grace=get_seconds("grace", options),
        operator=next(filter(None, map(find_operator, unread)), ""),
    )
