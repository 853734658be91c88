"""Handle the signals that end a process: SIGTERM, SIGINT and SIGHUP.

1. After the first signal the process stops in order.
2. A further signal ends it at once, but only if it comes at least `AGAIN` seconds after the first. A service manager
   signals every process of a service, and a supervisor passes its own signal on: the two must count as one.
3. In a process that a job forks, the handlers that were there before are restored.
4. A job may hang in a call into C, so that the main thread runs no handler. Then another thread acts.
5. A job may ignore these signals, or handle them. They stop its worker all the same; its handler is called, too.

A handler sets a `StopFlag`. It raises nothing: Python may run it in a finalizer, where an exception is printed and
dropped. It takes no lock: the code that it interrupts may hold that lock.
"""

import _thread
import contextlib
import importlib
import os
import select
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from redbike.process.leaving import AGAIN, die, set_default

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
OVER = b"\0"  # no signal has this number
BROKEN = 0.2  # seconds between two checks of a flag whose descriptors a job has closed

_signal: Any = importlib.import_module("_signal")  # the part of `signal` that is in C
_active: list["SignalHandlers"] = []


def die_as_process_1() -> None:
    """Let signals end this process, also if it is process 1 of a container, which ignores those without a handler."""
    if os.getpid() == 1:
        for number in ENDING:
            signal.signal(number, lambda received, _: die(received))


def reap_children() -> None:
    """Undo an ignored SIGCHLD, which a process inherits: with it, the exit status of a child cannot be read."""
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


class StopFlag:
    """A flag that tells whether to stop. A signal handler may set it; that wakes every thread that waits or polls."""

    def __init__(self) -> None:
        self._is_set = False
        self._reader, self._writer = os.pipe()
        weakref.finalize(self, _close, self._reader, self._writer)

    def fileno(self) -> int:
        """Return a descriptor that is readable once the flag is set."""
        return self._reader

    def is_set(self) -> bool:
        """Tell whether the flag is set."""
        return self._is_set

    def set(self) -> None:
        """Set the flag, for good."""
        if not self._is_set:
            self._is_set = True
            with contextlib.suppress(OSError):  # a job has closed it
                os.write(self._writer, b"!")

    def wait(self, seconds: float) -> bool:
        """Wait for the flag for up to `seconds`; tell whether it is set."""
        until = time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        poll.poll(seconds * 1000)
        while not self._is_set and (left := until - time.monotonic()) > 0:
            # A job has closed its descriptors.
            time.sleep(min(BROKEN, left))
        return self._is_set


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)


class SignalHandlers:
    """Handles the signals that end a process during a ``with`` in the main thread. Does nothing in other threads.

    `first` is called with the number of the first signal, `again` with the number of the second signal that counts.
    Any thread may call them. Without `again`, the second signal ends the process, even if its main thread hangs in a
    call into C. With `again`, jobs run meanwhile: what they set for these signals does not replace the handlers.
    """

    def __init__(self, first: Callable[[int], None], again: Callable[[int], None] = die) -> None:
        self._first, self._second = first, again
        self._has_jobs = again is not die
        self._first_time: float | None = None
        self._told = _thread.allocate_lock()  # held once the first signal is handled
        self._acted = _thread.allocate_lock()  # held once the second signal is handled
        self._pipe: tuple[int, int] | None = None  # the C code that receives a signal writes its number there
        self._watching_in = 0  # the id of the process whose thread reads the pipe
        self._replaced: dict[int, Any] = {}
        self._wished: dict[int, Any] = {}  # the handlers that the running job has set
        self._set_handler = _signal.signal
        self._changing = threading.Lock()

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            _active.append(self)
            if self._has_jobs:
                self._open_pipe()
            for number in ENDING:
                # nohup makes a process ignore SIGHUP: keep that.
                if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                    self._replaced[number] = signal.signal(number, self._handle)
            if self._has_jobs:
                # This is what `signal.signal` calls, however it was imported.
                self._set_handler, _signal.signal = _signal.signal, self._note_wish

    def __exit__(self, *_: object) -> None:
        with self._changing:
            self.restore()
        if self in _active:
            _active.remove(self)

    def _open_pipe(self) -> None:
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        if before == -1:
            self._pipe, self._watching_in = (reader, writer), os.getpid()
            _thread.start_new_thread(self._watch, (reader,))
            return
        # The descriptor that was set is the pipe of an event loop, which needs it.
        signal.set_wakeup_fd(before)
        _close(reader, writer)

    def _close_pipe(self) -> None:
        if self._pipe:
            (reader, writer), self._pipe = self._pipe, None
            with contextlib.suppress(OSError, ValueError):  # a job has closed them
                if (before := signal.set_wakeup_fd(-1)) != writer:
                    signal.set_wakeup_fd(before)
                if self._watching_in == os.getpid():
                    os.write(writer, OVER)
                else:
                    os.close(reader)
                os.close(writer)

    def restore(self) -> None:
        """Install the handlers that were installed before."""
        if _signal.signal == self._note_wish:
            _signal.signal = self._set_handler
        self._wished.clear()
        self._close_pipe()
        while self._replaced:
            number, handler = self._replaced.popitem()
            # None: the handler was not installed by Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _note_wish(self, number: int, handler: Any) -> Any:
        """Do what ``signal.signal`` does, but never replace a handler of ours."""
        if number not in self._replaced or threading.current_thread() is not threading.main_thread():
            return self._set_handler(number, handler)
        before = self._wished.pop(number, self._handle)
        if handler != self._handle:
            self._wished[number] = handler
        return before

    def forget_wishes(self) -> list[int]:
        """Forget the handlers that the last job has set; return the numbers of their signals."""
        wished = list(self._wished)
        self._wished.clear()
        if wished and self._pipe:
            # An event loop of the job may have replaced the pipe.
            with contextlib.suppress(OSError, ValueError):
                signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        return wished

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # If a thread watches, only that thread knows when each signal has arrived: the main thread may be late.
        self._act(number, time.monotonic(), may_be_second=not self._is_watched())
        if callable(wished := self._wished.get(number)):
            wished(number, frame)

    def _is_watched(self) -> bool:
        """Tell whether the thread receives each signal: an event loop of a job may have replaced the pipe."""
        if not self._pipe:
            return False
        with contextlib.suppress(OSError, ValueError):
            before = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
            if before == self._pipe[1]:
                return True
            signal.set_wakeup_fd(before)
        return False

    def tell(self, number: int) -> None:
        """Act as on a first signal `number`, in any thread; do nothing if there was one."""
        self._act(number, time.monotonic(), may_be_second=False)

    def _act(self, number: int, now: float, may_be_second: bool) -> None:
        if self._told.acquire(blocking=False):
            self._first_time = now
            if not self._has_jobs:
                _thread.start_new_thread(self._set_default_later, ())
            self._first(number)
        elif may_be_second and now - (self._first_time or now) >= AGAIN and self._acted.acquire(blocking=False):
            self._second(number)

    def _set_default_later(self) -> None:
        """Set the default action after `AGAIN` seconds, in this thread: the main one may hang in a call into C."""
        time.sleep(AGAIN)
        with self._changing:
            for number in self._replaced:
                set_default(number)

    def _watch(self, reader: int) -> None:
        """Act on signals in this thread: the main one may hang in a call into C."""
        received, has_heard = b"", False
        with contextlib.suppress(OSError):
            while OVER not in received and (received := os.read(reader, 64)):
                now = time.monotonic()
                for number in received:
                    if number in self._replaced:
                        self._act(number, now, may_be_second=has_heard)  # the main thread may have handled the first
                        has_heard = True
            os.close(reader)


def tell(number: int) -> bool:
    """Handle signal `number`, from any thread, as if it had been received: a job may ignore the real signal.

    Return False, and do nothing, if there are no `SignalHandlers`: the process may be at its end.
    """
    for handlers in _active[-1:]:
        handlers.tell(number)
        return True
    return False


def forget_wishes() -> list[int]:
    """Forget the handlers that the last job has set for signals of `ENDING`; return the numbers of these signals."""
    return _active[-1].forget_wishes() if _active and _active[-1]._wished else []


@contextlib.contextmanager
def leave_to_others() -> Iterator[None]:
    """Block the signals that end a process in the threads that are started meanwhile.

    The system may deliver a signal to any thread. Then the main thread, which has to handle it, would not wake up.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Masks(threading.local):
    """The signals that the forking thread had blocked before the fork."""

    before: set[int | signal.Signals] | None = None


_masks = _Masks()


def _block_signals() -> None:
    # The child unblocks them after it has restored its handlers. Otherwise it could lose a signal before that.
    if _active:
        _masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)


def _unblock_signals() -> None:
    if _masks.before is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _masks.before)
        _masks.before = None


def _restore_in_child() -> None:
    while _active:
        _active.pop().restore()
    _unblock_signals()


os.register_at_fork(before=_block_signals, after_in_parent=_unblock_signals, after_in_child=_restore_in_child)


def interrupts_caller(error: BaseException) -> bool:
    """Tell whether `error` is a Ctrl-C for the caller: only Python's own handler is installed, as with `work_one`."""
    return (
        issubclass(type(error), KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
