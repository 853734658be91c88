"""Where the jobs of a Redbike are: two with the same place have the same jobs. That is known before it connects."""

import os
from typing import Any

import redis

from redbike.config.file import find_prefix, find_server, load
from redbike.config.settings import Settings
from redbike.connection.check import describe_address
from redbike.connection.client import connect, is_in_cluster
from redbike.connection.cluster import add_braces
from redbike.connection.embedded import EmbeddedServer
from redbike.errors import RedbikeError
from redbike.facade.override import find_override

EMBEDDED = "embedded:"


def describe_place(client: "redis.Redis", prefix: str) -> object:
    """Return the server, the database and the prefix."""
    return describe_address(client), client.connection_pool.connection_kwargs.get("db", 0), prefix


def foresee_place(prefix: str | None, server: Any) -> object:
    """Return where the jobs of a Redbike with these arguments will be; None if they are bad.

    Nothing is sent, and no server is started.
    """
    try:
        settings = Settings(prefix=find_prefix(os.environ) if prefix is None else prefix)
        server = find_server(os.environ) if server is None else server
        settings, client, _ = find_override(settings, lambda: _make_client(server))
    except (RedbikeError, TypeError):
        return None
    return describe_place(client, add_braces(settings.prefix) if is_in_cluster(client) else settings.prefix)


def foresee_place_by_config(path: str | None) -> object:
    """Return the same of a Redbike with the settings of a config file."""
    try:
        config = load(path, os.environ)
    except RedbikeError:
        return None
    return foresee_place(config.settings.prefix, config.redis)


def _make_client(server: Any) -> "redis.Redis":
    if server is None or (isinstance(server, str) and server.startswith(EMBEDDED)):
        folder = (server or "").removeprefix(EMBEDDED) or ".redbike"
        return redis.Redis(unix_socket_path=str(EmbeddedServer(folder).socket))
    return connect(server)
