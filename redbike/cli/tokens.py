"""Run the command token: make, list and revoke the tokens for the API and the page."""

from collections.abc import Iterable

from redbike.cli.arguments import Arguments, parse_time, prepare_time, tell_time
from redbike.cli.bike import open_bike, open_to_look
from redbike.cli.messages import complain
from redbike.cli.rows import print_rows, show_with
from redbike.config.file import Config
from redbike.control.operator import name_operator
from redbike.control.tokens import make_token
from redbike.errors import BadConfig, ServerError
from redbike.queries.fields import TOKENS
from redbike.schedule.clock import Clock
from redbike.store.patterns import check_pattern
from redbike.store.store import Store
from redbike.store.tokens import check_name, check_role
from redbike.text.parsing import measure_duration


def control_tokens(arguments: Arguments, config: Config) -> None:
    """Make a token, revoke one, or list all."""
    if arguments["list"]:
        return _list_tokens(arguments, config)
    name = check_name(arguments["<NAME>"])
    if arguments["remove"]:
        return _open_store(config).tokens.remove(name)
    role, patterns = check_role(arguments["--role"]), [check_pattern(text) for text in arguments["--jobs"]]
    text = arguments["--expires"]
    if _measure(text) is None:
        prepare_time(text, config)
    store = _open_store(config)
    return _add(store, name, role, patterns, None if text is None else _find_end(text, config, store))


def _add(store: Store, name: str, role: str, patterns: Iterable[str], expires: float | None) -> None:
    token, secret = make_token(store, name, role, patterns, expires)
    try:
        store.tokens.add(token)
    except ServerError:
        # The token may be stored nevertheless: by some shards, or because only the reply was lost.
        print(secret)
        complain("store this token, as it is shown only now; it is valid if redbike token list has it")
        raise
    # Standard output has only the secret, so that a shell can assign it to a variable.
    print(secret)
    complain("store this token, as it is shown only now; send it as Authorization: Bearer TOKEN")


def _open_store(config: Config) -> Store:
    return open_bike(config).store.noted_as(name_operator())


def _find_end(text: str, config: Config, store: Store) -> float | None:
    """Return when a token expires, in epoch seconds. `text` is a time, or a duration from the server's present time."""
    now, seconds = store.timeline.read_clock(), _measure(text)
    if seconds is None:
        end = parse_time(text, config, read_clock=lambda: now)
    else:
        end = now + seconds
        tell_time(text, end, config.settings.timezone)
    if end is not None and end <= now:
        raise BadConfig(f"bad --expires {text!r:.80}: a time in the future is needed")
    return end


def _measure(text: str | None) -> float | None:
    """Return the seconds of a duration with a unit; None for any other text."""
    return measure_duration(text) if text and not text.replace(".", "").isdecimal() else None


def _list_tokens(arguments: Arguments, config: Config) -> None:
    bike = open_to_look(config)
    tokens, now = bike.store.tokens.read_all()
    print_rows(arguments, tokens, TOKENS, show_with("show_tokens", Clock(now, bike.settings.timezone)))
