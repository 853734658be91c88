"""Everything that Redbike raises on purpose, as one tree; every message quotes the text that offends."""

from datetime import timedelta


class RedbikeError(Exception):
    """The root: whatever Redbike itself refuses or cannot do."""


class BadSchedule(RedbikeError, ValueError):
    """A text that is no schedule, that can never fire, or that is too long."""


class BadJobId(RedbikeError, ValueError):
    """A job id that is empty, too long, not UTF-8, or has control characters in it."""


class BadQueueName(RedbikeError, ValueError):
    """A queue name that is empty, too long, or would collide with a key of Redbike's own."""


class BadConfig(RedbikeError, ValueError):
    """A setting, worker specification, timestamp or file that cannot be used as it stands."""


class ServerError(RedbikeError):
    """The Redis server cannot be used: absent, too old, or refusing."""


class Unreachable(ServerError):
    """The Redis server cannot be reached, or went away in the middle of a request."""


class LoginRefused(Unreachable):
    """The Redis server does not accept the user or the password any more, which it has accepted before."""


class NoSuchJob(RedbikeError, LookupError):
    """No job of that id has been set."""


class NoResult(RedbikeError, LookupError):
    """No run of the job that is kept has a result, see ``keep-result``."""


class LostRun(RedbikeError):
    """The run is no longer that of its worker: it was lost, or has ended. What the run does changes nothing."""


class TooManyRuns(RedbikeError):
    """More runs were due in a test than it allows: perhaps a job runs again and again."""


class StopWork(Exception):
    """Raised by a worker's ``work``: the job's schedule becomes ``STOP``.

    So a file or a function that has another one for the job starts it again: by ``load``, ``sync`` or ``redbike up``.
    """


class UnsetJob(Exception):
    """Raised by a worker's ``work``: the job is unset."""


class Again(Exception):
    """Raised by a worker's ``work``: this occurrence once more, `after` so long. It has not failed.

    `after` is seconds, a duration such as ``"5m"``, or a timedelta.
    `reason` says why. It is kept as the ``error`` of this try, in one line. A subclass may have one of its own.
    """

    reason = ""

    def __init__(self, after: float | str | timedelta = 0.0, reason: str = "") -> None:
        # Both stand in `args`, so that it can be pickled.
        super().__init__(*((after, reason) if reason else (after,)))
        self.after = after
        if reason:
            self.reason = reason

    def __str__(self) -> str:
        return str(self.reason) if self.reason else super().__str__()


class Overrun(Exception):
    """Raised by a worker's ``work`` that gave up because its time was over: the run ends by ``on-timeout``.

    `output` is kept with the failure.
    """

    output = ""  # also for a subclass that does not call this constructor

    def __init__(self, message: str = "", output: str = "") -> None:
        super().__init__(message)
        self.output = output


class OtherProtocol(ServerError):
    """Processes of another version work under the prefix, or have done so: this one would damage their jobs."""


class CommandFailed(RedbikeError):
    """A command that could not be started, or failed: its `output` says why, a traceback of ours would not."""

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


def quoted(text: str) -> str:
    """The text in quotes, as messages have it; of a long one, its beginning."""
    shown = repr(text)
    return shown if len(shown) <= 82 else f"{shown[:80]}…{shown[0]}"
