"""What the page remembers of those who change something: what it has to tell them, and what they have sent already.

All of it is in this process alone, and bounded.
"""

import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal

from redbike.web.keys import Keys
from redbike.web.selection import Found

BROWSERS, NOTES = 1000, 5  # of which notes are kept, and how many for each
MOST_KEYS = 10_000  # of forms that were sent
MOST_IDS = 200_000  # in sets of jobs that were shown

Claim = Literal["ok", "again", "old"]


@dataclass(frozen=True, slots=True)
class Note:
    """What a browser is told once: what became of what it has sent."""

    text: str
    is_problem: bool = False
    is_open: bool = False  # whether it goes on
    is_refusal: bool = False  # nothing was done: the next note of something else replaces it


class Memory:
    """Remembers that. It is for many threads."""

    def __init__(self, keys: Keys) -> None:
        self.changing = threading.Lock()  # held by who compares a job with what a form has seen, and then sets it
        self._keys = keys
        self._lock = threading.Lock()
        self._notes: OrderedDict[str, list[Note]] = OrderedDict()
        self._used: OrderedDict[str, float] = OrderedDict()  # keys of forms, and when these were made
        self._oldest = time.time()  # no form that is older can be told from one that was sent already
        self._sets: OrderedDict[str, frozenset[str]] = OrderedDict()
        self._ids = 0  # in all these sets

    def add_note(self, browser: str, note: Note) -> None:
        """Tell a browser something with the next page that it loads."""
        with self._lock:
            unread = [each for each in self._notes.pop(browser, ()) if note.is_refusal or not each.is_refusal]
            self._notes[browser] = unread if unread[-1:] == [note] else [*unread, note][-NOTES:]
            if len(self._notes) > BROWSERS:
                self._notes.popitem(last=False)

    def take_notes(self, browser: str, keep: bool = False) -> list[Note]:
        """Return what a browser is to be told, and forget it, unless the memory is to `keep` it."""
        with self._lock:
            return list(self._notes.get(browser, ()) if keep else self._notes.pop(browser, ()))

    def make_once(self, browser: str) -> str:
        """Return a key for a form: what the form asks for is done once, however often it is sent."""
        # The clock may have stepped back.
        made = max(time.time(), self._oldest + 1e-6)
        key = f"{made:.6f}.{secrets.token_hex(8)}"
        return f"{key}.{self._sign(key, browser)}"

    def claim(self, sent: str, browser: str) -> Claim:
        """Use the key of a form up. The answer is ``again`` if it was used, and ``old`` if that cannot be known."""
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
        """Let the key of a form be used again, with which nothing was done."""
        with self._lock:
            self._used.pop(sent.rpartition(".")[0], None)

    def is_used(self, sent: str) -> bool:
        """Tell whether the key of a form was used up."""
        with self._lock:
            return sent.rpartition(".")[0] in self._used

    def _sign(self, key: str, browser: str) -> str:
        return self._keys.make_form(f"{browser} once {key}")

    def keep_set(self, found: Found) -> None:
        """Remember the jobs that somebody was shown, to say later what has changed."""
        with self._lock:
            if found.digest in self._sets:
                self._sets.move_to_end(found.digest)
                return
            self._sets[found.digest] = frozenset(found.jobids)
            self._ids += len(found.jobids)
            while self._ids > MOST_IDS and len(self._sets) > 1:
                self._ids -= len(self._sets.popitem(last=False)[1])

    def get_set(self, digest: str) -> frozenset[str] | None:
        """Return the jobs of this digest; None if they are forgotten."""
        with self._lock:
            return self._sets.get(digest)
