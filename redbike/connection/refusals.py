"""Turn what redis-py raises into our errors, with a line that a user understands."""

from redis import exceptions

from redbike.connection.cluster import MOVING, explain_login
from redbike.errors import LoginRefused, ServerError, Unreachable

ON_THE_MOVE = "the keys are moving to another server of the cluster"
# Replies of a server that starts, fails over, saves or is full: a later request may succeed. A pending blocking
# request gets UNBLOCKED when its server becomes a replica.
PASSING = (
    "LOADING",
    "READONLY",
    "UNBLOCKED",
    "BUSY",
    "OOM",
    "MISCONF",
    "NOREPLICAS",
)
# redis-py's classes for such replies. NOSCRIPT arrives here only if the server has lost a script that was loaded a
# moment ago.
NOT_READY = (
    exceptions.ReadOnlyError,
    exceptions.BusyLoadingError,
    exceptions.ClusterDownError,
    exceptions.MasterDownError,
    exceptions.NoScriptError,
)


class translate_errors:
    """Turns what redis-py raises into `Unreachable` (worth another try) or `ServerError` (not).

    A refused login is worth another try: when the program began, `check_server` saw that the server knew the password.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None:
            return
        if isinstance(error, exceptions.MaxConnectionsError):
            raise ServerError(f"max_connections is too low for what this process does: {error}") from error
        if isinstance(error, exceptions.AuthenticationError):
            raise LoginRefused(describe_login(error)) from None
        if isinstance(error, (exceptions.ConnectionError, exceptions.TimeoutError, OSError)):
            raise Unreachable(f"cannot reach Redis: {describe_outage(error)}") from error
        if isinstance(error, exceptions.InvalidResponse):
            # While a server is away, a proxy or another program may answer in its place.
            raise Unreachable(f"cannot reach Redis: something else answers in its place: {error!s:.80}") from error
        if isinstance(error, exceptions.ResponseError):
            raise make_refusal(error) from error


def make_refusal(error: Exception) -> ServerError:
    """Return our error for one that the server replied with."""
    if isinstance(error, MOVING):
        return Unreachable(ON_THE_MOVE)
    # redis-py strips the first word of the errors that it has classes for.
    if isinstance(error, NOT_READY):
        return Unreachable(f"Redis is not ready: {error}")
    if is_out_of_memory(error):
        return Unreachable(f"Redis is out of memory: {error}")
    kind = Unreachable if str(error).startswith(PASSING) else ServerError
    return kind(f"Redis refuses: {error}")


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether the server has said that it has no memory left."""
    return isinstance(error, exceptions.OutOfMemoryError) or str(error).startswith("OOM")


def describe_login(error: Exception) -> str:
    """Return what is wrong with a login."""
    return f"Redis refuses the login: {explain_login(error)}"


def describe_outage(error: Exception) -> str:
    """Return what redis-py says, without the representations of pools that a user's own `Sentinel` adds."""
    return str(error).partition(" : <")[0]
