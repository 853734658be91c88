"""How many jobs one process sets in a second."""

from collections.abc import Iterator

from bench.figures import Plan
from bench.site import Contender, Failed, Site

ONE, MANY = (4_000, 1_000), (50_000, 10_000)  # jobs in a whole run, and in a quick one
TITLES = {
    "enqueue": ("one at a time, now", ONE),
    "enqueue_many": ("many, now", MANY),
    "cron": ("one at a time, cron", ONE),
    "cron_many": ("many, cron", MANY),
}


def enqueue(plan: Plan, contender: Contender) -> Iterator[tuple[str, float]]:
    """No-op jobs one at a time and many at once, with no worker. Raw is a LPUSH each, alone and pipelined."""
    for verb, (title, counts) in TITLES.items():
        if verb in contender.abilities:
            count = plan.pick(*counts)
            with Site(contender) as site:
                seconds = float(site.call(verb, 0, count))
                check(site, verb, count)
            yield f"enqueue: {title}", count / seconds


def check(site: Site, verb: str, count: int) -> None:
    """Raises `Failed` unless the jobs are there; the peers' are found by the drain."""
    name, client = site.contender.name, site.server.client
    if name == "redbike":
        found = client.zcard("redbike-timeline") if verb.startswith("cron") else client.llen("redbike-work-A")
    else:
        found = client.llen("jobs") if name == "raw" else count
    if found != count:
        raise Failed(f"{name}: {found} of {count} jobs are there")
