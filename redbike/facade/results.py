"""Results that a caller must read, as nothing happens otherwise: dropping them is not silent."""

import logging
import warnings
from collections.abc import Iterator
from typing import Generic, Self, TypeVar

log = logging.getLogger("redbike")

T = TypeVar("T")


class Results(Iterator[T], Generic[T]):
    """The results of a call that works while they are read, such as `Redbike.set_many`.

    Read them to the end, or call `close` to leave out the rest. If they are dropped before, that is a line of log and a
    `RuntimeWarning`, as for a coroutine that nobody awaits. `call` is what the warning names.
    """

    def __init__(self, call: str, results: Iterator[T]) -> None:
        self._call = call
        self._results = results
        self.number = 0  # of those that the caller has had
        self._has_begun = False
        self._is_over = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        self._has_begun = True
        try:
            result = next(self._results)
        except BaseException:
            # The end, or an error that the caller hears of.
            self._is_over = True
            raise
        self.number += 1
        return result

    def close(self) -> None:
        """Leave out the rest: it is not done."""
        self._is_over = True
        close = getattr(self._results, "close", None)
        if close is not None:
            close()

    def __del__(self) -> None:
        if self._is_over:
            return
        if self._has_begun:
            # What works a batch at a time has done more than the caller has read.
            results = f"{self.number:,} result{'' if self.number == 1 else 's'}"
            text = f"{self._call} was dropped after {results}: later batches were not done"
        else:
            text = f"{self._call} was never read: nothing was done"
        log.warning("%s; read its results to the end, as with list()", text)
        warnings.warn(text, RuntimeWarning, stacklevel=2, source=self)
