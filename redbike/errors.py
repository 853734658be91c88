"""The errors of Redbike, in one tree, whose messages quote the invalid text; and the exceptions that work raises."""

from datetime import timedelta


class RedbikeError(Exception):
    """The base of all errors of Redbike: it refuses a call, or cannot do it."""


class BadSchedule(RedbikeError, ValueError):
    """A text that is no schedule, that can never fire, or that is too long."""


class BadJobId(RedbikeError, ValueError):
    """A job id that is empty, too long, not UTF-8, or has control characters in it."""


class BadQueueName(RedbikeError, ValueError):
    """A queue name that is empty, too long, or would collide with a key of Redbike's own."""


class BadConfig(RedbikeError, ValueError):
    """A setting, worker specification, timestamp or file that cannot be used as it stands."""


class ServerError(RedbikeError):
    """The Redis server cannot be used: it is missing, is too old, or refuses requests."""


class Unreachable(ServerError):
    """The Redis server cannot be reached, or went away in the middle of a request."""


class LoginRefused(Unreachable):
    """The Redis server now refuses a user or a password that it accepted before."""


class NoSuchJob(RedbikeError, LookupError):
    """No job of that id has been set."""


class NoResult(RedbikeError, LookupError):
    """No kept run of the job has a result. The option ``keep-result`` keeps results."""


class LostRun(RedbikeError):
    """The run no longer belongs to its worker: it was lost, or has ended. A call for it changes nothing."""


class TooManyRuns(RedbikeError):
    """More runs were due in a test than the test allows: perhaps a job runs again and again."""


class StopWork(Exception):
    """Raised by a worker's ``work``: the job's schedule becomes ``STOP``.

    A file or a function that has another schedule starts the job again, by ``load``, ``sync`` or ``redbike up``.
    """


class UnsetJob(Exception):
    """Raised by a worker's ``work``: the job is unset."""


class Again(Exception):
    """Raised by a worker's ``work``: this occurrence runs again after the time `after`. The run has not failed.

    `after` is seconds, a duration such as ``"5m"``, or a timedelta.
    `reason` says why. It is kept as the ``error`` of this try, in one line. A subclass may define its own `reason`.
    """

    reason = ""

    def __init__(self, after: float | str | timedelta = 0.0, reason: str = "") -> None:
        # With both in `args`, the exception can be pickled.
        super().__init__(*((after, reason) if reason else (after,)))
        self.after = after
        if reason:
            self.reason = reason

    def __str__(self) -> str:
        return str(self.reason) if self.reason else super().__str__()


class Overrun(Exception):
    """Raised by a worker's ``work`` that stops because its time is over: ``on-timeout`` decides what follows.

    `output` is kept with the failure.
    """

    output = ""  # also for a subclass that does not call this constructor

    def __init__(self, message: str = "", output: str = "") -> None:
        super().__init__(message)
        self.output = output


class OtherProtocol(ServerError):
    """Another version works or has worked under the prefix: this version would damage its jobs."""


class CommandFailed(RedbikeError):
    """A command failed, or could not be started. Its `output` says why, so no traceback of ours is shown."""

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


def quoted(text: str) -> str:
    """Return `text` in quotes for a message; of a long text, only the beginning."""
    shown = repr(text)
    return shown if len(shown) <= 82 else f"{shown[:80]}…{shown[0]}"
