"""What it costs to load a file of schedules: ``python benchmarks/loading.py [ROWS]``.

A file of a million rows is loaded into an empty server of its own, then again unchanged, then with one row in a hundred
changed, and at last pruned of one row in a hundred. For each: rows a second, and the memory that the command needs at
most. Half of the rows have cron schedules, all others EVERY; each schedule is one of some thousands.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from redbike.connection.embedded import EmbeddedServer

ROWS = 1_000_000
PART = 100  # one row in so many is changed, or removed


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = EmbeddedServer(folder / ".redbike")
        server.start()
        try:
            write(folder, make_rows(rows))
            load(folder, rows, "new")
            load(folder, rows, "unchanged")
            write(folder, (f"{n}:A,EVERY:7h" if n % PART == 0 else row for n, row in enumerate(make_rows(rows))))
            load(folder, rows, "one in a hundred changed")
            write(folder, (row for n, row in enumerate(make_rows(rows)) if n % PART))
            load(folder, rows, "one in a hundred removed", "--prune")
        finally:
            server.stop()


def make_rows(number: int) -> Iterator[str]:
    for n in range(number):
        yield f"{n}:A,{n % 60} {n // 60 % 24} * * *" if n % 2 else f"{n}:A,EVERY:{60 + n % 3000}s"


def write(folder: Path, rows: Iterator[str]) -> None:
    with open(folder / "jobs.csv", "w", encoding="utf-8") as file:
        file.writelines(f"{row}\n" for row in rows)


def load(folder: Path, rows: int, what: str, *options: str) -> None:
    began = time.perf_counter()
    command = [sys.executable, "-m", "redbike", "load", "jobs.csv", *options]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    said = process.stderr.read().strip()
    _, status, used = os.wait4(process.pid, 0)
    took = time.perf_counter() - began
    assert status == 0, said
    memory = used.ru_maxrss / 1024  # Linux gives kilobytes
    print(f"{what:25} {rows / took:8,.0f} rows/s {took:6.1f} s {memory:4.0f} MB  {said}", flush=True)


if __name__ == "__main__":
    main()
