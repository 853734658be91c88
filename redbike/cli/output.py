"""Run the command output, which prints the output of a run of a command, after the run or during it."""

import sys
from collections.abc import Iterable

from redbike.cli.arguments import Arguments, parse_count
from redbike.cli.bike import open_to_look
from redbike.cli.messages import DONE, FAILED, complain
from redbike.config.file import Config
from redbike.errors import BadConfig, NoResult
from redbike.facade.redbike import Redbike
from redbike.store.enums import Outcome
from redbike.store.history import PastRun
from redbike.store.live import Printed
from redbike.store.patterns import escape as escape_id
from redbike.text.printable import escape

MOST = 1000
LONGEST = 16384  # bytes of a line
UNKNOWN = "it is not known to have run: it was withdrawn or cancelled, or has expired, or its history is not kept"
LOOKS = 3  # polls of a silent run before a check whether it still runs


def print_output(arguments: Arguments, config: Config) -> int:
    """Print the stored output of a run; with ``--follow``, its output until it ends. Return the exit status."""
    number = parse_count(arguments, "--run", 1, most=MOST)
    bike, jobid = open_to_look(config), arguments["<JOBID>"]
    if arguments["--follow"]:
        if arguments["--run"] or arguments["--failed"]:
            raise BadConfig("--follow prints the present run, so give neither --run nor --failed")
        return _follow(bike, jobid)
    _print(bike.output(jobid, number, arguments["--failed"]))
    return 0


def _print(text: str) -> None:
    if text:
        print(text)


def _follow(bike: Redbike, jobid: str) -> int:
    """Print the output of the run in flight until it ends. Return 0 if the run succeeded, else 1.

    A run in a queue is waited for. Without both, print the stored output of the last run. Raise `NoResult` if none is.
    """
    lines = Lines()
    before, heard = bike.runs(escape_id(jobid), limit=1), bike.store.live.listen([jobid])
    # The run may have ended before this process listened.
    ended = None if _goes_on(bike, jobid) else _find_last(bike, jobid)
    silent = 0
    while ended is None:
        part = next(heard)
        silent = 0 if part else silent + 1
        _show(lines.split(part))
        if isinstance(part, PastRun):
            ended = part
        elif silent >= LOOKS and not _goes_on(bike, jobid):
            ended = _find_last(bike, jobid)
            if [ended] == before:
                complain(f"{jobid}: {UNKNOWN}")
                return FAILED
    _show(lines.finish())
    if not lines.is_any:
        _print_kept(bike, jobid)
    return DONE if ended.outcome == Outcome.OK else FAILED


def _show(lines: Iterable[bytes]) -> None:
    for line in lines:
        print(escape(line))
    sys.stdout.flush()


def _goes_on(bike: Redbike, jobid: str) -> bool:
    state = bike.store.questions.inspect([jobid])[0]
    return state.run is not None or state.waiting is not None


def _find_last(bike: Redbike, jobid: str) -> PastRun:
    """Return the newest run of a job. Raise `NoResult` if none is kept."""
    found = bike.runs(escape_id(jobid), limit=1)
    if not found:
        raise NoResult(f"no output of {jobid!r}: it does not run, and none of its runs is kept")
    return found[0]


def _print_kept(bike: Redbike, jobid: str) -> None:
    """Print the stored output of the last run, which ended before its worker knew of this listener."""
    try:
        _print(bike.output(jobid))
    except NoResult as error:
        print(f"redbike: {error}", file=sys.stderr)


class Lines:
    """Splits the output of a run into lines. It also splits a line of `LONGEST` bytes, so that it keeps little."""

    def __init__(self) -> None:
        self.is_any = False
        self._rest = b""
        self._is_parted = False  # whether the beginning of this line was returned already

    def split(self, part: Printed | PastRun | None) -> list[bytes]:
        """Return the lines that end in `part`. At the end of the run, also return a last line without an end."""
        if isinstance(part, PastRun):
            return self.finish()
        if part is None:
            return []
        self.is_any = True
        *lines, self._rest = (self._rest + part.text).split(b"\n")
        if lines and self._is_parted and not lines[0]:
            del lines[0]  # only the end of a line that was returned already
        self._is_parted = self._is_parted and not lines
        found = [line.rstrip(b"\r") for line in lines]
        if len(self._rest) >= LONGEST:
            # Keep an incomplete character for the next part.
            begun = next((number for number in (1, 2, 3) if self._rest[-number] >= 0xC0), 0)
            cut = len(self._rest) - begun
            found.append(self._rest[:cut])
            self._rest, self._is_parted = self._rest[cut:], True
        return found

    def finish(self) -> list[bytes]:
        """Return and forget the last line, if it has no end."""
        rest, self._rest, self._is_parted = self._rest, b"", False
        return [rest] if rest else []
