"""Send a message of alerts: to a command on its standard input, or to a URL by POST.

Each line of a message is a JSON object. Slack gets the texts of all in one object. Sending takes a limited time.
`Sender.send` returns what went wrong, and raises no error.
"""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Mapping, Sequence
from html import escape
from typing import IO, NamedTuple

from redbike.config.alert_targets import read_target
from redbike.config.file import SECRETS, VARIABLE
from redbike.config.labels import NOTE, OWNER
from redbike.loop.web_client import call, make_opener
from redbike.process.signals import leave_to_others
from redbike.store.enums import Alert
from redbike.text.parsing import load_object
from redbike.text.printable import escape_lines

TIMEOUT = 30.0  # seconds that a command, or a call, may take
SILENCE = 10.0  # seconds without an answer of a service
GRACE = 2.0  # seconds between SIGTERM and SIGKILL
SHOWN = 200  # bytes of the output of a command that has failed
MOST_TEXTS = 40  # lines in a message for people
JSON, LINES = "application/json", "application/x-ndjson"


class Sent(NamedTuple):
    """What has become of a message."""

    is_sent: bool
    how: str  # what has happened, in words without any secret


class Sender:
    """Sends messages to the target of the setting `alert`; `prefix` is that of the keys."""

    def __init__(self, alert: str, prefix: str) -> None:
        self._target = read_target(alert)
        self._prefix = prefix

    @property
    def name(self) -> str:
        """The name of the target, without any secret."""
        return self._target.name

    def send(self, lines: Sequence[str]) -> Sent:
        """Send lines as one message; return whether it was sent, and why not."""
        try:
            return self._run(lines) if self._target.argv else self._post(lines)
        except OSError as error:
            return Sent(False, error.strerror or type(error).__name__)

    def _post(self, lines: Sequence[str]) -> Sent:
        body, kind = _format_lines(lines), JSON if len(lines) == 1 else LINES
        if self._target.is_slack:
            body, kind = json.dumps({"text": self.describe(lines)}).encode(), JSON
        request = urllib.request.Request(self._target.url, body, {"Content-Type": kind})
        answers: list[Sent] = []

        def post() -> None:
            answer = call(make_opener(), request, SILENCE, body)
            answers.append(Sent(not answer.problem, answer.problem or f"the answer is {answer.status}"))

        # A service that sends a byte now and then would hold it up for ever.
        thread = threading.Thread(target=post, name="redbike-alert", daemon=True)
        with leave_to_others():
            thread.start()
        thread.join(TIMEOUT)
        return answers[0] if answers else Sent(False, f"no answer within {TIMEOUT:g} s")

    def describe(self, lines: Sequence[str]) -> str:
        """Return a message for Slack, a line for each alert."""
        # What is between < and > there is a link, or calls people.
        texts = [escape(f"{self._prefix}: {_read(line, 'text')}", quote=False) for line in lines]
        more = [f"and {len(texts) - MOST_TEXTS} more"] if len(texts) > MOST_TEXTS else []
        return "\n".join([*texts[:MOST_TEXTS], *more])

    def _run(self, lines: Sequence[str]) -> Sent:
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as printed:
            # A file and not a pipe: nobody needs to write while the command reads, or does not.
            given.write(_format_lines(lines))
            given.seek(0)
            process = subprocess.Popen(
                self._target.argv,
                stdin=given,
                stdout=printed,
                stderr=subprocess.STDOUT,
                env=self._make_environment(lines),
                start_new_session=True,
            )
            try:
                status = process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                _end(process)
                return Sent(False, f"not done after {TIMEOUT:g} s{_read_end(printed)}")
            return Sent(status == 0, f"exit status {status}{_read_end(printed) if status else ''}")

    def _make_environment(self, lines: Sequence[str]) -> dict[str, str]:
        words = sorted({_read(line, "alert") for line in lines})
        inherited = {name: value for name, value in os.environ.items() if name not in SECRETS}
        return inherited | {f"{VARIABLE}ALERT": ",".join(words), f"{VARIABLE}PREFIX": self._prefix}


def format_alert(alert: Alert, text: str, since: float, due: float | None = None, jobid: str = "") -> str:
    """Return the line of an alert: a JSON object."""
    found = {"alert": alert.value, **({"jobid": jobid} if jobid else {}), "due": due, "since": since, "text": text}
    return json.dumps(found, ensure_ascii=False)


def find_jobid(line: str) -> str:
    """Return the job that a line is about; "" for none."""
    return _read(line, "jobid")


def add_labels(line: str, labels: Mapping[str, str | list[str]]) -> str:
    """Return a line with the labels of its job as further fields; owner and note are also added to its text."""
    found = load_object(line) or {}
    said = "; ".join(f"{name}: {labels[name]}" for name in (OWNER, NOTE) if name in labels)
    text = {"text": f"{found.get('text', '')} ({said})"} if said else {}
    return json.dumps({**found, **text, **labels}, ensure_ascii=False) if labels else line


def _read(line: str, name: str) -> str:
    """Return what a line has under a name; "" for one that somebody has damaged."""
    return str((load_object(line) or {}).get(name, ""))


def _format_lines(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode(errors="replace")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a command and its children."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)


def _read_end(printed: IO[bytes]) -> str:
    """Return the last line that a command has printed, behind a colon; "" for none."""
    size = printed.seek(0, os.SEEK_END)
    printed.seek(max(0, size - SHOWN))
    lines = escape_lines(printed.read())
    return f": {lines[-1]}" if lines else ""
