"""What belongs to a token and to a browser: sessions, the keys of forms, and how often somebody may guess."""

import hashlib
import hmac
import ipaddress
import secrets
import time
from collections import deque

from redbike.errors import BadConfig

SESSION, BROWSER = "redbike-session", "redbike-browser"  # cookies; the first is a prefix of its name
AGE = 30 * 86400  # seconds for which a session and its cookies are valid
CLOCK_SKEW = 86400  # seconds by which the clock of a host may be behind that of the one that has made a session
SHORTEST = 16  # characters of a token
ROUNDS = 100_000  # of the derivation of the secret: it slows down whoever guesses a token from a cookie
TRIES, WINDOW = 10, 60.0  # wrong tokens from an address in so many seconds; then it may not try
ADDRESSES = 10_000  # of which wrong tokens are remembered


def check_token(token: str, name: str) -> str:
    """Return a token. Raise `BadConfig` for one that is easily guessed, or that no header can carry."""
    if len(token) < SHORTEST or not all("!" <= char <= "~" for char in token):
        raise BadConfig(
            f"bad {name}: at least {SHORTEST} letters, digits or signs of ASCII are needed, without blanks; "
            "openssl rand -hex 24 makes one"
        )
    return token


class Tries:
    """Counts wrong tokens by the address of the client.

    One count for all addresses would let an attacker lock everybody out. Nobody guesses a token of `SHORTEST` random
    characters, from however many addresses.
    """

    def __init__(self) -> None:
        self._wrong: dict[str, deque[float]] = {}

    def is_over(self, address: str) -> bool:
        """Tell whether a client may not try for the moment."""
        wrong = self._wrong.get(_find_network(address), deque[float]())
        return len(wrong) == TRIES and time.monotonic() - wrong[0] < WINDOW

    def add(self, address: str) -> None:
        """Count a wrong one."""
        network = _find_network(address)
        # The last ones are at the end.
        wrong = self._wrong.pop(network, None)
        self._wrong[network] = deque(maxlen=TRIES) if wrong is None else wrong
        self._wrong[network].append(time.monotonic())
        if len(self._wrong) > ADDRESSES:
            del self._wrong[next(iter(self._wrong))]


def _find_network(address: str) -> str:
    """Return what one client has for itself: an address of IPv4, or 64 bits of one of IPv6."""
    try:
        number = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(number, ipaddress.IPv6Address):
        # A socket for both kinds writes addresses of IPv4 in this way: all of them are in one network of 64 bits.
        number = number.ipv4_mapped or number
    return str(number) if number.version == 4 else str(ipaddress.ip_network((number, 64), strict=False))


class Keys:
    """Makes and checks sessions and the keys of forms.

    They follow from the token, so a new token ends all sessions; without a token, the keys of forms follow from
    `secret`. Without either, the keys are new in each process. Raise `BadConfig` for a token or a secret that is too
    simple.
    """

    def __init__(self, token: str | None = None, secret: str | None = None) -> None:
        self._token = None if token is None else _hash(check_token(token, "token"))
        source = token or (None if secret is None else check_token(secret, "secret"))
        self._secret = secrets.token_bytes(32) if source is None else _derive(source)
        # Two pages on one host, with different ports, share all cookies.
        self.session_name = f"{SESSION}-{self._sign('name')[:8]}"

    @property
    def are_asked_for(self) -> bool:
        """Whether there is a token."""
        return self._token is not None

    def fits(self, token: str) -> bool:
        """Tell whether this is the token, in a time that says nothing of it."""
        return self._token is not None and hmac.compare_digest(_hash(token), self._token)

    def make_session(self, name: str = "", digest: str = "") -> str:
        """Return a cookie for those who have shown the token; it is not the token.

        `name` and `digest` are those of a token of ``redbike token``: the cookie ends with it.
        """
        text = f"{int(time.time())}.{secrets.token_hex(8)}" + (f".{name}" if name else "")
        return f"{text}.{self._sign(f'session {text}{digest}')}"

    def name_session(self, cookie: str) -> str:
        """Return the name of the token with which a cookie was got, as it says itself; "" for the operator's own."""
        return cookie.rpartition(".")[0].partition(".")[2].partition(".")[2]

    def is_session(self, cookie: str, digest: str = "") -> bool:
        """Tell whether a cookie is one of these, of the token with this digest, and not too old."""
        text, _, signature = cookie.rpartition(".")
        if not _is_same(signature, self._sign(f"session {text}{digest}")):
            return False
        return -CLOCK_SKEW <= time.time() - int(text.partition(".")[0]) < AGE

    def make_form(self, browser: str) -> str:
        """Return what a form must send that `browser` has got."""
        return self._sign(f"form {browser}")

    def is_form(self, sent: str, browser: str) -> bool:
        """Tell whether a form has sent what it must."""
        return bool(browser) and _is_same(sent, self.make_form(browser))

    def _sign(self, what: str) -> str:
        return hmac.new(self._secret, what.encode(errors="replace"), hashlib.sha256).hexdigest()


def make_browser() -> str:
    """Return a new cookie that tells one browser from another."""
    return secrets.token_hex(16)


def is_browser(cookie: str) -> bool:
    """Tell whether a cookie is one of these."""
    return len(cookie) == 32 and set(cookie) <= set("0123456789abcdef")


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="replace")).digest()


def _derive(source: str) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", source.encode(errors="replace"), b"redbike page", ROUNDS)


def _is_same(sent: str, right: str) -> bool:
    return hmac.compare_digest(sent.encode(errors="replace"), right.encode())
