"""Run the commands that maintain Redbike: fsck, acknowledge, control, server, alert."""

import json
import time

from redbike.cli.arguments import Arguments
from redbike.cli.bike import check_embedded_server, find_embedded_server, open_bike
from redbike.cli.messages import DONE, FAILED, complain
from redbike.cli.missing import names_missing
from redbike.config.file import Config
from redbike.errors import BadConfig
from redbike.loop.alerts.sender import Sender, format_alert
from redbike.store.agreement import Division, Moving
from redbike.store.enums import Alert
from redbike.store.signals import check_signal
from redbike.text.printable import name_host


@names_missing
def check_jobs(arguments: Arguments, config: Config) -> int:
    """Print what is wrong with the jobs; with ``--repair``, repair it. Return 1 if any problem is left, else 0."""
    if not arguments["--repair"]:
        check_embedded_server(config)
    try:
        bike = open_bike(config, needs_queues=arguments["--repair"])
    except Moving as error:
        return _end_move(error.division, arguments["--repair"], config)
    status = DONE
    for line, is_repaired in bike.repair() if arguments["--repair"] else ((line, False) for line in bike.fsck()):
        print(line)
        status = status if is_repaired else FAILED
    return status


def _end_move(division: Division, repairs: bool, config: Config) -> int:
    """Print that a move to another number of shards was interrupted; if `repairs`, complete the move."""
    print(f"the jobs are {division.describe()}")
    if not repairs or division.to is None:
        return FAILED
    # Imported here, because it is rarely needed.
    from redbike.cli.shards import move_shards

    print(move_shards(config, division.to).describe())
    return DONE


def acknowledge(arguments: Arguments, config: Config) -> None:
    """Print each time that the server went back, which is a loss of writes. Then Redbike no longer reports it."""
    check_embedded_server(config)
    found = open_bike(config).acknowledge()
    for line in found:
        print(line)
    if not found:
        complain("there is nothing to acknowledge")


def send_signal(arguments: Arguments, config: Config) -> None:
    """Send a signal to every dispatcher and worker."""
    signal = check_signal(arguments["<SIGNAL>"])
    check_embedded_server(config)  # without a server, no process could receive the signal
    open_bike(config).control(signal)


def control_server(arguments: Arguments, config: Config) -> int:
    """Start or stop the embedded server, or print its status. Return 1 for the status of a stopped server, else 0."""
    server = find_embedded_server(config)
    if server is None:
        raise BadConfig(
            "redbike server controls only the embedded server, but the config names another server;"
            " --url=embedded: names the one in '.redbike'"
        )
    if arguments["start"]:
        print(f"{'started' if server.start() else 'runs already'}: {server.url}")
        return DONE
    if arguments["stop"]:
        print("stopped" if server.stop() else "it was not running")
        return DONE
    status = server.status()
    print(json.dumps(status, indent=2))
    return DONE if status["running"] else FAILED


def try_alert(arguments: Arguments, config: Config) -> int:
    """Send a test alert, and print the result. Return 1 if it could not be sent, else 0."""
    alert, prefix = config.settings.alert, config.settings.prefix
    if alert is None:
        raise BadConfig("no alert is set: put a command or a URL into the config file, as 'alert: …'")
    sender = Sender(alert, prefix)
    text = f"this is a test from {name_host()}: nothing is wrong"
    sent = sender.send([format_alert(Alert.TEST, text, round(time.time(), 6))])
    if not sent.is_sent:
        complain(f"the test could not be sent to {sender.name}: {sent.how}")
        return FAILED
    print(f"the test was sent to {sender.name}: {sent.how}")
    return DONE
