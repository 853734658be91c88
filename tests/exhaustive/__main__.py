"""100,000 random rules and crontab lines, and every change of offset of every zone from 2020 to 2037, by brute force.

usage: python -m tests.exhaustive [--cases=<N>] [--from=<SEED>] [--processes=<N>]
"""

import argparse
import sys
from collections.abc import Callable
from multiprocessing import Pool
from multiprocessing.pool import Pool as PoolType
from zoneinfo import available_timezones

from . import compare


def zone_differs(zone: str) -> str:
    """The first thing that is wrong about a zone."""
    return next(filter(None, compare.zone_differs(zone)), "")


def run(pool: PoolType, title: str, differs: Callable[..., str], cases: list[object]) -> int:
    """Compare them all; how many differ."""
    wrong = [found for found in pool.imap_unordered(differs, cases, 20) if found]
    print(f"{title}: {len(cases)} compared, {len(wrong)} differ", *wrong[:20], sep="\n    ", flush=True)
    return len(wrong)


def main() -> int:
    """0 when everything agrees."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000, help="random cases, half of them rules")
    parser.add_argument("--from", type=int, default=0, dest="seed", help="the first seed")
    parser.add_argument("--processes", type=int, default=None)
    given = parser.parse_args()
    seeds = list(range(given.seed, given.seed + given.cases // 2))
    with Pool(given.processes) as pool:
        wrong = run(pool, "rules", compare.rule_differs, seeds)
        wrong += run(pool, "crontab lines", compare.line_differs, seeds)
        wrong += run(pool, "zones", zone_differs, sorted(available_timezones() - {"localtime"}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
