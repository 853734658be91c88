"""Numbers that programs give: one that Python does not even print is refused as any other bad one, and quoted."""

import pytest

from redbike import BadConfig, Limit, Redbike, RoundRobin
from redbike.loop.policies import decide_asked_again, read_pause

HUGE = 10**5000  # Python prints no integer of more than 4,300 digits, except in hexadecimal


@pytest.fixture
def bike(client, server_url):
    with Redbike(RoundRobin("A"), redis_config=server_url) as bike:
        bike.set("job:A", "EVERY:1h")
        yield bike


@pytest.mark.parametrize("number", [HUGE, -HUGE], ids=["huge", "-huge"])
@pytest.mark.parametrize(
    "call",
    [
        lambda bike, number: bike.set("job:A", "EVERY:2h", retries=number),
        lambda bike, number: bike.set("job:A", "EVERY:2h", timeout=number),
        lambda bike, number: bike.set("job:A", "EVERY:2h", on_error=number),
        lambda bike, number: bike.set("job:A", "EVERY:2h", after=number),
        lambda bike, number: bike.pause("job:A", until=number),
        lambda bike, number: bike.runs(limit=-abs(number)),
        lambda bike, number: bike.agenda(hours=number),
        lambda bike, number: bike.health(max_lag=number),
        lambda bike, number: bike.limit("A", at_once=number),
        lambda bike, number: Limit(at_once=number),
    ],
)
def test_a_huge_number_is_quoted_and_changes_nothing(bike, call, number):
    before = bike.tell("job:A")
    with pytest.raises(BadConfig, match=r"-?0x"):
        call(bike, number)
    assert bike.tell("job:A") == before


def test_a_pause_that_work_asks_for_is_quoted(bike):
    with pytest.raises(ValueError, match=r"work\(\) returned 0x.* 0 to 1e9 seconds"):
        read_pause(HUGE)
    with pytest.raises(ValueError, match=r"Again\(after=0x"):
        decide_asked_again(None, HUGE)
