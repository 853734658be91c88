"""Run the command top, which shows the present state on a screen, and updates it every two seconds."""

import os
import select
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any

from redbike.cli.arguments import Arguments
from redbike.cli.bike import open_to_look
from redbike.cli.show import print_job, read_job
from redbike.cli.top_keys import Desk, Request
from redbike.config.file import Config
from redbike.connection.check import describe_address
from redbike.errors import BadConfig, BadJobId, RedbikeError, Unreachable
from redbike.facade.redbike import Redbike
from redbike.process.signals import SignalHandlers, leave_to_others
from redbike.queries.glance import View, find_jobs, read_view
from redbike.queries.health import MAX_LAG
from redbike.schedule.clock import Clock
from redbike.store.patterns import escape
from redbike.store.sharded.missing import tolerate_missing

INTERVAL = 2.0  # seconds
ROWS = 60  # the most rows of a table


def show_top(arguments: Arguments, config: Config) -> None:
    """Show the screen until somebody presses q, or a signal ends the command."""
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        raise BadConfig("top needs a terminal; redbike health, queues, workers and jobs work without one")
    # Imported here, because only a terminal needs it.
    from rich.console import Console
    from rich.live import Live

    from redbike.cli.top_screen import draw

    bike, desk = open_to_look(config, names_queues=True, acts=True), Desk()
    reader = _Reader(bike, desk)
    events = _Events()
    title = f"{bike.prefix} on {describe_address(bike.client)}"
    console = Console(highlight=False)
    with (
        SignalHandlers(lambda _: events.put(b"q")),
        events.hear(signal.SIGWINCH, b"w"),
        events.hear(signal.SIGTSTP, b"z"),
    ):
        with leave_to_others():
            threading.Thread(target=reader.read_on, args=(events,), daemon=True).start()
        while True:
            with _keys_come_at_once():
                with Live(console=console, screen=True, auto_refresh=False) as live:
                    request = None
                    while request is None:
                        width, height = console.size
                        clock = Clock(reader.view.glance.now if reader.view else 0.0, bike.settings.timezone)
                        live.update(draw(reader.view, reader.problem, title, clock, desk, width, height), refresh=True)
                        request = reader.take(events.wait(desk))
                if request.verb == "show":
                    _show(bike, request.jobid)
                    events.wait_for_key()
            if request.verb == "quit":
                return
            if request.verb == "stop":
                # Ctrl-Z: the terminal is restored already, so the shell can use it.
                os.kill(os.getpid(), signal.SIGSTOP)


def _show(bike: Redbike, jobid: str) -> None:
    """Print the output of ``redbike show`` for a job, on the restored terminal."""
    try:
        print_job(bike, jobid, read_job(bike, jobid))
    except (RedbikeError, OSError) as error:
        print(error)
    print("\nAny key goes back.", flush=True)


class _Reader:
    """Reads the data for the screen in its own thread, so that a hanging server does not block the keyboard."""

    def __init__(self, bike: Redbike, desk: Desk) -> None:
        self.view: View | None = None
        self.problem = "there was no answer yet"
        self._bike, self._desk = bike, desk
        self._requests: SimpleQueue[Request] = SimpleQueue()

    def read_on(self, events: "_Events") -> None:
        """Read the data every `INTERVAL` seconds, and carry out requests, until the process ends."""
        while True:
            try:
                with tolerate_missing() as missing:
                    view = self._read()
                self.view, self.problem = view, _describe_missing(list(missing.values()))
            except (RedbikeError, OSError) as error:
                self.problem = f"not of now: {error}" if self.view else str(error)
            events.put(b"r")
            with suppress(Empty):
                request = self._requests.get(timeout=INTERVAL)
                if request.verb != "look":
                    self._desk.said = self._carry_out(request)

    def take(self, requests: Sequence[Request]) -> Request | None:
        """Pass requests to the thread. Return the first request that needs the screen; None if there is none."""
        for request in requests:
            if request.verb in ("quit", "show", "stop"):
                return request
            self._requests.put(request)
        return None

    def _read(self) -> View:
        view = read_view(self._bike.store, ROWS, MAX_LAG, self._bike.settings)
        pattern = self._desk.pattern
        if not pattern:
            return view
        try:
            return replace(view, found=find_jobs(self._bike.store, pattern))
        except BadJobId as error:
            self._desk.pattern, self._desk.said = "", str(error)
            return view

    def _carry_out(self, request: Request) -> str:
        """Carry out a request, and return a sentence with the result."""
        verbs = {"run": self._bike.run, "pause": self._bike.pause, "resume": self._bike.resume}
        try:
            steered = list(verbs.get(request.verb, self._bike.cancel)(escape(request.jobid)))
        except (RedbikeError, OSError) as error:
            return f"{request.jobid}: {error}"
        return f"{request.verb} {request.jobid}: {steered[0].word if steered else 'there is no such job'}"


def _describe_missing(missing: Sequence[Unreachable]) -> str:
    """Return a line that says which shards do not answer; "" if all do."""
    more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
    return f"not all is shown{more}: {missing[0]}" if missing else ""


class _Events:
    """Waits for keys, signals and new data at the same time."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)

    def put(self, event: bytes) -> None:
        """Wake the waiting thread; a signal handler may call this. If the pipe is full, the event is not needed."""
        try:
            os.write(self._writer, event)
        except BlockingIOError:
            return

    def wait(self, desk: Desk) -> list[Request]:
        """Wait for an event, and return the requests by keys and signals."""
        heard, keys = self._hear()
        if b"q" in heard or keys == b"":
            return [Request("quit")]
        return [*([Request("stop")] if b"z" in heard else ()), *desk.press((keys or b"").decode(errors="replace"))]

    def wait_for_key(self) -> None:
        """Wait for a key, or a signal that ends or stops the program. The next `wait` gets this signal again."""
        while True:
            heard, keys = self._hear()
            if keys is not None or set(heard) & set(b"qz"):
                self.put(b"q" if keys == b"" else heard)
                return

    def _hear(self) -> tuple[bytes, bytes | None]:
        """Wait. Return the events, and the pressed keys: None without a key, b"" if the terminal is gone."""
        ready, _, _ = select.select([self._reader, sys.stdin], [], [])
        heard = os.read(self._reader, 1000) if self._reader in ready else b""
        return heard, os.read(sys.stdin.fileno(), 1000) if sys.stdin in ready else None

    @contextmanager
    def hear(self, number: signal.Signals, event: bytes) -> Iterator[None]:
        """Until the end of the block, put `event` for each signal with this number."""

        def handle(_: int, __: FrameType | None) -> None:
            self.put(event)

        before: Any = signal.signal(number, handle)
        try:
            yield
        finally:
            signal.signal(number, before)


@contextmanager
def _keys_come_at_once() -> Iterator[None]:
    """Until the end of the block, let the terminal send each key at once, without echo."""
    terminal = sys.stdin.fileno()
    try:
        before = termios.tcgetattr(terminal)
        tty.setcbreak(terminal)
        try:
            yield
        finally:
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
    except termios.error:
        raise RedbikeError("the terminal is gone") from None
