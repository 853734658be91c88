"""What Redis and redis-py can do at best."""

import socket
import time
from collections.abc import Callable, Iterator

from bench.figures import Plan
from bench.site import Contender, Site

SCRIPT = "#!lua\nreturn redis.call('GET', KEYS[1])"


def raw(plan: Plan, contender: Contender) -> Iterator[tuple[str, float]]:
    """Round trips a second, one after the other: SET and a script of one call by redis-py, the script by a socket."""
    number = plan.pick(40_000, 10_000)
    with Site(contender) as site:
        client = site.server.client
        digest = str(client.script_load(SCRIPT))
        yield "raw: SET, redis-py", trips(lambda: client.set("key", "value"), number)
        yield "raw: EVALSHA, redis-py", trips(lambda: client.evalsha(digest, 1, "key"), number)
        with socket.socket(socket.AF_UNIX) as bare:
            bare.connect(str(site.server.socket))
            words = (b"EVALSHA", digest.encode(), b"1", b"key")
            request = b"*4\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)

            def trip() -> None:
                bare.sendall(request)
                bare.recv(4096)

            yield "raw: EVALSHA, bare socket", trips(trip, number)


def trips(trip: Callable[[], object], number: int) -> float:
    """So many of them a second."""
    for _ in range(100):
        trip()
    began = time.perf_counter()
    for _ in range(number):
        trip()
    return number / (time.perf_counter() - began)
