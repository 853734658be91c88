"""What the next run costs, beside other libraries: ``python benchmarks/next_run.py [--dateutil-rs=<PYTHON>]``.

Prints a table of microseconds for one next run of a parsed schedule, each found from the one before, the best of nine
rounds; in parentheses how many times as long as ours. The last rows parse as well, with nothing kept from before. A
library that is not installed is left out (``pip install cronsim croniter-rs``). python-dateutil-rs takes the place of
dateutil where it is installed, so it is measured by an interpreter of its own, which ``--dateutil-rs`` names.
"""

import importlib
import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo

START = 1_780_000_000  # in May 2026
SLOW = 0.5  # seconds after which one call is enough
RUNS = 200  # in a round; leap days go to the year 2826
CRON = [
    "*/5 * * * *",
    "0 3 * * *",
    "*/15 9-17 * * 1-5",
    "0 0 1 * *",
    "0 0 29 2 *",
    "* * * * * */10",
    "CRON_TZ=Europe/Berlin 30 2 * * *",
]
RULES = [
    ("FREQ=DAILY", "20260501T090000Z"),
    ("FREQ=DAILY", "19970902T090000Z"),
    ("FREQ=WEEKLY;BYDAY=MO,WE,FR", "19970902T090000Z"),
    ("FREQ=MONTHLY;BYDAY=-1FR", "20260501T090000Z"),
    ("FREQ=MONTHLY;BYDAY=-1FR", "19970902T090000Z"),
    ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", "19970902T090000Z"),
    ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", "19720229T090000Z"),
    ("FREQ=HOURLY;INTERVAL=5", "20131009T164510Z"),
    ("FREQ=MINUTELY;INTERVAL=15;BYHOUR=9,10,11", "20260501T090000Z"),
    ("FREQ=MINUTELY", "20260501T090000Z"),
    ("FREQ=MINUTELY", "20131009T164510Z"),
]
CRON_PEERS = ("redbike", "cronsim", "croniter", "croniter_rs")
RULE_PEERS = ("redbike", "dateutil", "dateutil-rs")
Chain = Callable[[], Iterator[object]]


def redbike(text: str, start: str) -> Chain:
    """Ours."""
    schedule = importlib.import_module("redbike.schedule").parse(f"DTSTART:{start}\nRRULE:{text}" if start else text)

    def chain() -> Iterator[object]:
        due = float(START)
        while True:
            due = schedule.next(due)
            yield due

    return chain


def cron_parts(text: str) -> tuple[str, datetime]:
    """The expression without its zone, and the start in that zone."""
    zoned, _, expression = text.rpartition("CRON_TZ=")[2].partition(" ") if "CRON_TZ" in text else ("UTC", "", text)
    return expression, datetime.fromtimestamp(START, ZoneInfo(zoned))


def cronsim(text: str, start: str) -> Chain:
    """Its iterator goes from run to run; it takes seconds at the front."""
    expression, since = cron_parts(text)
    fields = expression.split()
    expression = " ".join([fields[5], *fields[:5]] if len(fields) == 6 else fields)
    parsed = importlib.import_module("cronsim").CronSim(expression, since)
    return lambda: iter(parsed)


def croniter(text: str, start: str, module: str = "croniter") -> Chain:
    """It is asked for the next run of an instant, as a scheduler does."""
    expression, since = cron_parts(text)
    parsed = importlib.import_module(module).croniter(expression, since)

    def chain() -> Iterator[object]:
        due = float(START)
        while True:
            due = parsed.get_next(float, start_time=due)
            yield due

    return chain


def croniter_rs(text: str, start: str) -> Chain:
    """The same in Rust."""
    return croniter(text, start, "croniter_rs")


def dateutil(text: str, start: str) -> Chain:
    """Its `after` finds the next run of an instant."""
    since = datetime.strptime(start, "%Y%m%dT%H%M%SZ")
    rule = importlib.import_module("dateutil.rrule").rrulestr(text, dtstart=since)

    def chain() -> Iterator[object]:
        due = datetime.fromtimestamp(START, UTC).replace(tzinfo=None)
        while True:
            due = rule.after(due)
            yield due

    return chain


def measure(peer: str, text: str, start: str) -> float:
    """Microseconds for one next run."""
    chain = globals()[peer](text, start)
    first = timed(chain(), 1)
    if first > SLOW:
        return first * 1e6
    number = max(3, min(RUNS, int(0.02 / first)))
    return min(timed(chain(), number) for _ in range(9)) * 1e6


def timed(runs: Iterator[object], number: int) -> float:
    """Seconds for one of `number` runs."""
    began = time.perf_counter()
    for _ in islice(runs, number):
        pass
    return (time.perf_counter() - began) / number


def cold(peer: str, text: str, start: str) -> float:
    """Microseconds for parsing and the first next run, with no cache of ours filled."""
    costs = []
    for _ in range(50):
        if peer == "redbike":
            importlib.import_module("redbike.schedule.parser")._parse.cache_clear()
        began = time.perf_counter()
        next(globals()[peer](text, start)())
        costs.append(time.perf_counter() - began)
    return min(costs) * 1e6


def elsewhere(python: str, text: str, start: str) -> float:
    """The same, by another interpreter."""
    command = [python, __file__, "--one", text, start]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def times(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}"


def row(title: str, costs: list[float | None]) -> str:
    ours = costs[0] or 1.0
    cells = (f"{ours:.1f}", *("–" if cost is None else f"{cost:,.1f} ({times(cost / ours)}×)" for cost in costs[1:]))
    return f"{title:<57}" + "".join(f"{cell:>27}" for cell in cells)


def table(
    title: str, peers: tuple[str, ...], shapes: list[tuple[str, str]], how: Callable[..., float], rust: str
) -> None:
    """One table: a row for each shape."""
    print(f"\n{title:<57}" + "".join(f"{peer:>27}" for peer in peers), flush=True)
    for text, start in shapes:
        costs: list[float | None] = []
        for peer in peers:
            if peer == "dateutil-rs":
                costs.append(elsewhere(rust, text, start) if rust else None)
            else:
                costs.append(how(peer, text, start) if importlib.util.find_spec(peer) else None)
        print(row(f"{text} since {start[:4]}" if start else text, costs), flush=True)


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--one"]:
        print(measure("dateutil", *arguments[1:]))
        return
    rust = next((value.partition("=")[2] for value in arguments if value.startswith("--dateutil-rs=")), "")
    lines = [(text, "") for text in CRON]
    table("microseconds for a next run: cron", CRON_PEERS, lines, measure, "")
    table("microseconds for a next run: RRULE", RULE_PEERS, RULES, measure, rust)
    table("with parsing: cron", CRON_PEERS, lines[:3], cold, "")
    table("with parsing: RRULE", RULE_PEERS[:2], RULES[:1] + RULES[3:4], cold, "")


if __name__ == "__main__":
    main(sys.argv[1:])
