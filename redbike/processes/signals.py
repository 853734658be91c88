"""Handle the signals that end a process: SIGTERM, SIGINT and SIGHUP.

1. After the first signal the process stops in order.
2. A further signal ends it at once, but only if it comes at least `AGAIN` seconds after the first. A service manager
   signals every process of a service, and a supervisor passes its own signal on: the two must count as one.
3. A process that a job forks gets back the handlers that were there before.

A handler sets a `StopFlag`. It raises nothing: Python may run it in a finalizer, where an exception is printed and
dropped. It takes no lock: the code that it interrupts may hold that lock.
"""

import _thread
import contextlib
import logging
import os
import select
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

log = logging.getLogger("redbike")

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
AGAIN = 1.0  # seconds after the first signal; an earlier second signal is ignored
OVER = b"\0"  # no signal has this number
HANGING = 0.05  # seconds for which the main thread may not act on a signal
LONGEST_ABORT = 5.0  # seconds that an abort may take

_active: list["SignalHandlers"] = []


def die(number: int) -> None:
    """End this process by the default action of the signal `number`, so that its exit status shows the signal."""
    if os.getpid() == 1:
        # Process 1 of a container has no default actions.
        os._exit(128 + number)
    if threading.current_thread() is threading.main_thread():
        signal.signal(number, signal.SIG_DFL)
    else:
        _set_default(number)
    os.kill(os.getpid(), number)
    time.sleep(AGAIN)
    os._exit(128 + number)


def _set_default(number: int) -> None:
    """Restore the default action of a signal, in any thread."""
    with contextlib.suppress(ImportError, AttributeError):
        from ctypes import c_int, c_void_p, pythonapi

        pythonapi.PyOS_setsig(c_int(number), c_void_p(None))


def abort_and_die(abort: Callable[[], object], number: int) -> None:
    """Call `abort`, wait for at most `LONGEST_ABORT` seconds, and end this process by the signal `number`.

    `abort` runs in a thread of its own, as the interrupted thread may hold a lock that `abort` needs.
    """
    finished = _thread.allocate_lock()
    finished.acquire()

    def run() -> None:
        try:
            abort()
            log.warning("%s once more: ended at once", signal.Signals(number).name)
        except BaseException as error:
            log.error("abort() raised %s", type(error).__name__)
        finally:
            finished.release()

    # Not a `threading.Thread`: starting one takes a lock that the interrupted code may hold.
    _thread.start_new_thread(run, ())
    finished.acquire(timeout=LONGEST_ABORT)
    die(number)


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
            os.write(self._writer, b"!")

    def wait(self, seconds: float) -> bool:
        """Wait for the flag for up to `seconds`; tell whether it is set."""
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        poll.poll(seconds * 1000)
        return self._is_set


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


class SignalHandlers:
    """Handles the signals that end a process during a ``with`` in the main thread. Does nothing in other threads.

    `first` is called with the number of the first signal, `again` with that of the second one that counts. Without
    `again`, the second signal ends the process, even if its main thread hangs in a call into C.
    """

    def __init__(self, first: Callable[[int], None], again: Callable[[int], None] = die) -> None:
        self._first, self._second = first, again
        self._first_time: float | None = None
        self._acted = _thread.allocate_lock()  # held as soon as the second one is acted on
        self._pipe: tuple[int, int] | None = None  # the C code that receives a signal writes its number there
        self._watching_in = 0  # the process with a thread that reads it
        self._replaced: dict[int, Any] = {}
        self._changing = threading.Lock()

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            _active.append(self)
            if self._second is not die:
                self._open_pipe()
            for number in ENDING:
                # nohup makes a process ignore SIGHUP: keep that.
                if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                    self._replaced[number] = signal.signal(number, self._handle)

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
            self._pipe = reader, writer
            return
        # It is the pipe of an event loop, which needs it.
        signal.set_wakeup_fd(before)
        _close(reader, writer)

    def _close_pipe(self) -> None:
        if self._pipe:
            (reader, writer), self._pipe = self._pipe, None
            if (before := signal.set_wakeup_fd(-1)) != writer:
                signal.set_wakeup_fd(before)
            if self._watching_in == os.getpid():
                os.write(writer, OVER)
            else:
                os.close(reader)
            os.close(writer)

    def restore(self) -> None:
        """Install the handlers that were installed before."""
        self._close_pipe()
        while self._replaced:
            number, handler = self._replaced.popitem()
            # None: the handler was not installed by Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _handle(self, number: int, _: FrameType | None) -> None:
        now = time.monotonic()
        if self._first_time is None:
            self._first_time = now
            if self._second is die:
                _thread.start_new_thread(self._set_default_later, ())
            elif self._pipe:
                self._watching_in = os.getpid()
                _thread.start_new_thread(self._watch_for_second, self._pipe[:1])
            self._first(number)
        elif now - self._first_time >= AGAIN:
            self._act_on_second(number)

    def _set_default_later(self) -> None:
        """Set the default action after `AGAIN` seconds, in this thread: the main one may hang in a call into C."""
        time.sleep(AGAIN)
        with self._changing:
            for number in self._replaced:
                _set_default(number)

    def _watch_for_second(self, reader: int) -> None:
        """Act on a second signal in this thread, if the main one does not: it may hang in a call into C."""
        while OVER not in (received := os.read(reader, 64)):
            passed = time.monotonic() - (self._first_time or 0.0)
            time.sleep(HANGING)
            for number in received:
                if number in ENDING and passed >= AGAIN:
                    self._act_on_second(number)
        os.close(reader)

    def _act_on_second(self, number: int) -> None:
        if self._acted.acquire(blocking=False):
            self._second(number)


@contextlib.contextmanager
def leave_to_others() -> Iterator[None]:
    """Block the signals that end a process in the threads that are started meanwhile.

    The system may give a signal to any thread. The main thread, which has to handle it, would sleep on.
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
    """Tell whether `error` is a Ctrl-C for the caller: nobody but Python handles it, as with `work_one`."""
    return (
        issubclass(type(error), KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
