"""The names of groups of jobs, and the mark of a group among job ids."""

from redbike.text.parsing import DEFAULT
from redbike.text.printable import CONTROL

MARK = "\x1d"  # before the name of a group among the parents and followers of jobs; no job id contains it
MOST_BYTES = 200


def find_problem(name: object) -> str:
    """Return why `name` cannot be the name of a group; "" if it can."""
    if not isinstance(name, str):
        return "the name of a group is a text"
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "the name of a group is UTF-8"
    if not name:
        return "the name of a group is missing"
    if size > MOST_BYTES:
        return f"the name of a group has {MOST_BYTES} bytes at most, and this one {size}"
    if CONTROL.search(name) or name != name.strip():
        return "control characters, and spaces at its ends, are not allowed in the name of a group"
    if name.lower() == DEFAULT:
        return f"{DEFAULT!r} takes a job out of its group, so it is not allowed as the name of a group"
    return ""


def is_group(parent: str) -> bool:
    """Tell whether this parent of a job is a group."""
    return parent.startswith(MARK)


def name_parent(parent: str) -> str:
    """Return a parent in words: the id of a job, or ``group import-7``."""
    return f"group {parent.removeprefix(MARK)}" if is_group(parent) else parent


def is_jobid(text: str) -> bool:
    """Tell whether a text is the id of a job. A mark of anything else begins with a control character."""
    return text >= " "
