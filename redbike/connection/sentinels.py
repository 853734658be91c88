"""Find a master by Sentinels, and say what each of them replied if none names one."""

from typing import Any

from redis.exceptions import AuthenticationError, ConnectionError, InvalidResponse, ResponseError, TimeoutError
from redis.sentinel import MasterNotFoundError, Sentinel

HINT = " (sentinel_password, and sentinel_username if there is one, are for the Sentinels)"
NO_LOGIN = "HELLO must be called"  # in the reply to a login without a password


class Sentinels(Sentinel):
    """redis-py's `Sentinel`, which also goes on after a refusal, and has the reason of each in its error."""

    def discover_master(self, service_name: str) -> tuple[str, int]:
        """Return the address of the master. Raise `MasterNotFoundError`."""
        reasons = []
        for sentinel in list(self.sentinels):
            try:
                masters: Any = sentinel.sentinel_masters()
            except AuthenticationError as error:
                reason = f"{'it needs a password' if NO_LOGIN in str(error) else error}{HINT}"
            except (ConnectionError, TimeoutError, ResponseError, InvalidResponse) as error:
                reason = f"{error!s:.200}"
            else:
                state = masters.get(service_name)
                if state and self.check_master_state(state, service_name):  # type: ignore[no-untyped-call]
                    # It is asked first from now on, as others may be gone.
                    self.sentinels.remove(sentinel)
                    self.sentinels.insert(0, sentinel)
                    return state["ip"], state["port"]
                reason = "it counts the master as down" if state else "it does not know this service"
            reasons.append(f"{_describe_address(sentinel)}: {reason}")
        raise MasterNotFoundError(f"no Sentinel names a master of {service_name!r}: {'; '.join(reasons)}")


def _describe_address(sentinel: Any) -> str:
    place = sentinel.connection_pool.connection_kwargs
    return f"{place['host']}:{place['port']}"
