"""Whether tests with random data have other data each time, and how state machines run."""

import os
import random

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

# Otherwise a change would be refused for what it has not done. With REDBIKE_RANDOM=1 they look for more.
ALWAYS_THE_SAME = "REDBIKE_RANDOM" not in os.environ
PHASES = tuple(Phase)


def choose() -> None:
    """Let the tests of properties, too, try the same examples each time; this comes before they are imported."""
    settings.register_profile("redbike", deadline=None, derandomize=ALWAYS_THE_SAME, phases=PHASES)
    settings.load_profile("redbike")


def try_machine(machine, examples):
    """Let a state machine of hypothesis take so many random walks."""
    chosen = settings(
        max_examples=examples,
        stateful_step_count=40,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=chosen)


def seeds(first, accepted, nightly):
    """Give a test `seeds`: so many at once, up to `accepted` in the second tier, and up to `nightly` in the third."""
    tiers = [
        *([range(first)] if first else []),
        pytest.param(range(first or 1, accepted), marks=pytest.mark.acceptance),
        pytest.param(range(accepted, nightly), marks=pytest.mark.nightly),
    ]
    return pytest.mark.parametrize("seeds", tiers)


def walk(make, seeds, steps):
    """Yield a world that `make` has made of its source of chance for each of `seeds`, after so many steps."""
    for seed in seeds:
        world, done = make(random.Random(seed)), []
        try:
            for _ in range(steps):
                known = world.list_steps()
                done += world.chance.choices([*known], [weight for weight, _ in known.values()])
                known[done[-1]][1]()
                world.check()
        except Exception as error:
            error.add_note(f"seed {seed}, {done}")
            raise
        yield world
