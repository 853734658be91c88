"""Read the headers in which a proxy names the user of a request, and the groups of this user, which have roles here.

Anybody can send such headers. So they count only if they come from a trusted proxy, which is on this machine, or at an
address that the operator names.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Scope

from redbike.errors import BadConfig
from redbike.store.tokens import ROLES, Role, check_role
from redbike.text.printable import escape
from redbike.web.requests import check_header, get_client, is_loopback, read_host

MAX_NAME = 100  # characters of the name of a user
EVERYBODY = "*"  # the group that stands for each user
PEER = "peer"  # the key in the state of a request for the address of the direct sender, before X-Forwarded-For

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Person:
    """A user whom a trusted proxy names. The role is None if no group of the user has a role."""

    name: str
    role: Role | None = None


@dataclass(frozen=True, slots=True)
class Proxies:
    """Which headers count, and from which proxies.

    With `roles`, the header `groups_header` has the groups, separated by commas. `trusted` are the networks of proxies
    besides this machine. If it is None, all are trusted: the embedding application is responsible for the headers.
    """

    who_header: str | None = None
    groups_header: str | None = None
    roles: Mapping[str, Role] = field(default_factory=dict)
    trusted: tuple[Network, ...] | None = None

    def find_person(self, scope: Scope, headers: Headers) -> Person | None:
        """Return the user whom a trusted proxy names; None for none."""
        # Two headers count for nothing: the client may have sent the first one.
        given = headers.getlist(self.who_header) if self.who_header else []
        if len(given) != 1 or not self._trusts(scope, headers):
            return None
        name = read_name(given[0])
        return Person(name, self._find_role(headers)) if name else None

    def _trusts(self, scope: Scope, headers: Headers) -> bool:
        if self.trusted is None:
            return True
        try:
            peer = ipaddress.ip_address(str(scope.get("state", {}).get(PEER) or get_client(scope)).partition("%")[0])
        except ValueError:
            return False
        peer = getattr(peer, "ipv4_mapped", None) or peer
        if peer.is_loopback:
            # A browser may run here, too. A foreign page whose name resolves to here could let it send any header.
            return not self.roles or is_loopback(read_host(headers) or "")
        return any(peer in network for network in self.trusted)

    def _find_role(self, headers: Headers) -> Role | None:
        given = headers.getlist(self.groups_header) if self.groups_header else []
        groups = {group.strip() for group in given[0].split(",")} if len(given) == 1 else set()
        found = {role for group, role in self.roles.items() if group in groups or group == EVERYBODY}
        return max(found, key=ROLES.index, default=None)


def read_name(given: str) -> str:
    """Return the value of a header as a name that is safe to show.

    Headers are bytes. A proxy sends a name with characters beyond ASCII as UTF-8.
    """
    return " ".join(escape(given.encode("latin-1")).split())[:MAX_NAME]


def read_proxies(given: Mapping[str, Any]) -> Proxies:
    """Return the `Proxies` that the options of ``redbike web`` describe. Raise `BadConfig`."""
    headers = {name: check_header(given[name], name) for name in ("--who-header", "--groups-header")}
    who, groups = headers["--who-header"], headers["--groups-header"]
    roles = {} if given["--roles"] is None else parse_roles(given["--roles"])
    if roles and who is None:
        raise BadConfig("bad --roles: the header with the user is needed, too: --who-header")
    if groups and not roles:
        raise BadConfig("bad --groups-header: the roles of the groups are needed, too: --roles")
    return Proxies(who, groups, roles, parse_networks([given["--trust-proxy"]] if given["--trust-proxy"] else []))


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Return the networks in texts such as ``10.0.0.0/8`` or ``192.0.2.7``. Raise `BadConfig`."""
    try:
        return tuple(ipaddress.ip_network(part.strip()) for text in texts for part in text.split(","))
    except ValueError as error:
        raise BadConfig(f"bad --trust-proxy: {error}; an address, or a network such as 10.0.0.0/8, is needed") from None


def parse_roles(text: str) -> dict[str, Role]:
    """Return the roles of groups in a text such as ``admins=write,ops=operate``. Raise `BadConfig`."""
    roles: dict[str, Role] = {}
    for part in text.split(","):
        group, equals, role = part.strip().rpartition("=")
        if not (equals and group.strip()):
            raise BadConfig(f"bad --roles {text!r:.80}: groups and roles are needed, such as admins=write,ops=operate")
        roles[group.strip()] = check_role(role.strip())
    return roles
