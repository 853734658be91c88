"""What a scheduled job takes in the server's memory."""

import time
from collections.abc import Iterator

from bench.figures import Plan
from bench.ours import cron_line
from bench.site import Contender, Site, ours, set_all
from redbike.schedule.parser import parse


def memory(plan: Plan, contender: Contender) -> Iterator[tuple[str, float]]:
    """100,000 cron jobs. Raw is what the schedule, the status and the due time take as entries of two hashes and a
    sorted set, with the same values."""
    count = plan.pick(100_000, 20_000)
    with Site(contender) as site:
        if contender.name == "redbike":
            bike = ours(site)
            # What is there once, such as the scripts, is no part of a job.
            set_all(bike, [("first:A", cron_line(0))])
            before = site.server.memory()
            set_all(bike, ((f"{number}:A", cron_line(number)) for number in range(count)))
        else:
            before = site.server.memory()
            entries(site, count)
        yield "memory: a scheduled cron job", (site.server.memory() - before) / count


def entries(site: Site, count: int) -> None:
    """Those of so many jobs."""
    now = time.time()
    pipeline = site.server.client.pipeline(transaction=False)
    for start in range(0, count, 500):
        for number in range(start, min(count, start + 500)):
            jobid, line = f"{number}:A", cron_line(number)
            pipeline.hset("schedules", jobid, line)
            pipeline.hset("statuses", jobid, f"TML:{int(now)}")
            pipeline.zadd("timeline", {jobid: parse(line).next(now) or 0})
        pipeline.execute()
