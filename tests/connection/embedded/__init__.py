"""Embedded servers of tests, whose processes are found and ended."""

import os
import shlex
import signal
from pathlib import Path

import redis

from redbike.connection.client import connect
from redbike.connection.embedded_launcher import find_binary
from redbike.connection.probe import is_alive
from tests.waiting import wait_until


def pids(folder):
    """The servers that work in `folder`."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            try:
                if os.readlink(each / "cwd") == str(folder) and b"redis.sock" in (each / "cmdline").read_bytes():
                    found.append(int(each.name))
            except OSError:
                continue
    return [pid for pid in found if is_alive(pid)]


def suspend(server):
    """Start it and suspend it; return its process."""
    server.start()
    (pid,) = pids(server.folder)
    os.kill(pid, signal.SIGSTOP)
    return pid


def kill(server):
    (pid,) = pids(server.folder)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(pid))
    return pid


def redis_answers(server):
    try:
        with connect(server.url) as client:
            return client.ping()
    except redis.RedisError:
        return False


def make_binary(folder, options="", before=""):
    """A server with `options`, as a program of its own, and what it does before."""
    path = folder / "slow-server"
    path.write_text(f'#!/bin/sh\n{before}exec {shlex.quote(find_binary())} "$@" {options}\n')
    path.chmod(0o755)
    return str(path)
