"""What a cluster costs: ``python benchmarks/servers.py [ROUNDS]``.

The drain by one worker process and the wake-up of an idle worker, with a plain server and with a cluster of one master,
both at a TCP port of this host. The two take turns in every round, each on a new server. Prints the medians, and the
cluster's as a ratio to the plain server's.
"""

import sys
from statistics import median

from bench.drain import drained
from bench.figures import Plan
from bench.site import Contender
from bench.wakeup import lateness
from bench.wall import quantile
from suite import described

ROUNDS = 9
KINDS = ("tcp", "cluster")
WAKEUPS = 200


def main() -> None:
    rounds = int(sys.argv[1]) if sys.argv[1:] else ROUNDS
    redbike = described("redbike", sys.executable)
    assert redbike is not None
    found: dict[tuple[str, str], list[float]] = {}
    for number in range(rounds):
        # Whoever comes first may find the machine in another state than the second one.
        for kind in KINDS if number % 2 else KINDS[::-1]:
            for figure, value in measured(redbike, kind).items():
                found.setdefault((figure, kind), []).append(value)
    for figure in dict.fromkeys(figure for figure, _ in found):
        plain, cluster = (median(found[figure, kind]) for kind in KINDS)
        print(f"{figure:<16} plain {plain:10,.2f}   cluster {cluster:10,.2f}   ratio {cluster / plain:.3f}")


def measured(redbike: Contender, kind: str) -> dict[str, float]:
    """The figures of one round."""
    late = lateness(WAKEUPS, redbike, kind)
    return {
        "drain, jobs/s": drained(Plan(), redbike, 1, kind),
        "wake-up, ms": quantile(late, 0.5),
        "wake-up p99, ms": quantile(late, 0.99),
    }


if __name__ == "__main__":
    main()
