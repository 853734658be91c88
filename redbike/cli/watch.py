"""Run the commands for monitoring: health, metrics."""

import threading
from collections.abc import Sequence
from functools import partial

from redbike.cli.arguments import Arguments
from redbike.cli.bike import open_to_look
from redbike.cli.messages import DONE, FAILED, complain
from redbike.config.file import Config
from redbike.errors import BadConfig, RedbikeError, ServerError
from redbike.process.signals import SignalHandlers, StopFlag, leave_to_others
from redbike.process.streams import encode_data
from redbike.queries.health import MAX_LAG, MOST_LAG, Health
from redbike.queries.metrics_server import Page, Server, parse_address
from redbike.text.parsing import measure_duration

ANSWER_TIMEOUT = 1.5  # seconds for all requests about health, so that the command takes at most two
JOB, LAG = PARAMETERS = ("job", "max-lag")  # the parameters of a request for /health
NAP = 5.0  # seconds after which a signal is noticed at the latest


def tell_health(arguments: Arguments, config: Config) -> int:
    """Print in one line whether all is well. Return 0 if it is, else 1, also if there is no answer in time."""
    health = ask_health(config, arguments["<PATTERN>"], _parse_lag(arguments["--max-lag"]))
    print(health.format_line())
    return DONE if health.is_well else FAILED


def ask_health(config: Config, patterns: Sequence[str], max_lag: float) -> Health:
    """Return the health of Redbike. It has a problem if the server does not answer within `ANSWER_TIMEOUT`."""
    answers: list[Health | Exception] = []

    def ask() -> None:
        try:
            bike = open_to_look(config)
            with bike.client:
                answers.append(bike.health(*patterns, max_lag=max_lag))
        except (ServerError, OSError) as error:
            answers.append(Health((str(error),)))
        except Exception as error:
            answers.append(error)  # it is raised below, in the thread that can report it

    # In a thread, because a hanging server, or a slow lookup of a host, could take longer than the timeout.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(ANSWER_TIMEOUT)
    answer = answers[0] if answers else Health((f"there was no answer within {ANSWER_TIMEOUT:g} s",))
    if isinstance(answer, Exception):
        raise answer
    return answer


def _parse_lag(text: str | None) -> float:
    if text is None:
        return MAX_LAG
    seconds = measure_duration(text)
    if not seconds or seconds > MOST_LAG:
        raise BadConfig(f"bad --max-lag {text!r:.80}: a time such as 90, 5m or 1h is needed, more than 0")
    return seconds


def tell_metrics(arguments: Arguments, config: Config) -> int:
    """Print the metrics for Prometheus once; with ``--listen``, serve them until a signal ends the process."""
    listen = arguments["--listen"]
    address = None if listen is None else parse_address(listen)
    try:
        from redbike.queries.metrics import KIND, Metrics
    except ModuleNotFoundError as error:
        raise RedbikeError(f"metrics needs a package ({error}): install Redbike with its extra 'metrics'") from None
    figures = Metrics(lambda: open_to_look(config).store, config.settings.prefix, config.settings)
    if address is None:
        encode_data()
        print(figures.format(), end="")
        return FAILED if figures.problem else DONE

    stopping = StopFlag()
    # Handle signals before a client can connect, so that a signal ends the server in order.
    with SignalHandlers(lambda _: stopping.set()):
        try:
            health = partial(_answer_health, config)
            server = Server(address, {"/metrics": lambda _: Page(200, figures.format(), KIND), "/health": health})
        except OSError as error:
            raise RedbikeError(f"cannot listen on {listen!r:.80}: {error.strerror or error}") from None
        with server:
            with leave_to_others():
                threading.Thread(target=server.serve_forever, daemon=True).start()
            complain(f"listening on {server.url}/metrics and {server.url}/health")
            while not stopping.wait(NAP):
                pass
            server.shutdown()
    return DONE


def _answer_health(config: Config, given: dict[str, list[str]]) -> Page:
    """Answer a request for /health: 200 if all is well, else 503. Raise `BadConfig` for a bad parameter."""
    for name, values in given.items():
        if name not in PARAMETERS:
            raise BadConfig(f"unexpected parameter {name!r:.80}: {', '.join(PARAMETERS)} are known")
        if name != JOB and len(values) > 1:
            raise BadConfig(f"the parameter {name!r} is given more than once")
    health = ask_health(config, given.get(JOB, []), _parse_lag(given.get(LAG, [None])[0]))
    return Page(200 if health.is_well else 503, f"{health.format_line()}\n")
