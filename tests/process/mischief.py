"""What jobs do that may keep their process from ending, for workers and for commands: python mischief.py <KIND>."""

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
from concurrent.futures import ThreadPoolExecutor
from functools import partial

sleep = partial(time.sleep, 1000.0)


async def swallow_cancels():
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(1000.0)


async def block_in_finally():
    try:
        await asyncio.sleep(1000.0)
    finally:
        sleep()


async def wait_for_executor():
    await asyncio.get_running_loop().run_in_executor(None, sleep)


def swallow_all():
    while True:
        with contextlib.suppress(BaseException):
            sleep()


def handle(handler):
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, handler)
    sleep()


def mask():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    sleep()


def hash_in_c():
    import hashlib

    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)


def leave_child():
    import multiprocessing

    multiprocessing.get_context("fork").Process(target=sleep).start()


ACTIONS = {
    "thread": lambda: threading.Thread(target=sleep).start(),
    "exit_in_thread": lambda: threading.Thread(target=sys.exit).start(),
    "pool": lambda: ThreadPoolExecutor(1).submit(sleep) and None,
    "executor": wait_for_executor,
    "swallowed": swallow_cancels,
    "blocking_finally": block_in_finally,
    "deaf": swallow_all,
    "ignored": lambda: handle(signal.SIG_IGN),
    "handler": lambda: handle(lambda *_: 1 / 0),
    "masked": mask,
    "in_c": hash_in_c,
    "gil": lambda: sum(itertools.repeat(1, 10**15)),
    "fork": lambda: os.waitpid(pid, 0) and None if (pid := os.fork()) else sleep(),
    "zombies": lambda: [subprocess.Popen(["true"]) for _ in range(9)] and None,
    "closed": lambda: os.closerange(3, 256) or sleep(),
    "at_exit": lambda: atexit.register(sleep) and None,
    "child": leave_child,
}


def act(kind):
    print("begun", kind, flush=True)
    return ACTIONS[kind]()


if __name__ == "__main__" and (result := act(sys.argv[1])) is not None:
    asyncio.run(result)
