"""The facade and the embedded server, as the config of a command wants them."""

from typing import Any

from redbike.config import Config
from redbike.redbike import Redbike
from redbike.serving.connection import connect
from redbike.serving.embedded import EmbeddedServer
from redbike.working.queues import RoundRobin
from redbike.working.worker_class import load_placer


def open_bike(config: Config, placing: bool = False, handler: Any = None) -> Redbike:
    """Return the facade for a command that runs jobs by `handler`, or, `placing`, names queues, or only looks.

    Only commands that name queues need the configured worker class; the others do not import it.
    """
    durable = placing or handler is not None
    if handler is None:
        spec = config.settings.worker if placing else None
        handler = load_placer(spec, config.folder, RoundRobin) if spec else RoundRobin("A")
    return Redbike.from_settings(handler, config.settings, connect(config.redis), durable)


def find_embedded_server(config: Config) -> EmbeddedServer | None:
    """Return the embedded server, running or not; None if another server is configured."""
    if config.redis is None:
        return EmbeddedServer()
    if isinstance(config.redis, str) and config.redis.startswith("embedded:"):
        folder = config.redis.partition(":")[2]
        return EmbeddedServer(folder) if folder else EmbeddedServer()
    return None
