"""What jobs do that may keep their process from ending: functions by name, for workers, and for commands.

usage: python mischief.py <KIND>
"""

import asyncio
import atexit
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

KINDS: dict[str, Callable[[], Any]] = {}
LONG = 1000.0  # seconds


def kind(function: Callable[[], Any]) -> Callable[[], Any]:
    """Add it, and let it say that it has begun."""

    def say() -> Any:
        print("begun", function.__name__, flush=True)
        return function()

    KINDS[function.__name__] = say
    return say


@kind
def thread():
    threading.Thread(target=time.sleep, args=(LONG,)).start()


@kind
def exit_in_thread():
    threading.Thread(target=sys.exit).start()


@kind
def pool():
    ThreadPoolExecutor(1).submit(time.sleep, LONG)


@kind
async def executor():
    await asyncio.get_running_loop().run_in_executor(None, time.sleep, LONG)


@kind
async def swallowed():
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(LONG)


@kind
async def blocking_finally():
    try:
        await asyncio.sleep(LONG)
    finally:
        time.sleep(LONG)


@kind
def deaf():
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(LONG)


def in_main(action: Callable[[], object]) -> None:
    if threading.current_thread() is threading.main_thread():
        action()


@kind
def ignored():
    in_main(lambda: [signal.signal(each, signal.SIG_IGN) for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)])
    time.sleep(LONG)


@kind
def handler():
    in_main(lambda: signal.signal(signal.SIGTERM, lambda *_: 1 / 0))
    time.sleep(LONG)


@kind
def masked():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    time.sleep(LONG)


@kind
def in_c():
    import hashlib

    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)


@kind
def gil():
    sum(itertools.repeat(1, 10**15))


@kind
def fork():
    if pid := os.fork():
        os.waitpid(pid, 0)
    else:
        time.sleep(LONG)


@kind
def zombies():
    for _ in range(9):
        subprocess.Popen(["true"])


@kind
def closed():
    os.closerange(3, 256)
    time.sleep(LONG)


@kind
def at_exit():
    atexit.register(time.sleep, LONG)


@kind
def child():
    import multiprocessing

    multiprocessing.get_context("fork").Process(target=time.sleep, args=(LONG,)).start()


if __name__ == "__main__":
    result = KINDS[sys.argv[1]]()
    if result is not None:
        asyncio.run(result)
