"""What a loop says of an outage: at once, again once a minute, and when it is over."""

import pytest

from redbike.errors import Unreachable
from redbike.loop import loop
from redbike.loop.loop import Loop
from redbike.store.store import Store
from tests.states import queue_for


@pytest.mark.parametrize(("reminder", "times"), [(60.0, 1), (0.0, 5)])
def test_a_long_outage_is_said_again(client, prefix, monkeypatch, caplog, reminder, times):
    monkeypatch.setattr(loop, "REMINDER", reminder)
    monkeypatch.setattr(loop, "FIRST_PAUSE", 0.001)
    attempts = []

    def act(repeated):
        attempts.append(repeated)
        if len(attempts) <= 5:
            raise Unreachable("it is away")
        return "done"

    found = Loop(Store(client, prefix, queue_for))
    assert found.retry_until_up(act) == "done"
    # What is tried again knows that it is: a take whose reply was lost might take more under the same tag.
    assert attempts == [False] + [True] * 5
    assert found.retry_until_up(act) == "done"
    assert caplog.messages == ["it is away; waiting for it"] * times + ["Redis is back"]
