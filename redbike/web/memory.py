"""The memory of the page: notes for browsers, and which forms were sent already.

It is only in this process, and its size is bounded.
"""

import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal

from redbike.web.keys import Keys
from redbike.web.selection import Found

BROWSERS, NOTES = 1000, 5  # the most browsers with notes, and the most notes of each
MOST_KEYS = 10_000  # the most keys of forms that were sent
MOST_IDS = 200_000  # the most job ids in all sets that were shown

Claim = Literal["ok", "again", "old"]


@dataclass(frozen=True, slots=True)
class Note:
    """A message that a browser shows once: the result of a form that it has sent."""

    text: str
    is_problem: bool = False
    is_open: bool = False  # whether the action has not ended yet
    is_refusal: bool = False  # nothing was done; a later note that is no refusal replaces it


class Memory:
    """Keeps notes, keys of used forms, and sets of jobs that were shown. Any thread may use it."""

    def __init__(self, keys: Keys) -> None:
        self.changing = threading.Lock()  # is held while a job is compared with a form or a request, and then set
        self._keys = keys
        self._lock = threading.Lock()
        self._notes: OrderedDict[str, list[Note]] = OrderedDict()
        self._used: OrderedDict[str, float] = OrderedDict()  # keys of forms that were sent, and when these were made
        self._oldest = time.time()  # for forms that are older than this, it is unknown whether they were sent
        self._sets: OrderedDict[str, frozenset[str]] = OrderedDict()
        self._ids = 0  # in all these sets

    def add_note(self, browser: str, note: Note) -> None:
        """Add a note for a browser. The next page that it loads shows the note."""
        with self._lock:
            unread = [each for each in self._notes.pop(browser, ()) if note.is_refusal or not each.is_refusal]
            self._notes[browser] = unread if unread[-1:] == [note] else [*unread, note][-NOTES:]
            if len(self._notes) > BROWSERS:
                self._notes.popitem(last=False)

    def take_notes(self, browser: str, keep: bool = False) -> list[Note]:
        """Return the notes for a browser, and remove them unless `keep`."""
        with self._lock:
            return list(self._notes.get(browser, ()) if keep else self._notes.pop(browser, ()))

    def make_once(self, browser: str) -> str:
        """Return a key for a form. However often the form is sent, its action is carried out once."""
        # The clock may have stepped back.
        made = max(time.time(), self._oldest + 1e-6)
        key = f"{made:.6f}.{secrets.token_hex(8)}"
        return f"{key}.{self._sign(key, browser)}"

    def claim(self, sent: str, browser: str) -> Claim:
        """Mark the key of a form as used. Return ``again`` if it was used before, and ``old`` if that is unknown."""
        key, _, signature = sent.rpartition(".")
        if not secrets.compare_digest(signature.encode(), self._sign(key, browser).encode()):
            return "old"
        made = float(key.rpartition(".")[0])
        with self._lock:
            if key in self._used:
                return "again"
            if made <= self._oldest:
                return "old"
            self._used[key] = made
            if len(self._used) > MOST_KEYS:
                self._oldest = max(self._oldest, self._used.popitem(last=False)[1])
            return "ok"

    def release(self, sent: str) -> None:
        """Allow the key of a form again, because nothing was done."""
        with self._lock:
            self._used.pop(sent.rpartition(".")[0], None)

    def is_used(self, sent: str) -> bool:
        """Tell whether the key of a form was used."""
        with self._lock:
            return sent.rpartition(".")[0] in self._used

    def _sign(self, key: str, browser: str) -> str:
        return self._keys.make_form(f"{browser} once {key}")

    def keep_set(self, found: Found) -> None:
        """Remember a set of jobs that was shown, to show later what has changed."""
        with self._lock:
            if found.digest in self._sets:
                self._sets.move_to_end(found.digest)
                return
            self._sets[found.digest] = frozenset(found.jobids)
            self._ids += len(found.jobids)
            while self._ids > MOST_IDS and len(self._sets) > 1:
                self._ids -= len(self._sets.popitem(last=False)[1])

    def get_set(self, digest: str) -> frozenset[str] | None:
        """Return the set of jobs with this digest; None if it is forgotten."""
        with self._lock:
            return self._sets.get(digest)
