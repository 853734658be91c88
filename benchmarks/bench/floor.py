"""How much of the server a run takes, beside scripts that make its changes and do nothing else."""

from collections.abc import Iterator

from bench.figures import Plan
from bench.server import Server
from bench.site import Contender, Failed, Site, ours, set_all

TURNS = 3  # in each round
BATCH = 64  # jobs taken together; a worker of Redbike takes up to 128 of them if they are short
FILL = 1_000  # jobs put into the queue in one round trip
SETS = 5_000  # one at a time

# Two scripts: queue → in flight → stopped, for jobs of schedule NOW. They have the keys and records of Redbike. They
# leave out nearly all checks, and all that is done for policies, weights, wake-ups and withdrawn entries. The schedule
# stays NOW, where Redbike stores STOP: that takes 0.2 µs.
TAKE = """
local most, tag = tonumber(ARGV[1]), ARGV[2]
local jobs = redis.call('LRANGE', 'queue', -most, -1)
if #jobs == 0 then return jobs end
redis.call('RPOP', 'queue', #jobs)
local due, schedules = redis.call('HMGET', 'queued', unpack(jobs)), redis.call('HMGET', 'schedules', unpack(jobs))
redis.call('HDEL', 'queued', unpack(jobs))
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local head, status = string.format('%s %.6f %.6f ', tag, now, now + 10), 'WRK:' .. time[1]
local lease, records, statuses = string.format('%.6f', now + 12), {}, {}
for i, job in ipairs(jobs) do
  records[2 * i - 1], records[2 * i] = job, head .. due[i] .. ' 0 0 -'
  statuses[2 * i - 1], statuses[2 * i] = job, status
end
redis.call('HSET', 'running', unpack(records))
redis.call('HSET', 'statuses', unpack(statuses))
"""
END = """
local tag, jobs = ARGV[1], {unpack(ARGV, 2)}
local records, schedules = redis.call('HMGET', 'running', unpack(jobs)), redis.call('HMGET', 'schedules', unpack(jobs))
local status, statuses = 'STP:' .. redis.call('TIME')[1], {}
for i, job in ipairs(jobs) do
  if string.sub(records[i], 1, #tag) ~= tag then return 0 end
  statuses[2 * i - 1], statuses[2 * i] = job, status
end
redis.call('HSET', 'statuses', unpack(statuses))
redis.call('HDEL', 'running', unpack(jobs))
"""
# How the runs in flight are kept: each with a key that expires and a lease, or one of both for those of a tag.
WAYS = {
    "per job": (
        TAKE
        + """
local leases = {}
for i, job in ipairs(jobs) do
  leases[2 * i - 1], leases[2 * i] = lease, job
  redis.call('SET', 'inflight-' .. job, tag, 'PX', '10000')
end
redis.call('ZADD', 'leases', unpack(leases))
return jobs
""",
        END
        + """
local keys = {}
for i, job in ipairs(jobs) do keys[i] = 'inflight-' .. job end
redis.call('MGET', unpack(keys))
redis.call('ZREM', 'leases', unpack(jobs))
redis.call('DEL', unpack(keys))
return #jobs
""",
    ),
    "per tag": (
        TAKE
        + """
redis.call('SET', 'inflight-' .. tag, table.concat(jobs, ' '), 'PX', '10000')
redis.call('ZADD', 'leases', lease, tag)
return jobs
""",
        END
        + """
redis.call('ZREM', 'leases', tag)
redis.call('DEL', 'inflight-' .. tag)
return #jobs
""",
    ),
}


def floor(plan: Plan, contender: Contender) -> Iterator[tuple[str, float] | tuple[str, float, str]]:
    """Microseconds of the server's main thread (INFO cpu) for each of 60,000 drained jobs: of Redbike, with one worker
    process, and of the scripts, by one client that ends a batch and takes the next one in one round trip.

    Then those for one call of `set`. The three take turns, and each turn counts.
    """
    count = plan.pick(60_000, 20_000)
    for _ in range(TURNS):
        per_job, drained, per_tag = changed("per job", count), worked(contender, count), changed("per tag", count)
        yield "floor: server for a drained job", drained
        yield "floor: server for its changes alone, per job", per_job, "raw"
        yield "floor: server for its changes alone, per tag", per_tag, "raw"
        yield "floor: of per job", drained / per_job
        yield "floor: of per tag", drained / per_tag
        yield "floor: server for a set", set_one_by_one(contender)


def worked(contender: Contender, count: int) -> float:
    """Microseconds for a job of Redbike, the worker's start and end included."""
    with Site(contender) as site:
        set_all(ours(site), ((f"{number}:A", "NOW") for number in range(count)))
        before = site.server.cpu()
        site.start("work")
        site.finish(range(count))
        used = site.server.cpu() - before
        check_idle(site.server, "redbike-running")
    return used / count * 1e6


def changed(way: str, count: int) -> float:
    """Microseconds for a job of the scripts."""
    with Server() as server:
        take, end = (str(server.client.script_load(text)) for text in WAYS[way])
        fill(server, count)
        before, done, jobs, tag = server.cpu(), 0, [], ""
        while True:
            pipeline = server.client.pipeline(transaction=False)
            if jobs:
                pipeline.evalsha(end, 0, tag, *jobs)
            tag = f"tag{done:013}"
            pipeline.evalsha(take, 0, BATCH, tag)
            jobs = pipeline.execute()[-1]
            if not jobs:
                break
            done += len(jobs)
        used = server.cpu() - before
        if done != count:
            raise Failed(f"{done} of {count} jobs were taken")
        check_idle(server, "running")
    return used / count * 1e6


def fill(server: Server, count: int) -> None:
    """Jobs in the queue, with what Redbike has of each."""
    for first in range(0, count, FILL):
        jobs = [f"{number}:A" for number in range(first, min(count, first + FILL))]
        pipeline = server.client.pipeline(transaction=False)
        pipeline.hset("schedules", mapping=dict.fromkeys(jobs, "NOW"))
        pipeline.hset("statuses", mapping=dict.fromkeys(jobs, "ENQ:1795233150"))
        pipeline.hset("queued", mapping=dict.fromkeys(jobs, "1795233150.123456 work-A"))
        pipeline.lpush("queue", *jobs)
        pipeline.execute()


def check_idle(server: Server, running: str) -> None:
    """Raises `Failed` if a run is still in flight."""
    if left := int(server.client.hlen(running)):
        raise Failed(f"{left} jobs are still in flight")


def set_one_by_one(contender: Contender) -> float:
    """Microseconds for a `set`."""
    with Site(contender) as site:
        bike = ours(site)
        bike.set("first:A", "NOW")
        before = site.server.cpu()
        for number in range(SETS):
            bike.set(f"{number}:A", "NOW")
        return (site.server.cpu() - before) / SETS * 1e6
