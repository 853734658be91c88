"""The ends of the outputs of the last runs of a job, the newest first, as one text in ``-outputs``.

Each output begins with `MARK`, the due time and the number of the try of its run, and a line feed. The lines of an
output are stored in a form that is safe to show, so they have no `MARK`. The due time and the try tell which of the
kept runs has printed it; see history.py. A lost run has no output.
"""

from collections.abc import Iterable
from operator import attrgetter

from redbike.errors import NoResult
from redbike.store.history import MAX_ATTEMPT, PastRun
from redbike.store.journal import Journal
from redbike.store.namespace import Part
from redbike.store.records import decode

MARK = "\x1e"
BUDGET = 1024 * 1024  # bytes of all outputs of a job
Key = tuple[float, int]  # the due time of a run, and the number of its try


def pack_output(due: float, attempt: int, text: str) -> str:
    """Return the output of a run as it is stored."""
    return f"{MARK}{due!r} {min(attempt, MAX_ATTEMPT)}\n{text}"


def count_older(history: int, size: int) -> int:
    """Return how many outputs of older runs may stay, if `history` runs are kept, with up to `size` bytes each."""
    return min(history, max(1, BUDGET // max(1, size))) - 1


def read_outputs(value: str) -> dict[Key, str]:
    """Return the stored outputs by due time and try. Skip damaged ones."""
    found = dict[Key, str]()
    for each in value.split(MARK)[1:]:
        head, _, text = each.partition("\n")
        due, _, attempt = head.partition(" ")
        try:
            # If one try has several outputs, the newest counts.
            found.setdefault((float(due), int(attempt)), text)
        except ValueError:
            continue
    return found


def read_newest(value: str | None) -> str | None:
    """Return the newest output of a stored text; None if the text is None."""
    return None if value is None else value.partition("\n")[2].partition(MARK)[0]


class Outputs(Part):
    """Reads the outputs of runs."""

    def read(self, jobid: str, number: int, failed: bool) -> str:
        """Return the output of the `number`-th newest run, or `failed` run. Raise `NoResult` if none is kept."""
        # In this order: the output of a run that is known is there by then.
        run = _find_run(jobid, Journal(self._namespace).list_runs([jobid]), number, failed)
        text = self._read_all(jobid).get((run.due, run.attempt))
        if text is None:
            raise NoResult(
                f"no output of that run of {jobid!r} is kept: it had no process, its worker was lost, "
                "or its job has no option output"
            )
        return text

    def find(self, run: PastRun) -> str | None:
        """Return what a run has printed; None if nothing is kept of it."""
        return self._read_all(run.jobid).get((run.due, run.attempt))

    def _read_all(self, jobid: str) -> dict[Key, str]:
        return read_outputs(decode(self._namespace.ask("hget", self._namespace.keys.outputs, jobid)))


def _find_run(jobid: str, runs: Iterable[PastRun], number: int, failed: bool) -> PastRun:
    kept = sorted((run for run in runs if run.has_failed or not failed), key=attrgetter("started"), reverse=True)
    if number > len(kept):
        raise NoResult(f"no output of {jobid!r}: it keeps only {len(kept)} of its {'failed ' * failed}runs")
    return kept[number - 1]
