"""Run the command web, which serves the page and the API until a signal ends the process."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from redbike.cli.arguments import Arguments
from redbike.cli.bike import check_embedded_server, find_embedded_server, load_to_look, load_to_steer
from redbike.cli.messages import complain
from redbike.config.file import Config
from redbike.connection.client import connect
from redbike.control.operator import name_operator
from redbike.errors import BadConfig, RedbikeError, ServerError
from redbike.facade.redbike import Redbike
from redbike.process.signals import SignalHandlers, StopFlag
from redbike.queries.metrics_server import parse_address

if TYPE_CHECKING:
    from redbike.web.site import Site

LISTEN = "127.0.0.1:8080"
TOKEN = "REDBIKE_WEB_TOKEN"


def show_page(arguments: Arguments, config: Config) -> None:
    """Serve the page, and with ``--api`` the API. Redis may be unreachable meanwhile; no server is started."""
    listen = LISTEN if arguments["--listen"] is None else arguments["--listen"]
    address = parse_address(listen)
    try:
        from redbike.web import server
        from redbike.web.application import make_app
        from redbike.web.guard import Asks
        from redbike.web.keys import Keys, check_token
        from redbike.web.proxies import read_proxies
        from redbike.web.site import Site
    except ModuleNotFoundError as error:
        raise RedbikeError(f"web needs a package ({error}): install Redbike with its extra 'web'") from None
    root_path = server.check_root_path(arguments["--root-path"] or "")
    token = os.environ.get(TOKEN)
    keys = Keys(None if token is None else check_token(token, TOKEN))
    write, show_data, api = arguments["--write"], arguments["--show-data"], arguments["--api"]
    proxies = read_proxies(arguments)
    site = Site(_make_opener(config, write), config.settings, keys, write, show_data)
    stopping = StopFlag()
    # Handle signals before a client can connect, so that a signal ends the server in order.
    with SignalHandlers(lambda _: stopping.set()):
        try:
            bound = server.listen(address)
        except OSError as error:
            raise RedbikeError(f"cannot listen on {listen!r:.80}: {error.strerror or error}") from None
        with bound:
            is_local = server.is_local(bound)
            if token is None and not is_local and not (proxies.roles or _has_tokens(site)):
                raise BadConfig(
                    f"bad --listen {listen!r:.80}: other machines can reach it, so a token is needed: "
                    f"set {TOKEN}, or make tokens with redbike token"
                )
            asks: Asks = "if any" if is_local and not proxies.roles else "always"
            served = server.mount_below(root_path, make_app(site, asks=asks, proxies=proxies, api=api), api)
            bound.listen()
            complain(f"listening on {server.get_url(bound)}{root_path}/")
            with suppress(ServerError):  # Redis may come back later, but a wrong number of shards stays wrong
                site.bike.store.agreement.check()
            server.serve(served, bound, stopping)


def _has_tokens(site: "Site") -> bool:
    """Tell whether ``redbike token`` has made a token. If Redis does not answer yet, assume that it has."""
    try:
        return bool(site.book.get()[0])
    except ServerError:
        return True


def _make_opener(config: Config, write: bool) -> Callable[[], Redbike]:
    """Return a function that opens the facade. Only with `write`, raise `BadConfig` for a bad worker class."""
    handler = load_to_steer(config) if write else load_to_look(config)
    who = name_operator() if write else None
    if find_embedded_server(config) is None:
        # This sends nothing to the server, but it refuses a bad URL at once.
        connect(config.redis).close()

    def open_bike() -> Redbike:
        check_embedded_server(config)
        return Redbike.from_settings(handler, config.settings, connect(config.redis), durable=False, noted_as=who)

    return open_bike
