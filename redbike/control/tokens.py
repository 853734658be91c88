"""Make tokens, with which users log in to the API and the page."""

from collections.abc import Iterable

from redbike.control.operator import name_operator
from redbike.errors import BadConfig
from redbike.schedule.moments import END_OF_TIME
from redbike.store.patterns import check_pattern
from redbike.store.store import Store
from redbike.store.tokens import MOST_PATTERNS, Token, check_name, check_role, make_digest, make_secret
from redbike.text.printable import quote


def make_token(
    store: Store, name: str, role: str, jobs: Iterable[str] = (), expires: float | None = None
) -> tuple[Token, str]:
    """Return a token that is not stored yet, and its secret, which cannot be read again later.

    `jobs` are patterns of the jobs that the token gives access to; none means all jobs. `expires` is epoch seconds.
    Raise `BadConfig` for a bad argument, and `BadJobId` for a bad pattern.
    """
    now, patterns = store.timeline.read_clock(), tuple(dict.fromkeys(map(check_pattern, jobs)))
    if len(patterns) > MOST_PATTERNS:
        raise BadConfig(f"bad jobs: {len(patterns)} patterns are given, {MOST_PATTERNS} are allowed")
    if expires is not None and not now < expires < END_OF_TIME:
        raise BadConfig(f"bad expires {quote(expires)}: a time in the future is needed")
    secret = make_secret()
    by = store.who or name_operator()
    return Token(check_name(name), check_role(role), patterns, expires, now, by, make_digest(secret)), secret
