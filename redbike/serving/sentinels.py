"""Find a master by Sentinels, and say what each of them replied if none names one."""

from typing import Any

from redis.exceptions import AuthenticationError, ConnectionError, ResponseError, TimeoutError
from redis.sentinel import MasterNotFoundError, Sentinel

HINT = " (sentinel_password, and sentinel_username if there is one, are for the Sentinels)"


class Sentinels(Sentinel):
    """redis-py's `Sentinel`, with the reason in its error, in place of the representation of each pool."""

    def discover_master(self, service_name: str) -> tuple[str, int]:
        """Return the address of the master. Raise `MasterNotFoundError`."""
        try:
            found: tuple[str, int] = super().discover_master(service_name)  # type: ignore[no-untyped-call]
        except (MasterNotFoundError, ResponseError):
            reasons = "; ".join(self._ask(each, service_name) for each in self.sentinels)
            raise MasterNotFoundError(f"no Sentinel names a master of {service_name!r}: {reasons}") from None
        return found

    def _ask(self, sentinel: Any, service_name: str) -> str:
        """Return why this Sentinel names no master."""
        place = sentinel.connection_pool.connection_kwargs
        try:
            state = sentinel.sentinel_masters().get(service_name)
            reason = "it does not know this service" if state is None else "it counts the master as down"
        except AuthenticationError as error:
            reason = f"{error}{HINT}"
        except (ConnectionError, TimeoutError, ResponseError) as error:
            reason = str(error)
        return f"{place['host']}:{place['port']}: {reason}"
