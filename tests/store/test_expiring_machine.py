"""The state machine with those steps alone that matter to jobs which expire: among all others they are rare."""

import random

import pytest

from redbike.store.jobs import SetMode
from tests.store.test_statemachine import JOBIDS, PERIODIC, TIMEOUTS, Jobs

STEPS = 60
WAYS = ["next", "next", "due", "stop", "die"]


def step(machine, chance):
    jobid, which = chance.choice(JOBIDS[:3]), chance.randrange(10)
    options = chance.choice([None, '{"expires":5}', '{"expires":5}', ""])
    steps = {
        "set_expiring": (3, {"jobid": jobid, "text": chance.choice(PERIODIC)}),
        "set_periodic": (
            2,
            {"jobid": jobid, "text": chance.choice(PERIODIC), "delay": chance.choice([-3.0, 0.0, 10.0])}
            | {"mode": chance.choice([*SetMode]), "elsewhere": chance.random() < 0.2, "new_jitter": False}
            | {"options": options, "data": None, "group": None},
        ),
        "set_once": (2, {"jobid": jobid, "delay": chance.choice([-3.0, 0.0, 1.0]), "options": options}),
        "set_now": (1, {"jobid": jobid, "text": chance.choice(["NOW", "CONTINUE"])}),
        "unset": (1, {"jobid": jobid}),
        "run_explicitly": (2, {"jobid": jobid}),
        "cancel": (1, {"jobid": jobid}),
        "pause": (2, {"jobid": jobid, "delay": chance.choice([None, 1.0, 10.0])}),
        "resume": (3, {"jobid": jobid}),
        "ring": (1, {}),
        "pause_queue": (1, {"name": chance.choice(["", *TIMEOUTS]), "delay": chance.choice([None, 1.0])}),
        "open": (2, {"name": chance.choice(["", *TIMEOUTS]), "resume": True}),
        "time_passes": (4, {"seconds": chance.choice([0.5, 1.0, 4.0, 5.0, 20.0])}),
        "dispatch": (4, {"seen": chance.choice([1, 2]), "homeless": chance.choice([None, None, "b:A"])}),
        "take": (2, {"turns": [*TIMEOUTS], "most": which % 3 + 1, "repeated": None, "strict": False}),
        "recover": (1, {}),
    }
    if any(machine._list_timers()):
        steps["expire"] = (4, {"which": which, "late": chance.choice([0.0, 0.0, 7.0, 60.0]), "times": 2})
    if machine.runs:
        how = {"place": chance.choice(WAYS), "delay": chance.choice([None, 0.0, 5.0]), "why": "", "skipped": (0, 0)}
        steps["end"] = (2, {"which": 0, "how": how | {"outcome": "ok", "output": None}, "lives": True})
        steps["release"] = (2, {"which": 0, "first": 0})
    name = chance.choices([*steps], [weight for weight, _ in steps.values()])[0]
    return name, steps[name][1]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "seeds",
    [
        range(10),
        pytest.param(range(10, 24), marks=pytest.mark.acceptance),
        pytest.param(range(24, 400), marks=pytest.mark.nightly),
    ],
)
def test_random_steps_of_jobs_that_expire_agree_with_the_model(client, monkeypatch, seeds):
    monkeypatch.setattr(Jobs, "client", client)
    expired = 0
    for seed in seeds:
        chance, machine, done = random.Random(seed), Jobs(), []
        machine.begin()
        try:
            for _ in range(STEPS):
                done.append(step(machine, chance))
                getattr(machine, done[-1][0])(**done[-1][1])
                for check in machine.invariants:
                    check.function(machine)
        except Exception as error:
            error.add_note(f"seed {seed}, {done}")
            raise
        expired += sum(job.skipped.get("expired", 0) for job in machine.model.jobs.values())
        machine.teardown()
    assert expired > len(seeds)
