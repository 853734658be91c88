"""The tokens for the API and the page: what each may do, with which jobs, and until when.

The secret of a token is not stored, only its SHA-256. Nobody can guess a secret of 256 random bits from this, so a
slower hash is not needed, as it would be for a password that a person has chosen.
"""

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, Self, get_args

from redbike.errors import BadConfig, RedbikeError
from redbike.store.namespace import Part, make_tag, read_time
from redbike.store.patterns import check_pattern, compile_patterns
from redbike.store.records import decode
from redbike.text.parsing import load_object
from redbike.text.printable import quote

Role = Literal["read", "operate", "write"]
ROLES: tuple[Role, ...] = get_args(Role)  # each role includes those before it
START = "redbike_"  # begins each secret, so that people and scanners recognize it
MOST_PATTERNS = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class UnknownToken(RedbikeError, LookupError):
    """There is no token of that name."""


@dataclass(frozen=True, slots=True)
class Token:
    """What the owner of a secret may do. Times are epoch seconds."""

    name: str
    role: Role
    jobs: tuple[str, ...]  # patterns of the ids of its jobs; empty for all jobs
    expires: float | None  # None: never
    since: float
    by: str
    digest: str = field(repr=False)

    @classmethod
    def parse(cls, name: str, record: str) -> Self | None:
        """Read a record; None for a damaged one, which gives no access."""
        kept = load_object(record) or {}
        try:
            jobs = tuple(check_pattern(text) for text in kept["jobs"])
            expires = None if kept["expires"] is None else float(kept["expires"])
            role, digest = check_role(kept["role"]), str(kept["digest"])
            return cls(name, role, jobs, expires, float(kept["since"]), str(kept.get("by", "")), digest)
        except (KeyError, TypeError, ValueError, OverflowError):
            return None

    def format(self) -> str:
        """Write the record."""
        kept = {"role": self.role, "jobs": self.jobs, "expires": self.expires, "since": self.since}
        return json.dumps({**kept, "by": self.by, "digest": self.digest}, ensure_ascii=False)

    def is_valid(self, now: float) -> bool:
        """Tell whether it has not expired at `now` (epoch seconds by Redis' clock)."""
        return self.expires is None or now < self.expires

    def covers(self, jobid: str) -> bool:
        """Tell whether it is valid for a job of this id."""
        return compile_patterns(self.jobs)(jobid)

    def describe(self) -> str:
        """Return in words what it allows, for the log."""
        jobs = f", jobs {' '.join(self.jobs)}" if self.jobs else ""
        return f"{self.name}: {self.role}{jobs}"


class Tokens(Part):
    """Stores the tokens."""

    def add(self, token: Token) -> None:
        """Store a token. Raise `BadConfig` if there is one of this name."""
        if self._run(token.name, f"add {token.describe()}", record=token.format()) == "taken":
            raise BadConfig(f"bad name {token.name!r}: a token has this name already; redbike token remove revokes it")

    def remove(self, name: str) -> None:
        """Remove a token: from now on it gives no access. Raise `UnknownToken`."""
        if self._run(check_name(name), f"remove {name}") == "unknown":
            raise UnknownToken(f"no such token: {name!r}")

    def _run(self, name: str, detail: str, **given: str) -> str:
        return str(self._namespace.run("token", name=name, detail=detail, request=make_tag(), **given)[0])

    def read_all(self) -> tuple[list[Token], float]:
        """Return the tokens, sorted by name, with expired and without damaged ones, and Redis' clock."""
        kept, clock = self._namespace.ask_all(("hgetall", self._namespace.keys.tokens), ("time",), at_once=False)
        found = (Token.parse(decode(name), decode(record)) for name, record in sorted(kept.items()))
        return [token for token in found if token], self._namespace.now or read_time(clock)


def make_secret() -> str:
    """Return a new secret."""
    return f"{START}{secrets.token_urlsafe(32)}"


def make_digest(secret: str) -> str:
    """Return the SHA-256 of a secret, in hexadecimal."""
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def find_token(tokens: Iterable[Token], secret: str, now: float) -> Token | None:
    """Return the token with this secret if it is valid at `now`, else None. Its duration reveals no secret."""
    digest, found = make_digest(secret), None
    for token in tokens:
        if hmac.compare_digest(token.digest.encode(), digest.encode()):
            found = token
    return found if found and found.is_valid(now) else None


def check_name(name: str) -> str:
    """Return `name` if a token can have it. Raise `BadConfig` if not."""
    if not _NAME.fullmatch(name):
        raise BadConfig(
            f"bad name {quote(name)}: 1 to 64 letters, digits, dots, dashes and underscores are needed, "
            "first a letter or a digit"
        )
    return name


def check_role(text: str) -> Role:
    """Return `text` if it is a role. Raise `BadConfig` if not."""
    for role in ROLES:
        if role == text:
            return role
    raise BadConfig(f"bad role {quote(text)}: {', '.join(ROLES)} are allowed")
