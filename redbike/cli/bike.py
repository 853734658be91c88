"""Open the facade, and find the embedded server, by the config of a command."""

from typing import Any

from redbike.config import Config
from redbike.redbike import Redbike
from redbike.serving.connection import connect
from redbike.serving.embedded import EmbeddedServer
from redbike.steering.operator import name_operator
from redbike.working.loader import load_placer
from redbike.working.worker_class import RoundRobin


def open_bike(config: Config, needs_queues: bool = False, handler: Any = None) -> Redbike:
    """Return the facade for a command.

    Pass `handler` if the command runs jobs, and `needs_queues` if it has to know the queues of jobs. Only then is the
    configured worker class imported. Raise `RedbikeError` if it cannot be loaded, or the server cannot be used.
    """
    needs_durability = needs_queues or handler is not None
    if handler is None:
        spec = config.settings.worker if needs_queues else None
        handler = load_placer(spec, config.folder, RoundRobin) if spec else RoundRobin("A")
    client = connect(config.redis)
    return Redbike.from_settings(handler, config.settings, client, needs_durability, noted_as=name_operator())


def find_embedded_server(config: Config) -> EmbeddedServer | None:
    """Return the embedded server, running or not; None if another server is configured."""
    if config.redis is None:
        return EmbeddedServer()
    if isinstance(config.redis, str) and config.redis.startswith("embedded:"):
        folder = config.redis.partition(":")[2]
        return EmbeddedServer(folder) if folder else EmbeddedServer()
    return None
