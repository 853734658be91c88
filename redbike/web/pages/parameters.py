"""Read the parameters of a request, and make links that keep them, so that a filter stays from page to page."""

from collections.abc import Callable, Mapping
from urllib.parse import quote, urlencode

from starlette.requests import Request

from redbike.errors import BadConfig
from redbike.loop.worker_class import find_queue
from redbike.schedule.clock import Clock
from redbike.schedule.typed_times import NOW
from redbike.store.names import check_queue_name
from redbike.store.patterns import compile_patterns, make_search
from redbike.text.parsing import parse_whole
from redbike.web.rendering import encode_all
from redbike.web.requests import read_moment
from redbike.web.site import Site

MOST_QUEUES = 200  # queues in a choice


def read_text(request: Request, name: str) -> str:
    """Return the parameter `name`, without blanks at its ends; "" without it."""
    return request.query_params.get(name, "").strip()


def read_choice(request: Request, name: str, *choices: str) -> str:
    """Return the parameter `name`, one of `choices`; by default the first one. Raise `BadConfig`."""
    text = read_text(request, name) or choices[0]
    if text not in choices:
        raise BadConfig(f"bad {name} {text!r:.40}: {', '.join(filter(None, dict.fromkeys(choices)))} are allowed")
    return text


def read_number(request: Request, name: str, default: int, most: int) -> int:
    """Return the parameter `name`, a whole number from 1, or `most` if it is higher. Raise `BadConfig`."""
    text = read_text(request, name)
    if not text:
        return default
    if not (number := parse_whole(text, 10**9)):
        raise BadConfig(f"bad {name} {text!r:.40}: a whole number from 1 is needed")
    return min(number, most)


def read_float(request: Request, name: str, link: str, nothing: str = "") -> float | None:
    """Return the parameter `name`, a number from a link; None for the text `nothing`. Raise `BadConfig`."""
    text = read_text(request, name)
    try:
        return None if text == nothing else float(text)
    except ValueError:
        raise BadConfig(f"bad {name} {text!r:.40}: it comes from the link to {link}") from None


def read_last(request: Request, name: str, clock: Clock) -> tuple[float | None, str]:
    """Return the last instant that a parameter means, in epoch seconds, and an exact text for it."""
    text = read_text(request, name)
    return read_moment(text, clock, looks_back=True) if text else (None, "")


def read_nearest(request: Request, name: str, clock: Clock) -> tuple[float | None, str]:
    """Return the nearest instant that a parameter means, in epoch seconds, and an exact text; (None, "") for now."""
    text = read_text(request, name)
    if text in ("", NOW):
        return None, ""
    found = [read_moment(text, clock, looks_back) for looks_back in (True, False)]
    return min(found, key=lambda each: abs(each[0] - clock.now))


def read_pattern(request: Request) -> str:
    """Return the pattern in the query; "" without one. A text without a wildcard becomes a pattern for ids with it."""
    text = read_text(request, "pattern")
    return make_search(text) if text else ""


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Return a function that tells whether an id matches a pattern; "" matches all ids."""
    return compile_patterns([pattern] if pattern else [])


def list_queues(site: Site, chosen: str, *more: str, most: int = MOST_QUEUES) -> list[str]:
    """Return the queues for a choice: up to `most` of all queues and of `more`, and always the `chosen` one."""
    names = [each.queue for each in site.view.get().glance.queues]
    names = (sorted({*names, *more}) if more else names)[:most]
    return names if chosen in ("", *names) else [*names, chosen]


def read_queue(site: Site, request: Request) -> str:
    """Return the full name of the queue in the query; "" without one. Raise `BadQueueName`."""
    used = [each.queue for each in site.view.get().glance.queues]
    text = request.query_params.get("queue", "")
    if text not in used and not (text := text.strip()):  # a queue may have blanks around its name
        return ""
    return find_queue(site.bike.worker, check_queue_name(text), used)


def make_link(page: str, given: Mapping[str, object], **changes: object) -> str:
    """Return a link to a page with the parameters `given`, updated by `changes`. "", None and False are left out."""
    values = {name: value for name, value in {**given, **changes}.items() if value not in ("", None, False)}
    texts = {name: "1" if value is True else encode_all(str(value)) for name, value in values.items()}
    return f"{page}?{urlencode(texts, quote_via=quote)}" if texts else page
