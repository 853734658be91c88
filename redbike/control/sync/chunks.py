"""The rows of a source, a chunk at a time. Each row is checked; the next rows are read while the server works."""

from collections import deque
from collections.abc import Iterator
from itertools import islice

from redbike.control.setter import CHUNK
from redbike.control.sync.changes import Row
from redbike.errors import BadConfig, BadJobId, RedbikeError
from redbike.importers.seen import SeenIds
from redbike.store.names import check_jobid
from redbike.store.rows import StoredRow


class Chunks:
    """The rows of a source, checked, a chunk at a time. An error of the source ends them."""

    def __init__(self, rows: Iterator[Row], seen: SeenIds, reads_ahead: bool) -> None:
        self._rows = rows
        self._seen = seen
        self._reads_ahead = reads_ahead
        self._ahead: deque[list[Row]] = deque()
        self.error: RedbikeError | None = None  # to raise after the rows before it

    def take(self) -> list[Row]:
        """Return the next chunk; [] at the end."""
        return self._ahead.popleft() if self._ahead else self._read()

    def look_ahead(self) -> list[Row]:
        """Return the chunk that `take` returns next; [] if it is not to be read yet."""
        if not self._ahead:
            self.read_ahead()
        return self._ahead[0] if self._ahead else []

    def read_ahead(self) -> None:
        """Read one more chunk, if the source does not block, and the last chunk did not need much memory."""
        if self._reads_ahead:
            self._ahead.append(self._read())
            self._reads_ahead = not _has_data(self._ahead[-1])

    def _read(self) -> list[Row]:
        try:
            return [] if self.error else _check(list(islice(self._rows, CHUNK)), self._seen)
        except RedbikeError as error:
            self.error = error
            return []


def name_stored(chunk: list[Row]) -> tuple[list[str], bool]:
    """Return the jobs of which the stored rows must be read, and whether to read their data as well."""
    return [row.jobid for row in chunk if not row.error], _has_data(chunk)


def match_stored(chunk: list[Row], found: list[StoredRow]) -> dict[str, StoredRow]:
    """Return the stored row of each job that `name_stored` names."""
    return dict(zip(name_stored(chunk)[0], found, strict=True))


def _has_data(chunk: list[Row]) -> bool:
    return any(row.changes.data is not None or row.pause or row.blackout for row in chunk)


def _check(chunk: list[Row], seen: SeenIds) -> list[Row]:
    """Refuse each row with a bad id, or with the id of an earlier row; remember the ids."""
    checked = []
    for row, is_new in zip(chunk, seen.add([row.jobid for row in chunk]), strict=True):
        error = row.error
        try:
            if row.jobid or not error:
                check_jobid(row.jobid)
                if not is_new:
                    error = BadConfig("another row before this one has the same job id")
        except BadJobId as bad:
            error = bad
        checked.append(row if error is row.error else row._replace(error=error))
    return checked
