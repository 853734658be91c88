"""Run the command shards: print the shards, or move the jobs to another number of shards."""

from redbike.cli.arguments import Arguments
from redbike.cli.bike import check_embedded_server, open_to_look
from redbike.cli.messages import DONE, FAILED, open_progress
from redbike.cli.rows import print_rows, show_with
from redbike.config.file import Config
from redbike.connection.client import aim_at, connect
from redbike.control.moving import Moved, Mover, check_number
from redbike.control.operator import name_operator
from redbike.errors import BadConfig
from redbike.queries.fields import SHARDS
from redbike.queries.shards import list_shards
from redbike.text.parsing import parse_whole


def control_shards(arguments: Arguments, config: Config) -> int:
    """Move the jobs, or print every shard. Return 1 if a shard does not answer, else 0."""
    if arguments["move"]:
        print(move_shards(config, _parse_number(arguments["--to"])).describe())
        return DONE
    shards = list_shards(open_to_look(config).store)
    print_rows(arguments, shards, SHARDS, show_with("show_shards"))
    return FAILED if any(shard.problem for shard in shards) else DONE


def move_shards(config: Config, number: int) -> Moved:
    """Move the jobs to `number` shards; the number in the config does not matter. Return what was moved."""
    check_embedded_server(config)
    with connect(config.redis) as client, open_progress() as report:
        prefix = aim_at(client, config.settings.prefix)
        return Mover(client, prefix, report or (lambda done, number: None), name_operator()).move(number)


def _parse_number(text: str) -> int:
    if (number := parse_whole(text, 10**9)) is None:
        raise BadConfig(f"bad --to {text!r:.80}: a number of shards is needed, such as 16")
    return check_number(number)
