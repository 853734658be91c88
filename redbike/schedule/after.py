"""The schedules ``AFTER`` and ``GROUP``: their job is due when other jobs, or all jobs of a group, have ended."""

import re
from collections.abc import Iterable
from typing import Any, Self

from redbike.errors import BadSchedule, quoted
from redbike.schedule.kinds import Keyword
from redbike.schedule.moments import AWAITED, END_OF_TIME, join_words
from redbike.text.group_names import MARK, find_problem
from redbike.text.printable import CONTROL

MOST_PARENTS = 64
MOST_BYTES = 512  # of a job id
ENDINGS = {
    "ok": ("has succeeded", "have succeeded"),
    "failed": ("has failed", "have failed"),
    "any": ("has ended", "have ended"),
}
ONCE = "once:"
_ONCE = re.compile(ONCE + r"\d{1,12}(\.\d{1,6})?", re.ASCII)


class After(Keyword):
    """Run when each of `parents` (job ids) has ended an occurrence as `ending` says, which is one of `ENDINGS`.

    With `once`, the due time of an occurrence of a backfill, it is over after the run for this due time.
    """

    keyword = "AFTER:"
    is_awaiting = True

    def __init__(self, parents: Iterable[str], ending: str = "ok", once: str = "") -> None:
        self.parents = tuple(dict.fromkeys(parents))
        self.ending = ending
        self.text = self.keyword + ",".join(map(escape_parent, self.parents)) + f" {ending}" * (ending != "ok")
        self._last = float("inf")
        if once:
            self.runs_once, self._last, self.text = True, float(once), f"{self.text} {ONCE}{once}"

    @classmethod
    def parse(cls, rest: str, timezone: str, anchor: float) -> Self:
        """Make a schedule from ``JOBID[,JOBID…] [ok|failed|any]``. Raise `BadSchedule`."""
        whole = quoted(f"{cls.keyword}{rest}")
        if CONTROL.search(rest):
            raise BadSchedule(f"bad schedule {whole}: control characters are not allowed")
        listed = ",".join(map(_strip_blanks, _split(rest.strip(), ",")))
        names, *endings = filter(None, _split(listed, " ")) if listed else ("",)
        once = endings.pop()[len(ONCE) :] if endings and _ONCE.fullmatch(endings[-1]) else ""
        ending = endings[0].lower() if endings else "ok"
        if len(endings) > 1 or ending not in ENDINGS:
            what = quoted(" ".join(endings))
            known = "only ok, failed or any may follow the job ids; a space in an id needs a backslash before it"
            raise BadSchedule(f"bad schedule {whole}: {what}: {known}")
        parents = [re.sub(r"\\(.)", r"\1", name) for name in _split(names, ",")]
        if long := next((each for each in parents if len(each.encode()) > MOST_BYTES), ""):
            raise BadSchedule(f"bad schedule {whole}: {quoted(long)} has over {MOST_BYTES} bytes, so it is no job id")
        if not all(parents):
            raise BadSchedule(f"bad schedule {whole}: a job id is missing")
        if len(set(parents)) > MOST_PARENTS:
            raise BadSchedule(f"bad schedule {whole}: {len(set(parents))} jobs, {MOST_PARENTS} are allowed")
        return cls(parents, ending, once)

    def find_place(self, after: float) -> float | None:
        """Return `AWAITED`, as only the end of its parents makes it due; None after the run for its last due time."""
        return AWAITED if after < self._last else None

    def find_parents(self) -> dict[str, Any]:
        """Return `parents` (the jobs that make it due) and `when` (how they must end)."""
        return {"parents": self.parents, "when": self.ending}

    def explain(self, timezone: str = "UTC") -> str:
        """Return a sentence in plain English that says when it runs."""
        one, each = ENDINGS[self.ending]
        when = "Once, when" if self.runs_once else "When"
        if len(self.parents) == 1:
            return f"{when} {self.parents[0]} {one}."
        since = "" if self.runs_once else ", each at least once since it was due last"
        return f"{when} {join_words(self.parents)} {each}{since}."


def escape_parent(jobid: str) -> str:
    """Return a job id for the text of a schedule: with a backslash before blanks, commas and backslashes."""
    return re.sub(r"([\\, ])", r"\\\1", jobid)


def _split(text: str, separator: str) -> list[str]:
    """Split `text` at each separator without a backslash before it. Backslashes stay."""
    parts, is_escaped = [""], False
    for character in text:
        if character == separator and not is_escaped:
            parts.append("")
        else:
            parts[-1] += character
        is_escaped = character == "\\" and not is_escaped
    return parts


def _strip_blanks(text: str) -> str:
    """Return `text` without the blanks at its ends that have no backslash before them."""
    bare = text.strip(" ")
    is_escaped = (len(bare) - len(bare.rstrip("\\"))) % 2
    return f"{bare} " if is_escaped and text.endswith(" ") else bare


class Group(After):
    """Run once, when each job of the group `name` has ended, well or not."""

    keyword = "GROUP:"
    # Setting it closes the group, even if the job has this schedule already.
    runs_once = is_command = True

    def __init__(self, name: str) -> None:
        super().__init__([MARK + name], "any")
        self.name = name
        self.text = f"{self.keyword}{name}"

    @classmethod
    def parse(cls, rest: str, timezone: str, anchor: float) -> Self:
        """Make a schedule from the name of a group. Raise `BadSchedule`."""
        name = rest.strip()
        if problem := find_problem(name):
            raise BadSchedule(f"bad schedule {quoted(f'{cls.keyword}{rest}')}: {problem}")
        return cls(name)

    def find_place(self, after: float) -> float | None:
        """Return `AWAITED`, or None after its run. A run that a person has requested before does not count."""
        return AWAITED if after == float("-inf") or after >= END_OF_TIME else None

    def explain(self, timezone: str = "UTC") -> str:
        """Return a sentence in plain English that says when it runs."""
        return f"Once, when each job of the group {self.name} has ended."
