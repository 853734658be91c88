"""Run the command output: print what a run of a command has printed."""

from redbike.cli.arguments import Arguments, parse_count
from redbike.cli.bike import open_to_look
from redbike.config.file import Config

MOST = 1000


def print_output(arguments: Arguments, config: Config) -> None:
    """Print what is kept of the output of a run."""
    number = parse_count(arguments, "--run", 1, most=MOST)
    bike = open_to_look(config)
    if text := bike.output(arguments["<JOBID>"], number, arguments["--failed"]):
        print(text)
