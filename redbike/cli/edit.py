"""Run the command edit: edit the rows of jobs in an editor, as crontab -e does with the lines of a crontab."""

import csv
import os
import re
import shutil
import signal
import sys
import tempfile
import termios
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from redbike.cli.arguments import Arguments
from redbike.cli.bike import open_bike
from redbike.cli.load import FIELDS, choose_first
from redbike.cli.messages import BAD, DONE, FAILED, complain
from redbike.cli.rows import print_rows, show_with
from redbike.config.file import Config
from redbike.config.labels import read_filter
from redbike.config.options import ALL_COLUMNS
from redbike.control.operator import name_operator
from redbike.control.remarks import describe_owner
from redbike.control.sync.changes import Change, describe_counts
from redbike.control.sync.editing import Cells, Edited, Editing, read_edited
from redbike.errors import BadConfig, RedbikeError
from redbike.facade.redbike import Redbike
from redbike.importers.rows import AS_TEXT
from redbike.process.leaving import name_signal
from redbike.store.enums import Difference
from redbike.store.patterns import expand

MOST = 10_000  # jobs in one file, which a person has to read
MOST_NAMED = 20  # jobs of other files that messages name
EDITORS = ("sensible-editor", "vi")  # without VISUAL and EDITOR, the first one that is installed
QUIET = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)  # signals of the terminal, which the editor handles
_FOR_SHELL = re.compile(r"[^\w./+-]")  # matches a command with arguments or shell syntax
UNCHANGED = "nothing was changed"


def edit_jobs(arguments: Arguments, config: Config) -> int:
    """Let a person edit the rows of jobs, show the changes, ask, and apply them. Return the exit status."""
    if not arguments["--yes"] and not (sys.stdin and sys.stdin.isatty()):
        raise BadConfig("edit asks before a change, but standard input is no terminal: --yes changes without asking")
    editor, bike = _find_editor(os.environ), open_bike(config, needs_queues=True)
    exported = _export(bike, arguments)
    folder = Path(tempfile.mkdtemp(prefix="redbike-edit-"))
    session = _Session(bike, exported, folder / "jobs.csv", editor, is_sure=arguments["--yes"])
    try:
        return session.run()
    except BaseException:
        session.is_kept = session.is_edited
        raise
    finally:
        if session.is_kept:
            complain(f"your edits are in {session.path}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _export(bike: Redbike, arguments: Arguments) -> dict[str, Cells]:
    """Return the rows of the named jobs, by id. Raise `NoSuchJob`, or `BadConfig` for more than `MOST` jobs."""
    patterns, tags = arguments["<PATTERN>"], read_filter(arguments["--tag"])
    jobids = expand(bike.store.catalog, patterns, tags=tags) if patterns or tags else None
    rows = sorted(islice(bike.store.rows.list_all(jobids), MOST + 1))
    if len(rows) > MOST:
        raise BadConfig(f"more than {MOST:,} jobs match: choose fewer by patterns or --tag, or use load")
    return {cells[0]: cells for cells in rows}


class _Session:
    """A file that a person edits, until the changes are applied or discarded."""

    def __init__(self, bike: Redbike, exported: Mapping[str, Cells], path: Path, editor: str, is_sure: bool) -> None:
        self.path, self.is_kept = path, False
        self._written: bytes | None = None  # what was in the file before somebody edited it
        self._exported, self._is_sure, self._editor = exported, is_sure, editor
        self._editing = Editing(bike.store.noted_as(name_operator()), bike.settings, exported)

    def run(self) -> int:
        """Run the editor until the file is valid or discarded, and apply the changes. Return the exit status."""
        self._write()
        self._written = self.path.read_bytes()
        while True:
            _run_editor(self._editor, self.path)
            if not self.is_edited:
                complain(UNCHANGED if self._read().strip() else f"the file is empty: {UNCHANGED}")
                return DONE
            status = self._try_to_apply()
            if status is not None:
                return status

    @property
    def is_edited(self) -> bool:
        """Whether the file was changed, and is not empty."""
        return self._written is not None and self._read() != self._written and bool(self._read().strip())

    def _read(self) -> bytes:
        return self.path.read_bytes() if self.path.exists() else b""

    def _write(self) -> None:
        with open(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", **AS_TEXT) as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(ALL_COLUMNS)
            rows.writerows(self._exported.values())

    def _try_to_apply(self) -> int | None:
        """Show the changes, ask, and apply them. Return the exit status, or None to edit again."""
        try:
            edited = read_edited(self.path, self._exported)
            conflicts = self._editing.find_conflicts(edited)
            edited = edited.leave_out(conflicts)
            changes = self._editing.preview(edited)
        except BadConfig as error:
            return self._refuse([str(error)])
        if bad := [change for change in changes if change.difference == Difference.BAD]:
            return self._refuse([_describe_bad(change) for change in bad])
        self._name_conflicts(conflicts)
        if not changes:
            complain(UNCHANGED)
            return FAILED if conflicts else DONE
        _show(changes)
        for jobid, owner in islice(self._editing.find_owners(edited).items(), MOST_NAMED):
            complain(describe_owner(jobid, owner))
        answer = "y" if self._is_sure else _ask("Change that? [y]es, [n]o, [e]dit again: ", "yne")
        if answer != "y":
            if answer == "n":
                complain(UNCHANGED)
            return None if answer == "e" else DONE
        return self._apply(edited, bool(conflicts))

    def _refuse(self, problems: Sequence[str]) -> int | None:
        """Print the problems, and ask whether to edit the file again. Return the exit status, or None to edit again."""
        for problem in problems:
            complain(problem)
        if not self._is_sure and _ask("Edit it again? [y]es, [n]o: ", "yn") == "y":
            return None
        complain(UNCHANGED)
        self.is_kept = True
        return BAD

    def _apply(self, edited: Edited, has_conflicts: bool) -> int:
        # Check again for conflicts: the person may have answered after a long time.
        late = self._editing.find_conflicts(edited)
        self._name_conflicts(late)
        edited = edited.leave_out(late)
        changes = self._editing.apply(edited)
        bad = [change for change in changes if change.difference == Difference.BAD]
        for change in bad:
            complain(_describe_bad(change))
        for jobid in edited.removed if bad else ():
            complain(f"{jobid}: it is not removed, as a row is bad")
        complain(describe_counts(Counter(change.difference for change in changes)))
        self.is_kept = bool(bad or late or has_conflicts)
        return BAD if bad else FAILED if self.is_kept else DONE

    def _name_conflicts(self, conflicts: Mapping[str, str]) -> None:
        for jobid, reason in conflicts.items():
            complain(f"{jobid}: {reason}, so it stays as it is now")
            self.is_kept = True


def _describe_bad(change: Change) -> str:
    return f"line {change.line}: {f'{change.jobid!r}: ' if change.jobid else ''}{change.error}"


def _show(changes: Sequence[Change]) -> None:
    """Print the changes: as a table on a terminal, otherwise as ``load`` does."""
    first, number = choose_first(changes)
    print_rows({"--format": None}, changes, FIELDS, lambda _: show_with("show_changes", number)(first), False)
    sys.stdout.flush()


def _ask(question: str, answers: str) -> str:
    """Return the letter of `answers` that a person types; ``n`` at the end of the input."""
    with suppress(termios.error):
        # Discard what was typed while the editor ran.
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    while True:
        print(question, end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            print(file=sys.stderr)
            return "n"
        if (answer := line.strip()[:1].lower()) and answer in answers:
            return answer


def _find_editor(environment: Mapping[str, str]) -> str:
    """Return the command of the editor, as a shell reads it. Raise `BadConfig` if there is none."""
    named = environment.get("VISUAL") or environment.get("EDITOR")
    found = named or next((name for name in EDITORS if shutil.which(name)), None)
    if not found:
        raise BadConfig("no editor is set: name one in the environment variable EDITOR")
    return found


def _run_editor(editor: str, path: Path) -> None:
    """Run an editor until it ends. Raise `RedbikeError` if it fails."""
    before = {number: signal.signal(number, lambda *_: None) for number in QUIET}
    try:
        argv = ["sh", "-c", f'{editor} "$1"', "sh"] if _FOR_SHELL.search(editor) else [editor]
        # The editor does not inherit a handler, but it would also ignore the signals that Python ignores.
        ignored = [signal.SIGPIPE, signal.SIGXFSZ]
        status = _wait(os.posix_spawnp(argv[0], [*argv, str(path)], os.environ, setsigdef=ignored))
    except OSError as error:
        raise RedbikeError(f"cannot run the editor {editor!r}: {error.strerror}") from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if code := os.waitstatus_to_exitcode(status):
        how = f"exit status {code}" if code > 0 else name_signal(-code)
        raise RedbikeError(f"the editor {editor!r} has ended with {how}: {UNCHANGED}")


def _wait(pid: int) -> int:
    """Wait until a child ends, and return its status. If the child is stopped, stop too, so that the shell resumes."""
    while True:
        _, status = os.waitpid(pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            return status
        os.kill(os.getpid(), signal.SIGSTOP)
        os.kill(pid, signal.SIGCONT)
