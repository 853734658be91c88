"""The guard authenticates requests to the page and to the API, by a token, by a session, or by the headers of a proxy.

1. If no token is needed, the Host must be a loopback name. Otherwise a foreign page could reach this server by a name
   that resolves to this machine (DNS rebinding). An application that mounts the page may name other hosts.
2. A token is the operator's REDBIKE_WEB_TOKEN, or a token of ``redbike token``. The latter are cached for a second, and
   while Redis does not answer, the cached ones count.
"""

import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Literal

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import Scope

from redbike.errors import RedbikeError, ServerError
from redbike.store.tokens import Role, Token, find_token
from redbike.web.keys import WINDOW, Keys, Tries
from redbike.web.permits import Permit, Refusal
from redbike.web.proxies import Person, Proxies
from redbike.web.requests import get_client, is_loopback, read_bearer, read_cookies, read_host

ANY = "*"  # in the list of hosts: any host
FRESH = 1.0  # seconds for which the tokens are cached
CHALLENGE = {"www-authenticate": "Bearer"}

Asks = Literal["always", "if any", "never"]  # when a token is needed; "if any": if ``redbike token`` has made one


class Book:
    """A cache of the tokens of ``redbike token``. Any thread may use it."""

    def __init__(self, read: Callable[[], tuple[list[Token], float]]) -> None:
        self._read = read
        self._reading = threading.Lock()
        self._found: tuple[list[Token], float, float] | None = None  # with both clocks of then: Redis', monotonic
        self._tried = float("-inf")
        self.had_any = False

    @property
    def is_fresh(self) -> bool:
        """Whether `get` answers from the cache."""
        return self._found is not None and time.monotonic() - self._tried < FRESH

    def get(self, anew: bool = False) -> tuple[list[Token], float]:
        """Return the tokens, and Redis' clock; if `anew`, uncached. Raise `RedbikeError` if Redis never answered."""
        with self._reading:
            if anew or not self.is_fresh:
                self._refresh()
            assert self._found is not None
            tokens, clock, read = self._found
            return tokens, clock + time.monotonic() - read

    def _refresh(self) -> None:
        try:
            tokens, clock = self._read()
        except ServerError:
            if self._found is None:
                raise
        else:
            self._found = tokens, clock, time.monotonic()
            self.had_any |= bool(tokens)
        self._tried = time.monotonic()

    def find(self, name: str) -> Token | None:
        """Return the token with this name if it is valid, else None."""
        tokens, now = self.get()
        return next((token for token in tokens if token.name == name and token.is_valid(now)), None)

    def find_secret(self, secret: str) -> Token | None:
        """Return the token with this secret if it is valid, else None."""
        # Without the cache, a new token is valid at once. `Tries` limits how often wrong ones cause a read.
        for anew in (False, True):
            tokens, now = self.get(anew)
            if found := find_token(tokens, secret, now):
                return found
        return None


class Guard:
    """Authenticates requests. Unless `writes`, all roles are reduced to ``read``."""

    def __init__(
        self, keys: Keys, book: Book, writes: bool, hosts: Collection[str] | None, asks: Asks, proxies: Proxies
    ) -> None:
        self.keys, self.book, self.writes = keys, book, writes
        self.tries = Tries()
        self._hosts, self._asks, self._proxies = hosts, asks, proxies

    @property
    def asks_always(self) -> bool:
        """Whether each request needs a token, a session or a trusted proxy."""
        # Once there was a token, its removal does not open the page to everybody.
        had_any = self._asks == "if any" and self.book.had_any
        return self.keys.are_asked_for or self._asks == "always" or had_any

    def refuse_host(self, headers: Headers) -> Refusal | None:
        """Return why a request to this Host is refused; None if it is allowed."""
        host = read_host(headers)
        if host is None:
            return Refusal(400, "one header Host is needed, with a name or an address")
        if self._hosts is not None:
            is_known = ANY in self._hosts or host in self._hosts
        else:
            is_known = self.asks_always or is_loopback(host)
        if is_known:
            return None
        if self._hosts is not None:
            return Refusal(421, "this page does not answer to this host")
        return Refusal(421, "without a token, this page answers only to localhost: set REDBIKE_WEB_TOKEN")

    async def identify(
        self, scope: Scope, headers: Headers, cookies: Sequence[str] = (), is_new: bool = True
    ) -> Permit | Refusal | None:
        """Return what the sender may do, or why the request is refused; None for a stranger. `cookies` may be sessions.

        If the request `is_new`, wrong tokens are counted, and limited.

        Raise `RedbikeError` if the tokens could not be read yet.
        """
        person = self._proxies.find_person(scope, headers)
        if (secret := read_bearer(headers)) is not None:
            return await self._check_secret(get_client(scope), secret, person, is_new)
        if person and self._proxies.roles:
            if person.role is None:
                return Refusal(403, f"no group of {person.name} has a role here: see --roles")
            return self._permit(person.name, person.role)
        for cookie in cookies:
            if permit := await run_in_threadpool(self._read_session, cookie, person):
                return permit
        return None if await self.asks() else self._permit(person.name if person else "", "write")

    async def asks(self) -> bool:
        """Tell whether a token is needed. Raise `RedbikeError` if the tokens could not be read yet."""
        if self._asks == "if any" and not self.asks_always:
            await run_in_threadpool(self.book.get)
        return self.asks_always

    async def still_permits(self, scope: Scope, permit: Permit) -> bool:
        """Tell whether the sender of an earlier request still has the same permit."""
        headers = Headers(scope=scope)
        cookies = read_cookies(headers, self.keys.session_name)
        try:
            # Not as a new request: its token was right, so it is no guess, and guesses by others do not end it.
            return await self.identify(scope, headers, cookies, is_new=False) == permit
        except RedbikeError:
            return True  # the stream itself reports that Redis is away

    async def _check_secret(self, client: str, secret: str, person: Person | None, is_new: bool) -> Permit | Refusal:
        if is_new and self.tries.is_over(client):
            return Refusal(429, "too many wrong tokens: wait a minute", {"retry-after": str(round(WINDOW))})
        if self.keys.fits(secret):
            return self._permit(person.name if person else "", "write")
        if token := await run_in_threadpool(self.book.find_secret, secret):
            return self._permit(person.name if person else token.name, token.role, token.jobs)
        if is_new:
            self.tries.add(client)
        return Refusal(401, "this is not the token", CHALLENGE)

    def _read_session(self, cookie: str, person: Person | None) -> Permit | None:
        name = self.keys.name_session(cookie)
        if not name:
            return self._permit(person.name if person else "", "write") if self.keys.is_session(cookie) else None
        token = self.book.find(name)
        if token is None or token.jobs or not self.keys.is_session(cookie, token.digest):
            return None
        return self._permit(person.name if person else name, token.role)

    def _permit(self, name: str, role: Role, jobs: tuple[str, ...] = ()) -> Permit:
        return Permit(name, role if self.writes else "read", jobs)
