"""All that a server keeps of the jobs, at one instant."""

import time
from typing import Any

import redis

HASHES = ("schedules", "statuses", "queued", "running", "skipped", "failures", "retry_states", "pauses")


def look(client: "redis.Redis", prefix: str = "redbike") -> dict[str, Any]:
    """What is there at an instant between ``began`` and ``ended``."""
    began = time.monotonic()
    with client.pipeline(transaction=True) as pipeline:
        for name in HASHES:
            pipeline.hgetall(f"{prefix}-{name}")
        pipeline.zrange(f"{prefix}-timeline", 0, -1, withscores=True)
        *found, timeline = pipeline.execute()
    held = dict(zip(HASHES, found, strict=True)) | {"timeline": dict(timeline)}
    return {"began": began, "ended": time.monotonic(), **held}
