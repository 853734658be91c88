"""One run: everything is started, faults strike as planned, things settle down, everything is stopped."""

import signal
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from tests.chaos import population
from tests.chaos.farm import ROOT, Farm
from tests.chaos.faults import KINDS, plan
from tests.chaos.group import Group
from tests.chaos.history import REMEMBERED
from tests.chaos.journal import Journal
from tests.chaos.server import Server
from tests.chaos.sets import BLACKOUT, LASTS, list_dark
from tests.chaos.steering import LIMIT
from tests.chaos.takeovers import lose_master
from tests.chaos.world import World
from tests.proc import handles
from tests.waiting import SLOWNESS, wait_until

SETTLE = 20.0  # seconds after the last one until all must be as if there had been none
LOOK = 15.0  # seconds between two looks by fsck
LOOKS = 3  # of fsck at most, each after what is lost was acknowledged
CLOCK_READINGS = 20
CUTS = 20  # times that a command that moves all jobs to other shards is begun, and mostly cut short
CUT_WITHIN = 2.0 * SLOWNESS  # seconds at most until it is, or until a master is killed
CONFIG = """[redbike]
shards = {shards}
timefile = disk/timefile
on-error = retry
retries = 20
backoff = 0.2
on-timeout = requeue
log-level = info
[redbike-redis]
url = {url}
"""


class Run:
    """A run in `folder`, with the options of the command line and the kinds of faults that are to strike."""

    def __init__(self, folder: Path, options: dict[str, Any], kinds: list[str]) -> None:
        self.folder = folder
        self.seed = int(options["--seed"])
        self.seconds = float(options["--minutes"]) * 60
        self.faults = int(options["--faults"])
        self.jobs = int(options["--jobs"])
        self.journal = Journal(folder / "faults.log")
        self.servers = str(options["--servers"])
        self.steers = bool(options["--steer"])
        one = self.servers == "one"
        self.shards = int(options["--shards"])
        self.moves_to = int(options["--move"] or self.shards)
        self.server = (
            Server(folder, options["--fsync"], self.journal, self.shards)
            if one
            else Group(folder, self.servers, self.shards)
        )
        counts = int(options["--dispatchers"]), int(options["--workers"])
        self.farm = Farm(folder, self.journal, *counts, self.seed)
        self.world = World(folder, self.server, self.farm, self.journal)
        self.kinds = self._possible(kinds)
        self.broken = threading.Event()  # something is wrong with the harness itself
        self.journal.note("run", options={name: value for name, value in options.items() if name[:2] == "--"})

    def run(self) -> None:
        """From the first process to the last."""
        print(f"seed {self.seed}: {self.faults} faults in {self.seconds / 60:g} minutes", flush=True)
        # A fault that could not strike as it should must not pass for one that did no harm.
        threading.excepthook = self._note_error
        try:
            self._load()
            self.farm.start()
            wait_until(self._is_at_work, timeout=60)
            self._strike()
            self.farm.stop("client")
            self._settle()
        finally:
            self.farm.close()
            self.world.close()
            self.server.stop()

    def _possible(self, kinds: list[str]) -> list[str]:
        """Without those that this machine does not allow, which the report says."""
        reasons = {}
        try:
            self.world.mount()
        except subprocess.CalledProcessError as error:
            reasons["disk-full"] = f"no file system can be mounted: {error.stderr.decode().strip()}"
        if self.farm.faketime is None:
            reasons |= dict.fromkeys(("worker-clock", "dispatcher-clock"), "there is no libfaketime")
        for kind in set(kinds) & set(reasons):
            self.journal.note("impossible", name=kind, reason=reasons[kind])
        return [kind for kind in kinds if kind not in reasons]

    def _load(self) -> None:
        """Enter the jobs that are left alone, before there is anyone to dispatch them."""
        self._write_config()
        jobs = population.still(Random(self.seed), self.jobs, time.time(), self.seconds)
        jobs += population.followers(jobs) + list_dark()
        rows = "".join(f'{jobid},"{schedule}"\n' for jobid, schedule in jobs)
        (self.folder / "jobs.csv").write_text(rows)
        before = time.monotonic()
        self._redbike("load", "jobs.csv", check=True)
        self._redbike("pause", "fast.dark.*", f"--every={BLACKOUT}", f"--for={LASTS}", check=True)
        if self.steers:
            self._load_steered()
        self.journal.note("loaded", began=before, ended=time.monotonic())
        self._note_clock()
        self.server.snapshot("after")

    def _load_steered(self) -> None:
        jobs = population.steered_jobs(Random(self.seed), time.time())
        (self.folder / "steered.csv").write_text("".join(f'{jobid},"{schedule}"\n' for jobid, schedule in jobs))
        self._redbike("load", "steered.csv", check=True)
        self._redbike("limit", population.LIMITED, f"--at-once={LIMIT}", check=True)

    def _is_at_work(self) -> bool:
        """Whether every process has got as far as to its loop, which handles signals."""
        processes = [child.process for child in self.farm.children]
        return all(process and handles(process.pid, signal.SIGTERM) for process in processes)

    def _strike(self) -> None:
        """All faults, each in a thread of its own, as some take a while."""
        began = time.monotonic()
        self.world.until = began + self.seconds
        looks = [(number * LOOK, self._fsck, ()) for number in range(1, int(self.seconds / LOOK))]
        kinds = {name: KINDS[self.servers][name] for name in self.kinds}
        strikes = [
            (instant, kinds[name].strike, (self.world, Random(seed), *kinds[name].arguments))
            for instant, name, seed in plan(self.seed, self.faults, self.seconds, kinds)
        ]
        threads = []
        for instant, action, arguments in sorted([*looks, *strikes], key=lambda planned: planned[0]):
            if self.broken.wait(max(0.0, began + instant - time.monotonic())):
                break
            threads.append(threading.Thread(target=action, args=arguments))
            threads[-1].start()
        for thread in threads:
            thread.join()
        self.broken.wait(max(0.0, self.world.until - time.monotonic()))

    def _settle(self) -> None:
        """Let everything come to rest, look, and stop it in order: nothing may be overdue then."""
        self._note_clock()
        (self.folder / "calm").touch()
        self.journal.note("calm", at=time.monotonic())
        time.sleep(SETTLE)
        self.journal.note("end", at=time.monotonic())
        for role in ("dispatcher", "worker"):
            self.farm.stop(role)
        if self.moves_to != self.shards:
            self._move()
        self._fsck()
        self._note_clock()
        self.server.snapshot("before")
        printed = self._redbike("runs", "--limit=1000000", f"--url={self.server.direct_url}", check=True).stdout
        (self.folder / REMEMBERED).write_text(printed)

    def _move(self) -> None:
        """Move all jobs to other shards, and back, and end what was begun.

        The command is killed again and again, or a master of the cluster is.
        """
        rng, old, new = Random(self.seed), self.shards, self.moves_to
        # Whoever was killed last counts as there for a while.
        wait_until(lambda: self._move_to(new).returncode == 0, timeout=60)
        for number in range(CUTS):
            cut = self._lose_master if self.servers == "cluster" and number % 2 else self._kill_command
            if cut(old, rng):
                old, new = new, old
        moved = self._move_to(old)
        assert moved.returncode == 0, moved.stderr
        self.shards = old
        self.server.divide(old)
        self._write_config()

    def _kill_command(self, number: int, rng: Random) -> bool:
        """Kill the command that moves the jobs to that many shards, unless it is done before; whether it is."""
        with self.journal.noted("fault", name="move-kill") as entry, suppress(subprocess.TimeoutExpired):
            entry["in time"] = False
            assert self._move_to(number, CUT_WITHIN * rng.random()).returncode == 0
            entry["in time"] = True
        return bool(entry["in time"])

    def _lose_master(self, number: int, rng: Random) -> bool:
        """Kill a master below that command; whether it moved all jobs in spite of that."""
        assert isinstance(self.server, Group)
        with self.journal.noted("fault", name="move-takeover") as entry, ThreadPoolExecutor(1) as threads:
            struck = threads.submit(lose_master, self.server, rng, CUT_WITHIN)
            moved = self._move_to(number)
            struck.result()
            assert "Traceback" not in moved.stderr, moved.stderr
            entry["in time"], entry["said"] = moved.returncode == 0, moved.stderr
        return bool(entry["in time"])

    def _move_to(self, number: int, seconds: float | None = None) -> "subprocess.CompletedProcess[str]":
        """Let the command move the jobs. If it takes longer than so many seconds, it is killed."""
        command = ("shards", "move", f"--to={number}", f"--url={self.server.direct_url}")
        return self._redbike(*command, timeout=seconds)

    def _write_config(self) -> None:
        (self.folder / "redbike.conf").write_text(CONFIG.format(url=self.server.url, shards=self.shards))

    def _fsck(self) -> None:
        with self.server.lock:
            for _ in range(LOOKS):
                # A server that loses its last requests is what the faults are for.
                self._redbike("acknowledge", f"--url={self.server.direct_url}")
                found = self._redbike("fsck", f"--url={self.server.direct_url}")
                # A dispatcher may note that it has lost some between the two.
                if "the server went back" not in found.stdout.partition("\n")[0]:
                    break
        self.journal.note("fsck", at=time.monotonic(), status=found.returncode, output=found.stdout + found.stderr)

    def _redbike(
        self, *arguments: str, check: bool = False, timeout: float | None = None
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "redbike", "--config=redbike.conf", *arguments],
            cwd=self.folder,
            env={"PYTHONPATH": str(ROOT), "PATH": ""},
            capture_output=True,
            text=True,
            check=check,
            timeout=timeout,
        )

    def _note_clock(self) -> None:
        """How far Redis' clock is from the monotonic one: the way to the server only makes that look more."""
        self.journal.note("clock", offset=min(self._read_offset() for _ in range(CLOCK_READINGS)))

    def _read_offset(self) -> float:
        began = time.monotonic()
        seconds, micros = self.server.client.time()
        return float(seconds + micros / 1e6 - began)

    def _note_error(self, raised: threading.ExceptHookArgs) -> None:
        self.journal.note("harness", error="".join(traceback.format_exception(raised.exc_value)))
        self.broken.set()
