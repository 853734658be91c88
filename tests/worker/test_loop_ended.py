"""Jobs that end the event loop in which others run."""

import asyncio
import logging
import sys

from redbike import Jobs, Redbike
from redbike.config.settings import Settings
from tests.loops import beside
from tests.waiting import wait_until


def test_on_lost_decides_for_the_others(client, prefix, caplog):
    began, jobs = set(), Jobs(concurrency=9)

    async def wait(name):
        began.add(name)
        await asyncio.sleep(1000)

    @jobs.job("stays")
    async def stays() -> None:
        await wait("stays")

    @jobs.job("again")
    async def again() -> None:
        if "again" in began:
            return
        await wait("again")

    @jobs.job("poison")
    async def poison() -> None:
        asyncio.get_running_loop().call_soon(sys.exit, 4)
        await wait("poison")

    settings = Settings(prefix=prefix, max_losses=1)
    with (
        Redbike.from_settings(jobs, settings, client) as bike,
        beside(bike.store, bike.work),
        caplog.at_level(logging.ERROR),
    ):
        bike.set("stays", "NOW", on_lost="stop")
        bike.set("again", "NOW")
        wait_until(lambda: began == {"stays", "again"})
        bike.set("poison", "NOW")
        wait_until(lambda: len(list(bike.failures())) == 2 and len(bike.runs("again")) == 2)
        errors = {failure["jobid"]: failure["error"] for failure in bike.failures()}
        assert [past.outcome for past in bike.runs("again")] == ["ok", "lost"]
    how = "the event loop was ended by poison: SystemExit: 4"
    assert errors == {"stays": how, "poison": f"{how}, 1 times in a row"}
    assert f"{how}, while these jobs ran: again, poison, stays" in caplog.messages
