"""What steering costs: ``python benchmarks/steering.py [--quick]``.

Prints for each verb of an operator how long it takes, and for how long the server serves nobody else at the most. Then
what an idle dispatcher takes of the server beside jobs that are paused, and beside none. The server has no durability.
"""

import sys
import time
from collections.abc import Callable

from bench.figures import Plan
from bench.site import Contender, Failed, Site, ours, set_all, wait_for
from suite import described

from redbike import Redbike

WAITING = 1_000_000  # jobs in a queue that is paused as a whole
STEERED = 10_000  # jobs that are steered one by one
PAUSED = 1_000_000  # jobs beside which a dispatcher is idle
MEASURED = 20.0  # seconds
LATER = "EVERY:1d@4000000000"  # not due in this century


def main() -> None:
    quick = Plan("--quick" in sys.argv)
    redbike = described("redbike", sys.executable)
    assert redbike is not None
    steer_queue(redbike, quick.pick(WAITING, 50_000))
    steer_jobs(redbike, quick.pick(STEERED, 2_000))
    for count in (0, quick.pick(PAUSED, 50_000)):
        idle(redbike, count)


def timed(site: Site, title: str, action: Callable[[], object]) -> None:
    """Print how long an action takes, and its longest script."""
    site.server.log_scripts()
    began = time.monotonic()
    action()
    seconds = time.monotonic() - began
    print(f"{title}: {seconds * 1000:,.1f} ms; the server at most {site.server.longest_script():.2f} ms at a time")


def fill(bike: Redbike, count: int, schedule: str) -> None:
    """Set so many jobs."""
    set_all(bike, ((f"nightly:{number}:A", schedule) for number in range(count)))


def steer_queue(redbike: Contender, count: int) -> None:
    """Pause, resume and limit a queue in which many jobs wait."""
    with Site(redbike) as site:
        bike = ours(site)
        fill(bike, count, "NOW")
        many = f"{count:,} jobs in the queue"
        timed(site, f"pause --queue, {many}", lambda: bike.pause_queue("A"))
        timed(site, f"resume --queue, {many}", lambda: bike.resume_queue("A"))
        timed(site, f"limit, {many}", lambda: bike.limit("A", at_once=5, rate="100/m"))
        timed(site, f"pause --all, {many}", bike.pause_all)
        timed(site, f"resume --all, {many}", bike.resume_all)


def steer_jobs(redbike: Contender, count: int) -> None:
    """Pause, resume, run and cancel many jobs by one pattern."""
    with Site(redbike) as site:
        bike = ours(site)
        fill(bike, count, LATER)
        for verb in (bike.pause, bike.resume, bike.run, bike.cancel):
            timed(site, f"{verb.__name__} 'nightly:*', {count:,} jobs", lambda verb=verb: expect(verb, count))


def expect(verb: Callable[..., list[object]], count: int) -> None:
    if len(verb("nightly:*")) != count:
        raise Failed(f"{verb.__name__} did not find all jobs")


def idle(redbike: Contender, count: int) -> None:
    """Print what an idle dispatcher takes of the server beside so many paused jobs."""
    with Site(redbike) as site:
        bike, info = ours(site), site.server.client.info
        fill(bike, count, LATER)
        if count:
            bike.pause("nightly:*")
        site.start("dispatch")
        wait_for(lambda: info("clients")["blocked_clients"] > 0, "it does not start")
        time.sleep(2)
        commands, cpu = info("stats")["total_commands_processed"], site.server.cpu()
        time.sleep(MEASURED)
        share = (site.server.cpu() - cpu) / MEASURED * 100
        calls = (info("stats")["total_commands_processed"] - commands) / MEASURED
        print(f"idle dispatcher, {count:,} paused jobs: {calls:.1f} requests/s, {share:.3f} % of the server's core")


if __name__ == "__main__":
    main()
