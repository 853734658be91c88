"""Run the command top: a screen that shows how things are, and is drawn anew every two seconds."""

import os
import select
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from redbike.cli.arguments import Arguments
from redbike.cli.bike import open_to_look
from redbike.config.file import Config
from redbike.connection.check import describe_address
from redbike.errors import BadConfig, RedbikeError
from redbike.facade.redbike import Redbike
from redbike.process.signals import SignalHandlers, leave_to_others
from redbike.queries.glance import View, read_view
from redbike.queries.health import MAX_LAG
from redbike.schedule.clock import Clock

INTERVAL = 2.0  # seconds
ROWS = 60  # of a table, at most
QUIT = b"qQ\x04"  # also Ctrl-D


def show_top(arguments: Arguments, config: Config) -> None:
    """Show it until somebody presses q, or a signal comes."""
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        raise BadConfig("top needs a terminal; redbike health, queues, workers and jobs say the same anywhere")
    # Imported here: without a terminal it is not needed.
    from rich.console import Console
    from rich.live import Live

    from redbike.cli.screen import draw

    bike = open_to_look(config, names_queues=True)
    reader = _Reader(bike)
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
            with _keys_come_at_once(), Live(console=console, screen=True, auto_refresh=False) as live:
                event = b""
                while event not in (b"q", b"z"):
                    width, height = console.size
                    clock = Clock(reader.clock, bike.settings.timezone)
                    live.update(draw(reader.view, reader.problem, title, clock, width, height), refresh=True)
                    event = events.wait()
            if event == b"q":
                return
            # Ctrl-Z: the shell gets its terminal as it was.
            os.kill(os.getpid(), signal.SIGSTOP)


class _Reader:
    """Reads what is shown, in a thread of its own: a server that hangs must not hold up the keyboard."""

    def __init__(self, bike: Redbike) -> None:
        self.view: View | None = None
        self.problem = "there was no answer yet"
        self._bike = bike

    @property
    def clock(self) -> float:
        """The time of what is shown, in epoch seconds."""
        return 0.0 if self.view is None else self.view.glance.now

    def read_on(self, events: "_Events") -> None:
        """Read every `INTERVAL` seconds, until the process ends."""
        pause = threading.Event()
        while True:
            try:
                self.view, self.problem = read_view(self._bike.store, ROWS, MAX_LAG, self._bike.settings.timezone), ""
            except (RedbikeError, OSError) as error:
                self.problem = f"not of now: {error}" if self.view else str(error)
            events.put(b"r")
            pause.wait(INTERVAL)


class _Events:
    """Waits for keys, signals and news at once."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)

    def put(self, event: bytes) -> None:
        """Wake who waits, also from a signal handler. One more makes no difference where very many wait."""
        try:
            os.write(self._writer, event)
        except BlockingIOError:
            return

    def wait(self) -> bytes:
        """Wait; return q or z if somebody wants to end or to stop it, or else anything."""
        ready, _, _ = select.select([self._reader, sys.stdin], [], [])
        heard = os.read(self._reader, 1000) if self._reader in ready else b""
        if sys.stdin in ready:
            keys = os.read(sys.stdin.fileno(), 1000)
            # The terminal is gone if there is nothing to read.
            heard += b"q" if not keys or set(keys) & set(QUIT) else b""
        return b"q" if b"q" in heard else b"z" if b"z" in heard else heard

    @contextmanager
    def hear(self, number: signal.Signals, event: bytes) -> Iterator[None]:
        """Put `event` for each signal of this kind."""

        def handle(_: int, __: FrameType | None) -> None:
            self.put(event)

        before: Any = signal.signal(number, handle)
        try:
            yield
        finally:
            signal.signal(number, before)


@contextmanager
def _keys_come_at_once() -> Iterator[None]:
    """Let the terminal pass on each key without a newline, and show none."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal)
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
