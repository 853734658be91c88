"""Read the commands of a file, and read it again when it changes while a worker runs, without a restart.

`CommandFile.get` checks the file first, at most every `LOOK` seconds. An idle worker calls it each second, and a busy
worker for each run, so no thread is needed.
"""

import logging
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from redbike.commands.file import Command, read_commands, read_common
from redbike.errors import BadConfig
from redbike.text.printable import name_some

log = logging.getLogger("redbike.commands")

LOOK = 0.5  # seconds between two checks of the file
SETTLED = 0.3  # seconds after a change in which somebody may still be writing
MOST_NAMES = 10  # that a line of the log has

Signature = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CommandSet:
    """The commands of a file, as they were read at one time."""

    commands: Mapping[str, Command]
    common: Command  # its settings are for jobs without a command
    revision: int  # a new number each time the file is read


NO_COMMANDS = CommandSet({}, Command("*", ()), 1)


class CommandFile:
    """Reads the commands of the file at `path`, from any thread. Without a path there are none."""

    def __init__(self, path: str | None) -> None:
        self._path = path or ""
        self._set: CommandSet | None = NO_COMMANDS if path is None else None
        self._signature: Signature = ()  # of the file as it was read, or refused
        self._changing: Signature | None = None  # of the file at the last check, if it was another one
        self._looked = 0.0  # by the monotonic clock
        self._reading = threading.Lock()

    def get(self) -> CommandSet:
        """Return the commands of the file, or the last valid ones if the file has become invalid.

        Raise `BadConfig` if it is invalid the first time.
        """
        known = self._set
        if known is NO_COMMANDS or (known is not None and time.monotonic() - self._looked < LOOK):
            return known
        with self._reading:
            if self._set is None:
                self._signature = self._look()
                self._set = CommandSet(read_commands(self._path), read_common(self._path), 1)
            elif time.monotonic() - self._looked >= LOOK:
                self._set = self._read_again(self._set)
            self._looked = time.monotonic()
            return self._set

    def _read_again(self, known: CommandSet) -> CommandSet:
        """Return the commands of the file if it has changed and they are valid, else those that are `known`."""
        signature = self._look()
        if signature == self._signature:
            self._changing = None
            return known
        if not self._is_settled(signature):
            self._changing = signature
            return known
        try:
            commands, common = read_commands(self._path), read_common(self._path)
        except BadConfig as error:
            self._signature = signature
            log.error("%s; the previous commands stay in force", error)
            return known
        if self._look() != signature:
            return known  # the file is changing just now
        self._signature, self._changing = signature, None
        log.info("%s was read again: %s", self._path, describe_changes(known.commands, commands))
        return CommandSet(commands, common, known.revision + 1)

    def _is_settled(self, signature: Signature) -> bool:
        """Tell whether the file is complete: nobody has written to it since the last check, or just now."""
        if signature == self._changing:
            return True
        # An editor may have removed the file, to write it again.
        return bool(signature) and abs(time.time() - signature[2] / 1e9) >= SETTLED

    def _look(self) -> Signature:
        """Return a value that changes when the file changes; an empty one if there is no such file."""
        try:
            found = os.stat(self._path)
        except (OSError, ValueError):
            return ()
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def describe_changes(before: Mapping[str, Command], after: Mapping[str, Command]) -> str:
    """Return which commands were added, changed and removed."""
    both = before.keys() & after.keys()
    kinds = {
        "added": after.keys() - before.keys(),
        "changed": {name for name in both if before[name] != after[name]},
        "removed": before.keys() - after.keys(),
    }
    parts = (f"{kind} {name_some([*map(repr, sorted(names))], MOST_NAMES)}" for kind, names in kinds.items() if names)
    return "; ".join(parts) or "no changes"
