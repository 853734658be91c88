"""Connections with TLS that share what they have read: redis-py reads all certificates again for each connection.

Reading takes tens of milliseconds, so a command that reaches several masters would take seconds on a busy machine.
"""

import os
import ssl
import time
from contextlib import suppress
from functools import lru_cache
from typing import Any

import redis
from redis.sentinel import SentinelManagedSSLConnection

from redbike.errors import BadConfig

FRESH = 60.0  # seconds after which the authorities that the system trusts are read again
MOST = 8  # contexts that are kept
BAD = (OSError, TypeError, ValueError)  # what Python raises for invalid settings and files


class TLSConnection(redis.SSLConnection):
    """A connection to one server. It shares the `ssl.SSLContext` of others with the same settings and files."""

    def _wrap_socket_with_ssl(self, sock: Any) -> Any:
        if self.ssl_validate_ocsp or self.ssl_validate_ocsp_stapled:
            wrap: Any = super()._wrap_socket_with_ssl
            return wrap(sock)
        return self.make_context().wrap_socket(sock, server_hostname=self.host)

    def make_context(self) -> ssl.SSLContext:
        """Return the context for its settings and files. Raise `OSError`, `ValueError` or `TypeError` for bad ones."""
        return _make_context(
            (self.check_hostname, self.cert_reqs, self.ssl_min_version, self.ssl_ciphers),
            (tuple(self.ssl_include_verify_flags or ()), tuple(self.ssl_exclude_verify_flags or ())),
            (self.certfile, self.keyfile, self.certificate_password),
            (self.ca_certs, self.ca_path, self.ca_data),
            (*map(_read_state, (self.certfile, self.keyfile, self.ca_certs)), time.monotonic() // FRESH),
        )


class SentinelTLSConnection(TLSConnection, SentinelManagedSSLConnection):
    """A connection to the master that the Sentinels name."""


def check_tls(connection: object) -> None:
    """Raise `BadConfig` for a file or a cipher that `connection` cannot use: waiting for the server does not help.

    A file that becomes invalid later, such as a certificate that is being replaced, is a failure to connect.
    """
    if not isinstance(connection, TLSConnection):
        return
    with suppress(*BAD):
        connection.make_context()
        return
    # Something is bad: try one setting after the other to name it.
    context, password = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), (connection.certificate_password,)
    own = {"ssl_certfile": connection.certfile, "ssl_keyfile": connection.keyfile}
    trusted = {
        "ssl_ca_certs": connection.ca_certs,
        "ssl_ca_path": connection.ca_path,
        "ssl_ca_data": connection.ca_data,
    }
    steps: tuple[tuple[Any, dict[str, Any], tuple[Any, ...]], ...] = (
        (context.load_cert_chain, own, password),
        (context.load_verify_locations, trusted, ()),
        (context.set_ciphers, {"ssl_ciphers": connection.ssl_ciphers}, ()),
    )
    for load, given, more in steps:
        named = ", ".join(f"{name} {value!r:.300}" for name, value in given.items() if value is not None)
        try:
            if named:
                load(*given.values(), *more)
        except BAD as error:
            raise BadConfig(f"bad connection setting {named}: {error.args[-1]}") from None


def _read_state(path: str | None) -> object:
    """Return a value that changes when the file is replaced, as by a new certificate; None for no file."""
    try:
        found = os.stat(path) if path else None
    except OSError:
        return None
    return found and (found.st_ino, found.st_size, found.st_mtime_ns)


@lru_cache(MOST)
def _make_context(
    checks: tuple[Any, ...],
    flags: tuple[tuple[ssl.VerifyFlags, ...], ...],
    own: tuple[Any, ...],
    trusted: tuple[Any, ...],
    _state: tuple[object, ...],
) -> ssl.SSLContext:
    """Return the context that redis-py would make of these settings. `_state` changes when files must be read again."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode, least, ciphers = checks
    for flag in flags[0]:
        context.verify_flags |= flag
    for flag in flags[1]:
        context.verify_flags &= ~flag
    if any(own[:2]):
        context.load_cert_chain(*own)
    if any(each is not None for each in trusted):
        context.load_verify_locations(*trusted)
    if least is not None:
        context.minimum_version = least
    if ciphers:
        context.set_ciphers(ciphers)
    return context
