"""The embedded server: a private Valkey for one folder, shared by all processes that use the folder.

The first process that needs the server starts it. The server outlives that process.

1. A file lock protects the data. A process that starts the server takes the lock and passes it on to the server, which
   holds it until it ends, even by a kill. So no second server is ever started on the same data. If a server is loading
   or does not answer, processes wait for it and never kill it.
2. It listens on a Unix socket only, which only this user may open.
3. It is durable: the append-only file is on, and nothing is evicted. A kill loses no acknowledged write.
4. A client that finds it gone starts it again, unless `EmbeddedServer.stop` has ended it.
"""

import contextlib
import logging
import os
import shlex
import signal
import time
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from redbike.connection.embedded_launcher import Launcher, make_private
from redbike.connection.probe import Health, Probe, is_alive, is_suspended
from redbike.errors import ServerError

log = logging.getLogger("redbike.server")

STOP_TIMEOUT = 10.0  # seconds for the server to go down
WRITE_TIMEOUT = 3.0  # seconds for the server to write what is only in its memory: it tries each second
REPLY_TIMEOUT = 2.0  # seconds for a healthy server to reply
SILENCE = 10.0  # seconds without an answer after which a server that accepts connections counts as away
WARN_AFTER = 1.0  # seconds of waiting after which a warning says why
IN_COMMAND = "REDBIKE_JOBID"  # a variable that each command of a job has
POLL_INTERVAL = 0.005  # seconds between two checks of a server that is coming up or going down


def name_end(url: str) -> str:
    """Return, for a message, the command that ends the server of `url`; "" is the URL of the default server."""
    return f"redbike {shlex.quote(f'--url={url}')} server stop ends it" if url else "redbike server stop ends it"


class EmbeddedServer(Launcher):
    """The server of `folder`; `start` makes the folder if needed."""

    def start_unasked(self) -> bool:
        """Do as `start`, when nothing names a server. In a command of a job, raise `ServerError` if it does not run.

        Such a command does not get the URL of the server of its job, so it would set jobs where no worker is.
        """
        if IN_COMMAND in os.environ and not self.status()["running"]:
            raise ServerError(
                f"no server runs in {os.path.relpath(self.folder)!r}, and nothing names one: a command of a job gets "
                "no REDBIKE_URL; name its server in an env-file, or by --config"
            )
        return self.start()

    def start(self) -> bool:
        """Start the server, and wait until it answers; return False if it runs already.

        If the server is loading, log that, and wait without a timeout. Raise `ServerError` if it ends, cannot be
        started, or does not answer at all.
        """
        began = time.monotonic()
        with contextlib.closing(Probe(self.socket)) as probe:
            health = probe.check(WARN_AFTER)
            if health is Health.READY:
                return False
            with self._translate_errors():
                make_private(self.folder)
                self.link_short_path()
            return self._wait_until_ready(probe, began, health)

    def _wait_until_ready(self, probe: Probe, began: float, health: Health) -> bool:
        has_warned, process, answered = False, None, began
        while True:
            if process is None:
                process = self._spawn_if_free()
            if not has_warned and time.monotonic() - began >= WARN_AFTER:
                has_warned = True
                log.warning("the embedded server in %s %s; waiting", self.folder, self._describe_health(health))
            health = probe.check(WARN_AFTER)
            if health is Health.READY:
                return process is not None
            if process is not None and process.poll() is not None:
                raise ServerError(self._explain_exit(process))
            if health is not Health.SILENT:
                answered = time.monotonic()
                time.sleep(POLL_INTERVAL)
            elif time.monotonic() - answered >= SILENCE:
                raise ServerError(f"the embedded server in {self.folder} {_explain_silence(self._find_pid())}")

    def revive(self) -> None:
        """Start the server again for a client that found it gone, and wait until its socket exists.

        Do not wait if another process is starting it. Raise `ServerError` if it was ended by `stop`, or cannot be
        started.
        """
        if self._stop_marker.exists():
            raise ServerError(f"the embedded server in {self.folder} was stopped: 'redbike server start' starts it")
        # A clean-up of the temporary folder may have removed the link.
        self.link_short_path()
        process = self._spawn_if_free(unless_stopped=True)
        if process is None:
            return
        log.warning("the embedded server in %s had ended; Redbike starts it again", self.folder)
        with contextlib.closing(Probe(self.socket)) as probe:
            while probe.check(WARN_AFTER) is Health.ABSENT:
                if process.poll() is not None:
                    raise ServerError(self._explain_exit(process))
                time.sleep(POLL_INTERVAL)

    def stop(self) -> bool:
        """Stop the server, with all data on disk, and wait until it is gone; return False if it did not run.

        Clients leave it stopped until the next `start`. Raise `ServerError` if it does not stop, and also if it cannot
        write what it has acknowledged, as on a full disk: then it keeps running.
        """
        if not self.folder.is_dir():
            return False
        self._write_all()
        with contextlib.suppress(OSError):
            # A full disk must not prevent the stop.
            self._stop_marker.touch(mode=0o600)
        return self._terminate()

    def stop_if_unused(self) -> bool:
        """Stop the server if nobody else is connected, and wait until it is gone; return True if it was stopped.

        A client that was about to connect starts it again.
        """
        if moved := self._find_moved_folder():
            log.warning("the folder %s of the embedded server was moved to %s", self.folder, moved)
            there = EmbeddedServer(moved)
            there.link_short_path()
            return there.stop_if_unused()
        if not self.folder.is_dir():
            return self._end_without_folder()
        deadline = time.monotonic() + WARN_AFTER / 2
        while self._has_users():
            # The server may still list a client that has just ended.
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_INTERVAL)
        self._write_all()
        return self._terminate()

    def status(self) -> dict[str, Any]:
        """Return ``running``, ``folder`` and ``url``.

        If it runs, add ``pid``, ``server``, ``version`` and ``memory`` (bytes); if it loads, ``loading`` (per cent).
        If it runs but does not answer, add only ``pid`` and ``answers`` (False).
        """
        status: dict[str, Any] = {"running": False, "folder": str(self.folder), "url": self.url}
        try:
            with self._make_client() as client:
                info: dict[str, Any] = client.info()
        except (redis.RedisError, OSError):
            pid = self._find_pid()
            return status | ({"running": True, "pid": pid, "answers": False} if pid else {})
        status |= {
            "running": True,
            "pid": info["process_id"],
            "server": info.get("server_name", "redis"),
            "version": info.get("valkey_version", info["redis_version"]),
            "memory": info["used_memory"],
        }
        return status | ({"loading": info.get("loading_loaded_perc")} if info.get("loading") else {})

    def _end_without_folder(self) -> bool:
        """End the server that this object has started, and whose folder was deleted: nobody can reach it any more."""
        if self._spawned is None or self._spawned.poll() is not None:
            return False
        log.error("the folder %s was deleted, and with it all data of the embedded server", self.folder)
        self._spawned.kill()
        self._spawned.wait()
        return True

    def _write_all(self) -> None:
        """Wait until the server has written all that it has acknowledged. Raise `ServerError` if it cannot."""
        try:
            with self._make_client() as client:
                if self._has_written(client):
                    return
                # A rewritten log is shorter, so it may find room. Then the server continues behind it.
                with contextlib.suppress(redis.ResponseError):
                    client.bgrewriteaof()
                deadline = time.monotonic() + WRITE_TIMEOUT
                while not self._has_written(client):
                    info: dict[str, Any] = client.info("persistence")
                    is_rewriting = info["aof_rewrite_in_progress"] or info["aof_rewrite_scheduled"]
                    has_failed = info["aof_last_bgrewrite_status"] != "ok" or time.monotonic() > deadline
                    if has_failed and not is_rewriting:
                        raise ServerError(self._explain_unwritten(info))
                    time.sleep(POLL_INTERVAL)
        except (redis.RedisError, OSError):
            # It loads its data, and has acknowledged nothing yet. Or it does not answer, and nobody can know.
            return

    def _has_written(self, client: "redis.Redis") -> bool:
        info: dict[str, Any] = client.info("persistence")
        return not info.get("aof_enabled") or info.get("aof_last_write_status") == "ok"

    def _explain_unwritten(self, info: dict[str, Any]) -> str:
        size, pid = info.get("aof_buffer_length", 0), self._find_pid()
        return (
            f"the embedded server in {self.folder} is not stopped: it cannot write its append-only file, so the last "
            f"changes would be lost ({size:,} bytes); free space on its disk and stop it again, or lose these "
            f"changes with kill {pid}"
        )

    def _terminate(self) -> bool:
        deadline = time.monotonic() + STOP_TIMEOUT
        while (pid := self._find_pid()) is None:
            if not self._is_locked():
                return False
            if time.monotonic() > deadline:
                raise ServerError(f"the embedded server in {self.folder} has ended, but some of its processes have not")
            time.sleep(POLL_INTERVAL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        while is_alive(pid):
            if time.monotonic() > deadline:
                raise ServerError(f"the embedded server in {self.folder} {_explain_timeout(pid)}")
            time.sleep(POLL_INTERVAL)
        return True

    def _make_client(self) -> "redis.Redis":
        return redis.Redis(unix_socket_path=str(self.socket), socket_timeout=REPLY_TIMEOUT, retry=Retry(NoBackoff(), 0))

    def _has_users(self) -> bool:
        try:
            with self._make_client() as client:
                return len(client.client_list()) > 1
        except (redis.RedisError, OSError):
            # A server that does not answer may have users.
            return self._find_pid() is not None

    def _describe_health(self, health: Health) -> str:
        if health is not Health.LOADING:
            return "does not answer" if health is Health.SILENT else "is starting"
        percent = self.status().get("loading")
        return "is loading its data" if percent is None else f"is loading its data ({percent:.0f} %)"


def _explain_silence(pid: int | None) -> str:
    if pid is not None and is_suspended(pid):
        return f"is suspended (process {pid}): kill -CONT {pid} continues it"
    return "does not answer"


def _explain_timeout(pid: int) -> str:
    if is_suspended(pid):
        return f"is suspended (process {pid}), so it cannot stop: kill -CONT {pid} continues it"
    return f"(process {pid}) got the signal to stop, but has not stopped yet"
