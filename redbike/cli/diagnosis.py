"""Explain why a command line does not match the usage, and find the command that was meant."""

import re
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from redbike.cli.help import OVERVIEW, show_usage
from redbike.cli.messages import BAD, complain
from redbike.cli.usage import OR, Usage, UsageError, list_words, split_forms
from redbike.connection.urls import redact
from redbike.worker.loader import quote_spec

QUOTES_HINT = "; a schedule with spaces needs quotes"
RENAMED = {"requeue": "run"}  # commands of older versions
ELSEWHERE = {"alert": "; redbike health says what is wrong now, and redbike failures which jobs fail"}


def explain_mistake(usage: Usage, arguments: Sequence[str]) -> int:
    """Print why `arguments` do not match the usage, and the usage of the likely command. Return the exit status."""
    message, commands = diagnose(usage, arguments)
    complain(message)
    if len(commands) == len(usage.lines):
        print(f"\n{OVERVIEW.strip()}", file=sys.stderr)
    elif commands:
        print("\n".join(show_usage(usage, commands, sys.stderr)), file=sys.stderr)
    if len(commands) == 1:
        print(f"redbike help {commands[0]} explains it.", file=sys.stderr)
    return BAD


def diagnose(usage: Usage, arguments: Sequence[str]) -> tuple[str, list[str]]:
    """Return in one line why `arguments` do not match the usage, and the commands whose usage helps."""
    if not arguments:
        return "a command is needed", [*usage.lines]
    # If `split` fails, options and their values are not known. Then the first word that is a command counts.
    command = next((word for word in arguments if word in usage.lines), "")
    try:
        words, options = usage.split(arguments)
        command = ""
        command = usage.find_command(words)
        _check_options(usage, command, options)
        _check_alternatives(command, usage.lines[command], words[1:], options)
        _check_words(command, usage.lines[command], words[1:])
        _check_needed(command, usage.lines[command], words[1:], options)
        if command == "help":
            usage.find_command(words[1:])
    except UsageError as error:
        meant = _suggest(error, usage.get_options(command) if command else ())
        message = error.message.format(quote(error.word)) if error.word else error.message
        ending = f"; is {meant!r} meant?" if meant else error.hint
        shown = meant if meant in usage.lines else command
        return message + ending, [shown] if shown else []
    return f"bad usage of {command}", [command]


def quote(word: str) -> str:
    """Return an argument in quotes, without a password, and without the arguments of a worker class."""
    return repr(quote_spec(word) if re.match(r"[\w.:]+\(", word) else redact(word))


def _suggest(error: UsageError, first: Sequence[str]) -> str:
    """Return the known name that is most similar to the wrong word, if possible one in `first`; "" for none."""
    wanted = RENAMED.get(error.word, error.word.lstrip("-").lower())
    for names in (first, error.known):
        similar = get_close_matches(wanted, [name.lstrip("-") for name in names if name in error.known], 1)
        if similar:
            return next(name for name in names if name.lstrip("-") == similar[0])
    return ""


def _check_options(usage: Usage, command: str, options: Sequence[str]) -> None:
    """Raise `UsageError` for an option that `command` does not take, or that is repeated and must not be."""
    for name in options:
        if name not in usage.get_options(command):
            raise UsageError(f"{command} takes no {name}")
        if options.count(name) > 1 and not re.search(rf"{name}[=<>\w]*\]\.\.\.", usage.lines[command]):
            hint = "; --tag=a,b names jobs that have either tag" if name == "--tag" else ""
            raise UsageError(f"{name} is given more than once{hint}")


def _check_words(command: str, line: str, given: Sequence[str]) -> None:
    """Raise `UsageError` if the words after `command` do not match its `line`: a choice of words, then other words."""
    names = list_words(line)
    if names and OR in names[0]:
        allowed = names.pop(0).split(OR)
        if not given:
            raise UsageError(f"{command} needs {_join(allowed, 'or')}")
        if given[0] not in allowed:
            raise UsageError(f"{command}: unexpected {{}}", given[0], allowed)
        # Each choice may have its own form in the usage.
        own = [form for form in split_forms(line) if re.match(rf"redbike \[options\] {command} {given[0]}\b", form)]
        names = list_words(own[0])[1:] if len(own) == 1 and len(split_forms(line)) > 1 else names
        given = given[1:]
    needed = [name.removesuffix("...") for name in names if name[0] == "<"]
    if len(given) < len(needed):
        raise UsageError(f"{command} needs {' and '.join(needed[len(given) :])}")
    if len(given) > len(names) and not any("..." in name for name in names):
        hint = QUOTES_HINT if "<SCHEDULE>" in names else ""
        raise UsageError(f"{command}: unexpected {{}}", given[len(names)], hint=hint)


def _check_alternatives(command: str, line: str, given: Sequence[str], options: Sequence[str]) -> None:
    """Raise `UsageError` unless exactly one alternative in the parentheses is given: ids, or one of some options."""
    group = re.search(r"\((<[^()]*--[^()]*)\)", line)
    if group is None:
        return
    names = group[1].split(OR)
    chosen = [name for name in names if any(name.startswith(option) for option in options)]
    if given and not any("[<" in name for name in chosen):
        chosen = names[:1] + chosen
    if not chosen:
        raise UsageError(f"{command} needs {_join(names, 'or')}")
    if len(chosen) > 1:
        raise UsageError(f"{command} takes only one of {_join(chosen, 'and')}")


def _check_needed(command: str, line: str, given: Sequence[str], options: Sequence[str]) -> None:
    """Raise `UsageError` if this form of `command` needs an option that is missing."""
    for form in split_forms(line):
        verb = re.match(rf"redbike \[options\] {command} (\w+)", form)
        bare = re.sub(r"\[[^]]*\]|\([^)]*\)", "", form)
        missing = [name for name in re.findall(r"--\S+", bare) if name.partition("=")[0] not in options]
        if missing and (verb is None or verb[1] in given[:1]):
            raise UsageError(f"{command} needs {_join(missing, 'and')}", hint=ELSEWHERE.get(command, ""))


def _join(names: Iterable[str], conjunction: str) -> str:
    *first, last = names
    return f"{', '.join(first)} {conjunction} {last}" if first else last
