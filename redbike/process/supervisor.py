"""Supervise several processes in one foreground command: start, restart and stop them, and print their output.

1. Each child is a process group of its own. So Ctrl-C reaches only this process, which stops the children in order.
2. Each line of a child is printed after the child's name, but not in a log of JSON objects, which contain the name. If
   the reader is too slow, lines are dropped: no child ever waits for the reader.
3. A child that ends by itself is restarted after a pause, whatever its exit status. If a child was halted, or cannot
   begin because of bad input, or because the current folder is gone, all children are stopped.
4. A child whose supervisor is gone, even by ``kill -9``, stops by itself: see `redbike.process.child`.
5. Children that are named in `last`, such as a dispatcher, continue until all others have ended.
6. A second signal ends the children at once: by a second SIGTERM, and a few seconds later by SIGKILL.
"""

import contextlib
import logging
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from redbike.errors import BadConfig, RedbikeError
from redbike.process import watchdog
from redbike.process.child import HALTED, NAME, RUNNING, STOP, SUPERVISED
from redbike.process.leaving import AGAIN, name_signal
from redbike.process.outlet import BAD_INPUT, End, Outlet, Reader, open_outlets
from redbike.process.signals import SignalHandlers

log = logging.getLogger("redbike")

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds before a child is restarted
FIRST_LOOK, LONGEST_LOOK = 0.1, 1.0  # seconds between two checks whether a started child runs
KILL_TIMEOUT = 7.0  # seconds from a second signal to SIGKILL: longer than an abort, even if that begins late


def supervise(
    commands: Mapping[str, Sequence[str]],
    environment: Mapping[str, str],
    is_halted: Callable[[], bool],
    tags: bool = True,
    last: Collection[str] = (),
) -> int:
    """Run `commands` (name → arguments) until they are halted or stopped; return the exit status.

    `is_halted` tells whether there was a HALT. With `tags`, each line of a child begins with its name. The children
    named in `last` are told to stop when all others have ended, so that no occurrence is missed meanwhile.
    Raise `BadConfig` if a child cannot begin, with its reason.
    """
    supervisor = _Supervisor(commands, environment, is_halted, tags, last)
    with open_outlets() as supervisor.outlet:
        return supervisor.run()


class _Supervisor:
    outlet: Outlet

    def __init__(
        self,
        commands: Mapping[str, Sequence[str]],
        environment: Mapping[str, str],
        is_halted: Callable[[], bool],
        tags: bool,
        last: Collection[str],
    ) -> None:
        self.tags = tags
        self.last = last
        self.commands = commands
        self.environment = {**os.environ, **environment}
        self.is_halted = is_halted
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.stopping = threading.Event()
        self.reason = ""
        self.is_lost = False  # its folder was deleted
        self.status = 0
        self._stopped_at: float | None = None  # when the children were told to stop
        self._stop_lock = threading.Lock()
        self._look_lock = threading.Lock()
        # A thread reads these: a signal handler may put something, but must not wait.
        self._signals: queue.SimpleQueue[int] = queue.SimpleQueue()

    def run(self) -> int:
        with SignalHandlers(self._signals.put, lambda number: self._signals.put(-number)):
            signal_thread = threading.Thread(target=self._handle_signals)
            threads = {name: threading.Thread(target=self._keep_running, args=(name,)) for name in self.commands}
            for thread in (signal_thread, *threads.values()):
                thread.start()
            watchdog.begin()
            for name in threads.keys() - self.last:
                threads[name].join()
            self._send(signal.SIGTERM, self.last)
            for name in self.last:
                threads[name].join()
            self._signals.put(0)
            signal_thread.join()
        if self.is_lost:
            raise RedbikeError("the current folder was deleted: no process can be started again")
        if self.reason:
            raise BadConfig(self.reason)
        return self.status

    def _handle_signals(self) -> None:
        """Stop when the number of a signal comes, at once when it is negative (a second signal); return at 0."""
        while number := self._signals.get():
            if number > 0:
                self._stop()
            elif not self.status:
                self.status = 128 - number
                self._stop_at_once()

    def _stop(self) -> None:
        """Tell every child to stop after its current job, once."""
        with self._stop_lock:
            self.stopping.set()
            if self._stopped_at is None:
                watchdog.end()
                self._stopped_at = time.monotonic()
                self._send(signal.SIGTERM, self.commands.keys() - self.last)

    def _stop_at_once(self) -> None:
        self._stop()
        assert self._stopped_at is not None
        # A child ignores a second signal that comes earlier.
        time.sleep(max(0.0, self._stopped_at + 1.2 * AGAIN - time.monotonic()))
        deadline = time.monotonic() + KILL_TIMEOUT
        send_at = 0.0
        while (now := time.monotonic()) < deadline and self._list_running(self.commands):
            if now >= send_at:
                # Repeatedly: a child that has handled the first signal late would ignore a single second one.
                self._send(signal.SIGTERM, self.commands)
                send_at = now + AGAIN / 2
            time.sleep(0.02)
        for child in self._list_running(self.commands):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)

    def _list_running(self, names: Collection[str]) -> list[subprocess.Popen[bytes]]:
        children = [self.children[name] for name in names if name in self.children]
        return [child for child in children if child.poll() is None]

    def _send(self, number: signal.Signals, names: Collection[str]) -> None:
        for child in self._list_running(names):
            child.send_signal(number)
            assert child.stdin is not None
            with contextlib.suppress(OSError, ValueError):  # it has ended meanwhile
                child.stdin.write(STOP)
                child.stdin.flush()

    def _keep_running(self, name: str) -> None:
        pause = FIRST_PAUSE
        while not self.stopping.is_set():
            began = time.monotonic()
            end = self._run_once(name)
            if self.stopping.is_set():
                return
            if HALTED in end.reports:
                self._stop()
                return
            if end.status == BAD_INPUT and RUNNING not in end.reports:
                self.reason = self.reason or f"{name} cannot start: {end.reason or 'it gave no reason'}"
                self._stop()
                return
            if not _has_folder():
                self.is_lost = True
                self._stop()
                return
            pause = FIRST_PAUSE if time.monotonic() - began > LONGEST_PAUSE else min(LONGEST_PAUSE, pause * 2)
            log.error("%s %s; it is started again in %g s", name, _describe_exit(end.status), pause)
            self.stopping.wait(pause)
            # A child that noticed the HALT may have ended without a report.
            self._stop_if_halted()

    def _stop_if_halted(self) -> bool:
        """Stop if there was a HALT; return whether that is known."""
        with self._look_lock:
            if self.stopping.is_set():
                return True
            try:
                is_halted = self.is_halted()
            except Exception as error:
                log.debug("it is not known whether there was a HALT: %s", error)
                return False
            if is_halted:
                log.info("halted")
                self._stop()
            return True

    def _stop_if_halted_meanwhile(self, child: subprocess.Popen[bytes], reader: Reader) -> None:
        """Wait until `child` runs, and stop if there was a HALT while it started: the child takes it for an old one."""
        pause = FIRST_LOOK
        while child.poll() is None and not self.stopping.wait(pause):
            if reader.is_running() and self._stop_if_halted():
                return
            pause = min(2 * pause, LONGEST_LOOK)

    def _run_once(self, name: str) -> End:
        try:
            child, output, reports = self._start(name)
        except OSError as error:
            # Too many processes, or too many open files: a retry may succeed.
            log.error("%s cannot be started: %s", name, error.strerror)
            return End(1, b"", "")
        self.children[name] = child
        if self.stopping.is_set():
            child.terminate()
        reader = Reader(name if self.tags else "", output, reports, self.outlet)
        self._stop_if_halted_meanwhile(child, reader)
        # Do not wait for the end of the output: a process that a job has left behind may keep it open.
        status = child.wait()
        assert child.stdin is not None
        with contextlib.suppress(OSError):
            child.stdin.close()
        return reader.finish(status)

    def _start(self, name: str) -> tuple[subprocess.Popen[bytes], int, int]:
        """Start a child; return its process and the reading ends of its output and of its reports."""
        pipes: list[int] = []
        child = None
        try:
            for _ in range(2):
                pipes += os.pipe()
            output, output_end, reports, reports_end = pipes
            os.set_blocking(reports, False)
            child = subprocess.Popen(
                self.commands[name],
                env=self.environment | {SUPERVISED: f"{output} {reports_end}", NAME: name},
                stdin=subprocess.PIPE,
                stdout=output_end,
                stderr=subprocess.STDOUT,
                pass_fds=(output, reports_end),
                process_group=0,
            )
            return child, output, reports
        finally:
            for descriptor in pipes if child is None else (output_end, reports_end):
                os.close(descriptor)


def _has_folder() -> bool:
    try:
        return bool(os.getcwd())
    except OSError:
        return False


def _describe_exit(status: int) -> str:
    if status < 0:
        return f"was killed by {name_signal(-status)}"
    return f"ended with status {status}" if status else "ended with status 0, though nobody stopped it"
