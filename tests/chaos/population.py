"""The jobs of a chaos run: ids and schedules, random but by a seed.

A job id is ``KIND.POPULATION.NUMBER:QUEUE``. The populations:

- ``still``: set before the first fault, touched by no client; judged exactly
- ``moved``: each belongs to one client, which sets, stops, unsets and runs it; judged from its last change on
- ``once``: set by a client as it goes, to run one time
- ``shared``: all clients change them, at the same time too; judged only for what must never be
- ``follow``: followers of those, chains of five and one job after each three chains; nobody touches them
- ``follow-…``: groups and backfills, which a client asks for as it goes; see ``sets.py``
- ``dark``: left alone too, but each has a blackout every 20 seconds
- ``steered``: each belongs to one client, which pauses, resumes, cancels and runs it, and changes its options, but
  never its schedule; judged exactly but for what is counted, and for what a pause, a cancellation and a limit forbid
"""

from datetime import UTC, datetime
from random import Random

QUEUES = "AAAABBBC"  # slow jobs go to B alone
ORDER = "A:A:A:B:B:C:L"  # what a worker is told
CLIENTS = 2
MOVED, SHARED, STEERED = 300, 10, 150  # jobs: of each client, of all together, of each client
CHAINS, LINKS = 30, 5  # of followers
PATIENT = 6  # of the steered jobs of each client, those that take seconds
LIMITED = "L"  # the queue with a limit, which has steered jobs alone
KINDS = (
    ("fast", 82),
    ("async", 4),
    ("fail", 4),
    ("save", 2),
    ("slow", 3),
    ("die", 2),
    ("again", 1),
    ("fork", 1),
    ("exit", 1),
)
SHAPES = (("step", 20), ("list", 15), ("rule", 20), ("minutely", 8), ("count", 4), ("every", 25), ("at", 8))


def still(rng: Random, count: int, now: float, seconds: float) -> list[tuple[str, str]]:
    """`count` jobs that are left alone, for a run of `seconds` from `now` (epoch seconds) on."""
    jobs = []
    for number in range(count):
        kind = _pick(rng, KINDS)
        jobid = f"{kind}.still.{number}:{queue(rng, kind)}"
        jobs.append((jobid, schedule(rng, kind, now, seconds)))
    return jobs


def followers(jobs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Followers of some of `jobs` that go on for ever, in chains."""
    heads = [jobid for jobid, text in jobs if jobid[:5] == "fast." and text[:5] in ("EVERY", "* * *")]
    found, tails = [], []
    for number, head in enumerate(heads[:CHAINS]):
        parent = head
        for link in range(LINKS):
            jobid = f"fast.follow.{number}-{link}:{QUEUES[link]}"
            found.append((jobid, f"AFTER:{parent}"))
            parent = jobid
        tails.append(parent)
        if len(tails) == 3:
            found.append((f"fast.follow.{number}-all:A", f"AFTER:{','.join(tails)}"))
            tails = []
    return found


def moved(rng: Random, client: int) -> list[str]:
    """The ids that belong to the client of that number."""
    return [f"fast.moved.{client}-{number}:{queue(rng, 'fast')}" for number in range(MOVED)]


def steered(client: int) -> list[str]:
    """The ids that the client of that number steers; some take a while, and half of them are limited."""
    kinds = ["slow" if n % 12 == 7 else "fail" if n % 10 == 1 else "fast" for n in range(STEERED)]
    kinds[:PATIENT] = ["patient"] * PATIENT
    return [f"{kind}.steered.{client}-{n}:{LIMITED if n % 2 else 'A'}" for n, kind in enumerate(kinds)]


def shared() -> list[str]:
    """The ids that all clients change."""
    return [f"fast.shared.{number}:A" for number in range(SHARED)]


def queue(rng: Random, kind: str) -> str:
    """The queue for a job of a kind."""
    return "B" if kind == "slow" else rng.choice(QUEUES)


def steered_jobs(rng: Random, now: float) -> list[tuple[str, str]]:
    """The jobs that clients steer; each goes on for ever."""
    shapes = [f"* * * * * */{seconds}" for seconds in (15, 20, 30)]
    shapes += [f"EVERY:{seconds}s@{now - rng.uniform(0, 100):.3f}" for seconds in (8, 13, 20, 30)]
    jobids = [jobid for client in range(CLIENTS) for jobid in steered(client)]
    return [(jobid, "EVERY:25s" if jobid.startswith("patient") else rng.choice(shapes)) for jobid in jobids]


def schedule(rng: Random, kind: str, now: float, seconds: float) -> str:
    """A random schedule; jobs that are slow or do harm come seldom."""
    if kind == "again":
        return "CONTINUE"
    seldom = 1 if kind in ("fast", "async") else 4
    shape = _pick(rng, SHAPES)
    if shape == "step":
        return f"* * * * * */{rng.choice((10, 12, 15, 20, 25, 30)) if seldom == 1 else 30}"
    if shape == "list":
        return "* * * * * " + ",".join(str(second) for second in sorted(rng.sample(range(60), rng.randint(1, 3))))
    if shape == "every":
        return f"EVERY:{rng.randint(1, 10) * seldom}s@{now - rng.uniform(0, 100):.3f}"
    if shape == "at":
        return f"AT:{now + rng.uniform(0, seconds):.3f}"
    return _rule(rng, shape, now, seldom)


def _rule(rng: Random, shape: str, now: float, seldom: int) -> str:
    if shape == "minutely":
        return f"DTSTART:20250101T000000Z\\nRRULE:FREQ=MINUTELY;BYSECOND={rng.randrange(30)},{rng.randrange(30, 60)}"
    interval = rng.randint(5, 45) * seldom
    if shape == "count":
        return f"DTSTART:{_stamp(now)}\\nRRULE:FREQ=SECONDLY;INTERVAL={interval};COUNT={rng.randint(2, 20)}"
    return f"DTSTART:2025010{rng.randint(1, 9)}T000000Z\\nRRULE:FREQ=SECONDLY;INTERVAL={interval}"


def _stamp(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")


def _pick(rng: Random, weighted: tuple[tuple[str, int], ...]) -> str:
    return rng.choices([name for name, _ in weighted], [weight for _, weight in weighted])[0]
