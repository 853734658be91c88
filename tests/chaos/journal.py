"""Notes as lines of JSON in a file that several processes append to, each line by one write."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Journal:
    """Appends to the file at `path`."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def note(self, kind: str, **entry: Any) -> None:
        """Add one line; `kind` says what it is about."""
        os.write(self._handle, (json.dumps({"kind": kind, **entry}) + "\n").encode())

    @contextmanager
    def noted(self, kind: str, **entry: Any) -> Iterator[dict[str, Any]]:
        """Note what the block did, with ``began`` and ``ended``; it may add to the dict that it is given."""
        began = time.monotonic()
        yield entry
        self.note(kind, began=began, ended=time.monotonic(), **entry)


def entries(path: Path) -> list[dict[str, Any]]:
    """All that was noted in the file at `path`; nothing if there is none."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
