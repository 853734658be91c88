"""Interpret the keys that a person presses on the screen of `top`."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

QUIT = ("q", "Q")
CTRL_D, ENTER, ESCAPE, BACKSPACE = "\x04", ("\r", "\n"), "\x1b", ("\x7f", "\b")
ARROWS = {"\x1b[A": -1, "\x1bOA": -1, "k": -1, "\x1b[B": 1, "\x1bOB": 1, "j": 1}
VERBS = {"r": "run", "p": "pause", "u": "resume", "c": "cancel"}
BY_NEED, BY_NEXT, BY_ID = ORDERS = "what needs a person", "their next run", "their ids"  # of jobs that were found
LONGEST = 200  # characters that are typed
HELP = "↓↑ choose  Enter show  r run  p pause  u resume  c cancel  / find  q end"

_KEYS = re.compile(r"\x1b\[\[?[0-9;?]*[ -/]*[@-~]|\x1bO.|.", re.DOTALL)


class Request(NamedTuple):
    """A request: ``quit``, ``stop``, ``show``, ``look`` (for other jobs), or a value of `VERBS`; and for which job."""

    verb: str
    jobid: str = ""


@dataclass
class Desk:
    """The state of the keyboard input: the chosen job, the typed pattern, and the question that is open."""

    jobids: Sequence[str] = ()  # on the screen, from its top
    chosen: str = ""
    pattern: str = ""  # which jobs are shown; "" for the usual ones
    order: str = BY_NEED
    typed: str | None = None  # the pattern as typed so far; None while nobody types one
    question: Request | None = None  # it waits for y or n
    said: str = ""  # the result of the last request

    def press(self, keys: str) -> Iterator[Request]:
        """Handle keys, and yield the requests that they make."""
        for key in _KEYS.findall(keys):
            if key == CTRL_D or (key in QUIT and self.typed is None and not self.question):
                yield Request("quit")
            elif self.question:
                request, self.question = self.question, None
                if key in ("y", "Y"):
                    yield request
                else:
                    self.said = f"{request.jobid}: nothing was done."
            elif self.typed is not None:
                yield from self._type(key)
            else:
                yield from self._choose(key)

    def _type(self, key: str) -> Iterator[Request]:
        assert self.typed is not None
        if key in ENTER:
            self.pattern, self.typed, self.chosen = self.typed.strip(), None, ""
            yield Request("look")
        elif key == ESCAPE:
            self.typed = None
        elif key in BACKSPACE:
            self.typed = self.typed[:-1]
        elif key.isprintable() and len(self.typed) < LONGEST:
            self.typed += key

    def _choose(self, key: str) -> Iterator[Request]:
        self.said = ""
        if key in ARROWS:
            self._move(ARROWS[key])
        elif key == "/":
            self.typed = self.pattern
        elif key == ESCAPE:
            self.pattern = self.chosen = ""
            yield Request("look")
        elif key == "s":
            self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
            self.said = f"Jobs that are found are in the order of {self.order}."
        elif key in ENTER or key in VERBS:
            if not self.chosen:
                self.said = "No job is chosen: ↓ chooses one."
            elif key in ENTER:
                yield Request("show", self.chosen)
            else:
                self.question = Request(VERBS[key], self.chosen)

    def _move(self, step: int) -> None:
        if not self.jobids:
            return
        place = self.jobids.index(self.chosen) + step if self.chosen in self.jobids else 0
        self.chosen = self.jobids[min(max(place, 0), len(self.jobids) - 1)]

    def describe(self) -> str:
        """Return the last line of the screen: the question, the typed pattern, the result of a request, or the keys."""
        if self.question:
            return f"{self.question.verb.capitalize()} {self.question.jobid}? y: yes, any other key: no"
        if self.typed is not None:
            return f"Jobs with, or like: {self.typed}_   Enter finds them, Esc goes back"
        if self.said:
            return self.said
        return f"Jobs like {self.pattern}: Esc shows all, s sorts  {HELP}" if self.pattern else HELP
