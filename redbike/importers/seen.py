"""Remember the job ids of a file of any length in bounded memory: an SQLite database, which spills to the disk."""

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence

from redbike.errors import RedbikeError

MEMORY = 16 * 1024  # kilobytes of the database that stay in memory
MOST = 500  # ids in one query


class SeenIds:
    """The set of job ids that were seen so far. Only one thread at a time may use it."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def find(self, jobids: Sequence[str]) -> set[str]:
        """Return the ids among `jobids` that were seen before."""
        return {each.decode(errors="surrogatepass") for page in _encode_pages(jobids) for each in self._find(page)}

    def add(self, jobids: Sequence[str]) -> list[bool]:
        """Remember `jobids`. Return for each whether it is new: neither seen before, nor earlier in `jobids`."""
        are_new = list[bool]()
        for page in _encode_pages(jobids):
            found = self._find(page)
            with _name_errors():
                self._database.execute(f"INSERT OR IGNORE INTO seen VALUES {','.join(['(?)'] * len(page))}", page)
            for each in page:
                are_new.append(each not in found)
                found.add(each)
        return are_new

    def _find(self, page: list[bytes]) -> set[bytes]:
        marks = ",".join("?" * len(page))
        with _name_errors():
            return {row[0] for row in self._database.execute(f"SELECT id FROM seen WHERE id IN ({marks})", page)}


@contextlib.contextmanager
def open_seen() -> Iterator[SeenIds]:
    """Yield an empty `SeenIds`, which is deleted at the end. Raise `RedbikeError` if SQLite fails."""
    with _name_errors():
        # A database without a name is a temporary file of this process. The thread that uses it may change.
        database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    with contextlib.closing(database):
        with _name_errors():
            database.execute(f"PRAGMA cache_size = -{MEMORY}")
            # After a crash, nobody needs the content.
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("PRAGMA synchronous = OFF")
            database.execute("CREATE TABLE seen (id BLOB PRIMARY KEY) WITHOUT ROWID")
            # One transaction for all ids, because a transaction takes longer than an insert.
            database.execute("BEGIN")
        yield SeenIds(database)


def _encode_pages(jobids: Sequence[str]) -> Iterator[list[bytes]]:
    for first in range(0, len(jobids), MOST):
        # A refused id is perhaps not UTF-8.
        yield [jobid.encode(errors="surrogatepass") for jobid in jobids[first : first + MOST]]


@contextlib.contextmanager
def _name_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise RedbikeError(f"cannot remember the ids of the jobs in a temporary file: {error}") from error
