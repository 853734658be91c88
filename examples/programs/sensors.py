"""5,000 sensors are read once a minute each, 40 at once at most. Set them with ``python sensors.py``.

Then run ``redbike up sensors:jobs --processes=2``.
"""

import asyncio
from collections.abc import Iterator

from redbike import Jobs, Limit, Redbike

SENSORS = 5_000

# Both limits hold for all processes together.
jobs = Jobs(concurrency=20, limits={"read": Limit(at_once=40, rate="6000/m")})
readings: dict[str, float] = {}


@jobs.job("read", timeout="5s", retries=1, backoff="2s")
async def read(jobid: str) -> None:
    """Read a sensor; here, make the reading up."""
    await asyncio.sleep(0)
    name = jobid.partition(":")[2]
    readings[name] = float(len(name))


def list_jobs(number: int = SENSORS) -> Iterator[tuple[str, str]]:
    """Yield the job of each sensor. ``H`` gives each one a second of its own, so that they are not read at once."""
    for sensor in range(number):
        yield f"read:sensor-{sensor:04}", "* * * * * H"


def set_sensors(bike: Redbike, number: int = SENSORS) -> None:
    """Set all sensors, many in each round trip."""
    for jobid, result in bike.set_many(list_jobs(number)):
        if isinstance(result, ValueError):
            raise ValueError(f"{jobid}: {result}")


if __name__ == "__main__":
    set_sensors(Redbike.from_config(worker=jobs))
