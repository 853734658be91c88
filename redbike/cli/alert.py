"""Run the command alert, which tries the setting of that name."""

import time

from redbike.cli.arguments import Arguments
from redbike.cli.messages import DONE, FAILED, complain
from redbike.config.file import Config
from redbike.errors import BadConfig
from redbike.loop.alerts.sender import Sender, format_alert
from redbike.store.enums import Alert
from redbike.text.printable import name_host


def try_alert(arguments: Arguments, config: Config) -> int:
    """Send a test, and print what has become of it; fail if it was not sent."""
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
