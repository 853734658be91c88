"""The ids of jobs and the names of queues that a command line may go on with."""

from collections.abc import Iterator

from redbike.cli.bike import find_embedded_server
from redbike.config.file import Config
from redbike.connection.client import aim_at, connect
from redbike.store.keys import escape_pattern
from redbike.store.store import Store


def list_names(config: Config, are_jobs: bool, beginning: str) -> Iterator[str]:
    """Yield ids of jobs that begin so, or names of queues; nothing if no server runs. Raise `RedbikeError`."""
    server = find_embedded_server(config)
    if server and not server.status()["running"]:
        return
    client = connect(config.redis)
    # No queue is to be named.
    store = Store(client, aim_at(client, config.settings.prefix), str)
    pattern = f"{escape_pattern(beginning)}*"
    jobs, queues = store.questions, store.queue_limits
    names = jobs.list_matching(pattern, also_bad=True) if are_jobs else iter(queues.list_queues())
    for name in names:
        # What could steer a terminal, or looks like an option, is not offered.
        if name.isprintable() and name[:1] != "-":
            yield name
