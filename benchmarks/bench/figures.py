"""What is measured: every figure with its unit, and the raw figure that it is a multiple of."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One row of the table. `raw` is the key of what it is compared with; the same key is raw Redis' own."""

    benchmark: str
    title: str
    unit: str
    more: bool  # more is better
    raw: str = ""
    compared: bool = True  # with peers

    @property
    def key(self) -> str:
        return f"{self.benchmark}: {self.title}"


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    quick: bool = False
    full: bool = False

    def pick(self, much: int, little: int) -> int:
        return little if self.quick else much


DISPATCHED = 100_000  # jobs that are due at one instant
TRIP = "raw: EVALSHA, redis-py"
RATE, SECONDS, MS, US = "jobs/s", "s", "ms", "µs"


def rate(benchmark: str, title: str, raw: str = TRIP, unit: str = RATE) -> Figure:
    return Figure(benchmark, title, unit, True, raw)


def cost(benchmark: str, title: str, unit: str, raw: str = "") -> Figure:
    return Figure(benchmark, title, unit, False, raw)


def _own(benchmark: str, title: str, unit: str, more: bool) -> Figure:
    return Figure(benchmark, title, unit, more, f"{benchmark}: {title}")


FIGURES: list[Figure] = [
    rate("raw", "SET, redis-py", unit="calls/s"),
    rate("raw", "EVALSHA, redis-py", unit="calls/s"),
    rate("raw", "EVALSHA, bare socket", unit="calls/s"),
    rate("drain", "one worker process"),
    rate("drain", "two worker processes"),
    rate("drain", "two, of one", raw="", unit="×"),
    rate("drain", "CONTINUE jobs going round, two workers"),
    rate("pool", "coroutines, drain"),
    cost("pool", "coroutines, wake-up, median", MS),
    cost("pool", "coroutines, wake-up, p99", MS),
    cost("pool", "memory for 1,000 coroutines that wait", "MB"),
    rate("pool", "threads, drain"),
    cost("pool", "threads, wake-up, median", MS),
    cost("pool", "threads, wake-up, p99", MS),
    cost("floor", "server for a drained job", US),
    cost("floor", "server for its changes alone, per job", US),
    cost("floor", "server for its changes alone, per tag", US),
    cost("floor", "of per job", "×"),
    cost("floor", "of per tag", "×"),
    cost("floor", "server for a set", US),
    rate("recurring", "cron, one worker"),
    rate("recurring", "RRULE, one worker"),
    rate("recurring", "cron, from the instant, dispatcher and one worker"),
    cost("burst", "last start after the instant", SECONDS),
    cost("burst", "first start after the instant", MS),
    rate("burst", "started since the instant"),
    cost("burst", f"dispatch of {DISPATCHED:,} due jobs", SECONDS),
    cost("burst", "longest script", MS),
    _own("enqueue", "one at a time, now", RATE, True),
    _own("enqueue", "many, now", RATE, True),
    rate("enqueue", "one at a time, cron", raw="enqueue: one at a time, now"),
    rate("enqueue", "many, cron", raw="enqueue: many, now"),
    _own("wakeup", "median", MS, False),
    _own("wakeup", "p99", MS, False),
    Figure("punctuality", "earliest, below 0 is too early", MS, False, compared=False),
    cost("punctuality", "median", MS),
    cost("punctuality", "p99", MS),
    cost("idle", "dispatcher and ten workers", "% of a core"),
    cost("idle", "dispatcher and ten workers, commands", "1/s"),
    cost("idle", "dispatcher and one worker", "% of a core"),
    cost("idle", "dispatcher and one worker, commands", "1/s"),
    _own("memory", "a scheduled cron job", "bytes", False),
]


def sized(title: str, sizes: list[int], unit: str, more: bool = False) -> list[Figure]:
    return [Figure("size", f"{title}, {size:,}", unit, more) for size in sizes]
