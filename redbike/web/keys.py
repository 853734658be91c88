"""Sessions, which belong to a token, keys of forms, which belong to a browser, and the limit of wrong tokens."""

import hashlib
import hmac
import ipaddress
import secrets
import time
from collections import deque

from redbike.errors import BadConfig

SESSION, BROWSER = "redbike-session", "redbike-browser"  # names of cookies; the first is only a prefix
AGE = 30 * 86400  # seconds for which a session and its cookies are valid
CLOCK_SKEW = 86400  # seconds by which the clock of this host may be behind that of the host that made a session
SHORTEST = 16  # the least characters of a token
ROUNDS = 100_000  # of the derivation of the secret, to slow down an attacker who guesses the token from a cookie
TRIES, WINDOW = 10, 60.0  # so many wrong tokens within so many seconds block an address
ADDRESSES = 10_000  # the most addresses of which wrong tokens are remembered


def check_token(token: str, name: str) -> str:
    """Return `token`. Raise `BadConfig`, which calls it `name`, if it is too short, or a header cannot contain it."""
    if len(token) < SHORTEST or not all("!" <= char <= "~" for char in token):
        raise BadConfig(
            f"bad {name}: at least {SHORTEST} letters, digits or signs of ASCII are needed, without blanks; "
            "openssl rand -hex 24 makes one"
        )
    return token


class Tries:
    """Counts wrong tokens by the address of the client.

    One count for all addresses would let an attacker lock everybody out. Even from many addresses, nobody can guess a
    token of `SHORTEST` random characters.
    """

    def __init__(self) -> None:
        self._wrong: dict[str, deque[float]] = {}

    def is_over(self, address: str) -> bool:
        """Tell whether the address has sent too many wrong tokens, and is blocked now."""
        wrong = self._wrong.get(_find_network(address), deque[float]())
        return len(wrong) == TRIES and time.monotonic() - wrong[0] < WINDOW

    def add(self, address: str) -> None:
        """Count a wrong token of this address."""
        network = _find_network(address)
        # The addresses with the latest wrong tokens are at the end.
        wrong = self._wrong.pop(network, None)
        self._wrong[network] = deque(maxlen=TRIES) if wrong is None else wrong
        self._wrong[network].append(time.monotonic())
        if len(self._wrong) > ADDRESSES:
            del self._wrong[next(iter(self._wrong))]


def _find_network(address: str) -> str:
    """Return the network that belongs to one client: an IPv4 address, or the first 64 bits of an IPv6 address."""
    try:
        number = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(number, ipaddress.IPv6Address):
        # A dual-stack socket shows IPv4 addresses as mapped ones, which are all in the same network of 64 bits.
        number = number.ipv4_mapped or number
    return str(number) if number.version == 4 else str(ipaddress.ip_network((number, 64), strict=False))


class Keys:
    """Makes and checks sessions and the keys of forms.

    They are derived from the token, so a new token ends all sessions. Without a token, they are derived from `secret`.
    Without both, they are new in each process. Raise `BadConfig` for a token or a secret that `check_token` refuses.
    """

    def __init__(self, token: str | None = None, secret: str | None = None) -> None:
        self._token = None if token is None else _hash(check_token(token, "token"))
        source = token or (None if secret is None else check_token(secret, "secret"))
        self._secret = secrets.token_bytes(32) if source is None else _derive(source)
        # The name has a hash, because two pages on different ports of one host share all cookies.
        self.session_name = f"{SESSION}-{self._sign('name')[:8]}"

    @property
    def are_asked_for(self) -> bool:
        """Whether the operator has set a token."""
        return self._token is not None

    def fits(self, token: str) -> bool:
        """Tell whether this is the operator's token. The time that this takes reveals nothing of it."""
        return self._token is not None and hmac.compare_digest(_hash(token), self._token)

    def make_session(self, name: str = "", digest: str = "") -> str:
        """Return a session cookie for a user who has shown a token. The cookie does not contain the token.

        `name` and `digest` are those of a token of ``redbike token``; "" for the operator's. Without this token, the
        cookie is no longer valid.
        """
        text = f"{int(time.time())}.{secrets.token_hex(8)}" + (f".{name}" if name else "")
        return f"{text}.{self._sign(f'session {text}{digest}')}"

    def name_session(self, cookie: str) -> str:
        """Return the name of the token that a session cookie claims; "" for the operator's own."""
        return cookie.rpartition(".")[0].partition(".")[2].partition(".")[2]

    def is_session(self, cookie: str, digest: str = "") -> bool:
        """Tell whether a cookie is a valid session of the token with this digest, and not too old."""
        text, _, signature = cookie.rpartition(".")
        if not _is_same(signature, self._sign(f"session {text}{digest}")):
            return False
        return -CLOCK_SKEW <= time.time() - int(text.partition(".")[0]) < AGE

    def make_form(self, browser: str) -> str:
        """Return the key that a form of this browser must send."""
        return self._sign(f"form {browser}")

    def is_form(self, sent: str, browser: str) -> bool:
        """Tell whether a form has sent the key of this browser."""
        return bool(browser) and _is_same(sent, self.make_form(browser))

    def _sign(self, what: str) -> str:
        return hmac.new(self._secret, what.encode(errors="replace"), hashlib.sha256).hexdigest()


def make_browser() -> str:
    """Return a new random cookie that identifies a browser."""
    return secrets.token_hex(16)


def is_browser(cookie: str) -> bool:
    """Tell whether a cookie has the format of `make_browser`."""
    return len(cookie) == 32 and set(cookie) <= set("0123456789abcdef")


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="replace")).digest()


def _derive(source: str) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", source.encode(errors="replace"), b"redbike page", ROUNDS)


def _is_same(sent: str, right: str) -> bool:
    return hmac.compare_digest(sent.encode(errors="replace"), right.encode())
