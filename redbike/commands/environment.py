"""The environments that a command may begin with: that of its worker, or the small one of cron (crontab(5))."""

import os
import pwd
from collections.abc import Mapping

from redbike.errors import BadConfig

WORKER, CRON = "worker", "cron"  # the values of ``env``
CRON_PATH = "/usr/bin:/bin"
CRON_SHELL = "/bin/sh"


def make_small_environment(variables: Mapping[bytes, bytes], shell: str | None) -> dict[bytes, bytes]:
    """Return `variables` with those that cron sets: HOME, LOGNAME, PATH and SHELL. Only LOGNAME cannot be overridden.

    They are those of the user of this process. Raise `BadConfig` if the system does not know that user.
    """
    try:
        user = pwd.getpwuid(os.geteuid())
    except KeyError:
        raise BadConfig(f"env is 'cron', but the system has no user with the id {os.geteuid()}") from None
    given = {
        b"HOME": os.fsencode(user.pw_dir),
        b"PATH": CRON_PATH.encode(),
        b"SHELL": os.fsencode(shell or CRON_SHELL),
    }
    return {**given, **variables, b"LOGNAME": os.fsencode(user.pw_name)}
