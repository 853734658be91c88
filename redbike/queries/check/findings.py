"""The findings of a check: problems, and remarks that a user should know."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from redbike.text.printable import escape

MOST_GROUPS = 1000  # that are counted separately
SAMPLES = 3  # jobs that are named for each group


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem, or a remark if not `is_problem`. `text` is a sentence without a full stop."""

    text: str
    is_problem: bool = True

    def __str__(self) -> str:
        """Return the finding as one line that is safe to print."""
        line = " ".join(self.text.splitlines())
        return f"{'problem' if self.is_problem else 'note'}: {escape(line.encode(errors='surrogateescape'))}"


@dataclass(frozen=True, slots=True)
class Needed:
    """`what` a worker must have for each of its jobs, such as a command; `is_there` tells if a job id has one."""

    what: str
    is_there: Callable[[str], bool]


def note(text: str) -> Finding:
    """Return a remark."""
    return Finding(text, is_problem=False)


class Groups:
    """Counts jobs that have the same problem, so that a million of them are one line."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._samples: dict[str, list[str]] = {}
        self._others = 0

    def add(self, name: str, jobid: str) -> None:
        """Count a job. Beyond `MOST_GROUPS` names, jobs are only counted together."""
        if name not in self._numbers and len(self._numbers) >= MOST_GROUPS:
            self._others += 1
            return
        self._numbers[name] = self._numbers.get(name, 0) + 1
        samples = self._samples.setdefault(name, [])
        if len(samples) < SAMPLES:
            samples.append(jobid)

    def describe(self) -> Iterator[tuple[str, str]]:
        """Yield each name with its jobs in words; the name is "" for those that were only counted."""
        for name, number in self._numbers.items():
            yield name, _describe_jobs(number, self._samples[name])
        if self._others:
            yield "", f"{self._others:,} more jobs"


def _describe_jobs(number: int, samples: Iterable[str]) -> str:
    names = ", ".join(map(repr, samples))
    if number == 1:
        return f"the job {names}"
    return f"{number:,} jobs, such as {names}" if number > SAMPLES else f"the jobs {names}"
