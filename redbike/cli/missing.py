"""Let commands that print lists use the shards that answer, and report the shards that do not."""

from collections.abc import Callable
from functools import wraps

from redbike.cli.arguments import Arguments
from redbike.cli.messages import DONE, FAILED, complain
from redbike.config.file import Config
from redbike.store.sharded.missing import tolerate_missing

Command = Callable[[Arguments, Config], int | None]


def names_missing(command: Command) -> Command:
    """Let `command` leave out shards that do not answer. Afterwards, report each such shard, and return 1."""

    @wraps(command)
    def run(arguments: Arguments, config: Config) -> int:
        with tolerate_missing() as missing:
            status = command(arguments, config) or DONE
        for problem in missing.values():
            complain(str(problem))
        return status or (FAILED if missing else DONE)

    return run
