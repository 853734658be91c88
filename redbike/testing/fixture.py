"""The value of the fixture ``redbike``: it makes the facades of one test."""

import secrets
from datetime import datetime
from typing import Unpack

from redbike.config.settings import Settings
from redbike.connection.client import aim_at
from redbike.errors import BadConfig
from redbike.loop.worker_class import RoundRobin, WorkerClass
from redbike.store.store import Store
from redbike.testing.clock import Clock, read_instant
from redbike.testing.server import Served
from redbike.testing.simulated import BikeSettings, SimulatedRedbike

PREFIX = "redbike-test-"  # what the prefix of each test begins with: no other keys are ever deleted


class MakeRedbike:
    """Makes facades of one test. They share its prefix, so its jobs, and its clock.

    A program that connects by itself finds the jobs of the test at `url`, under `prefix`.
    """

    def __init__(self, server: Served) -> None:
        self._server = server
        self._client = server.client
        self.prefix = aim_at(self._client, f"{PREFIX}{secrets.token_hex(8)}")
        self._clock: Clock | None = None
        self._bikes: list[SimulatedRedbike] = []

    @property
    def url(self) -> str:
        """The URL of the server."""
        return self._server.url

    def __call__(
        self, worker: WorkerClass, *, now: float | datetime | None = None, **settings: Unpack[BikeSettings]
    ) -> SimulatedRedbike:
        """Return a `Redbike` with this worker and these settings.

        Its clock stands at `now` (epoch seconds or an aware datetime), or at this whole second. Raise `BadConfig`.
        """
        if self._clock is None:
            self._clock = Clock(float(self._client.time()[0]) if now is None else read_instant(now, 0.0))
        elif now is not None:
            self._clock.move(read_instant(now, self._clock.now))
        bike = SimulatedRedbike.from_settings(
            worker, Settings(prefix=self.prefix, **settings), self._client, durable=False
        )
        bike.follow(self._clock)
        self._bikes.append(bike)
        return bike

    def close(self) -> None:
        """End what the facades have started, and delete the keys of the test."""
        for bike in self._bikes:
            bike.finish()
        if not self.prefix.removeprefix("{").startswith(PREFIX):
            raise BadConfig(f"no keys are deleted: the prefix {self.prefix!r} is not one of a test")
        Store(self._client, self.prefix, RoundRobin("A").queue_for).upkeep.flush()
