"""What people do to a job over HTTP is what a program does, in every state of the job."""

import pytest

from redbike import NoSuchJob, Redbike
from redbike.config.settings import Settings
from redbike.store.store import Store
from redbike.web import app
from tests.states import JOB, NEW, NOW, OLD, STATES, dump, queue_for
from tests.verbs import Quiet
from tests.web.api import Api

LATER = {"until": NOW + 10.0, "reason": "why not"}
# What a program calls, and what it gives besides; how that is asked for.
VERBS = [
    *((verb, {}, "POST", f"/{verb}", None) for verb in ("run", "cancel", "pause", "resume")),
    ("pause", LATER, "POST", "/pause", LATER),
    ("unset", {}, "DELETE", "", None),
    *(
        ("set", given, "PUT", "", given)
        for given in (
            *({"schedule": text} for text in (OLD, "AT:1000", f"AT:{NOW + 40:.0f}", "NOW", "CONTINUE", "STOP")),
            {"schedule": NEW, "data": {"a": 1}},
        )
    ),
]


def make(client, name, state):
    """Jobs in that state, at an instant that stands still."""
    store, worker = Store(client, name, queue_for), Quiet("A:B")
    STATES[state](store)
    bike = Redbike.from_settings(worker, Settings(prefix=name), client, durable=False)
    store = store.at(NOW)
    bike._compose(store, store.noted_as("api@testclient"), worker)
    return bike


def list_stored(bike):
    """All that is stored, but how long runs took in truth."""
    found = {key.removeprefix(bike.prefix): value for key, value in dump(bike.store).items()}
    return {key: value for key, value in found.items() if key != "-journal"}


@pytest.mark.parametrize("state", STATES)
def test_it_does_and_answers_the_same(client, state):
    for number, (verb, given, method, path, body) in enumerate(VERBS):
        bike, other = (make(client, f"{name}{number}", state) for name in ("program", "http"))
        try:
            done = getattr(bike, verb)(JOB, **given)
        except NoSuchJob:
            done = False
        status, found = Api(app(other, write=True, api=True)).ask(method, f"/jobs/{JOB}{path}", body)
        assert (status == 404) == (done is False), (verb, given, found)
        assert not isinstance(done, list) or dict(done)[JOB] == found["word"], (verb, given)
        assert list_stored(other) == list_stored(bike), (verb, given)
