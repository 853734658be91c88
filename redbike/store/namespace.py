"""What the classes of transitions share: the keys under one prefix, and the methods that run scripts and commands."""

import base64
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, TypeVar

import redis

from redbike.config.options import parse_options
from redbike.connection.client import is_in_cluster
from redbike.connection.cluster import MOVES, MOVING
from redbike.connection.line import hold_connection
from redbike.connection.refusals import ON_THE_MOVE, is_out_of_memory, translate_errors
from redbike.errors import RedbikeError, Unreachable
from redbike.store.keys import OWNER, Keys
from redbike.store.lua_loader import SCRIPTS
from redbike.store.records import decode, encode
from redbike.store.scripts import Call, Reply, Scripts, name_wrong_key
from redbike.text.printable import name_host

PAGE = 500  # entries of a hash or a list in one request
RANKS_PAGE = 250  # entries of a sorted set in one request
DATA_PAGE = 50  # jobs whose data are read in one request: data may be long
STEP = 100  # jobs that one script sets or moves: the server blocks all other clients meanwhile

T = TypeVar("T")
Entry = tuple[float, bytes]  # the score, and the member

# Bytes that are not UTF-8 pass through unchanged.
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Namespace:
    """The keys under one prefix of one server.

    `clock` returns the time (epoch seconds) of all that happens here; None means the server's own clock. `who` is the
    person whose changes are noted in the log; None for a program. `forget_after` (seconds, or ``never``) and `expires`
    (seconds, or 0 for no limit) are the settings. `queue_for` returns the queue of a job id. `host` is the name of this
    host; "" for the name that the system has.
    """

    client: Any  # a redis.Redis; its own types allow decoded replies, which Redbike never requests
    keys: Keys
    scripts: Scripts
    clock: Callable[[], float] | None = None
    who: str | None = None
    forget_after: float | str = "never"
    expires: float = 0.0
    queue_for: Callable[[str], str] = lambda jobid: ""
    host: str = ""

    @property
    def now(self) -> float | None:
        """The time of all that happens here, in epoch seconds; None means the server's own clock."""
        # In microseconds, as times are stored: a finer one would make a job due for one script and not for another.
        return None if self.clock is None else round(self.clock(), 6)

    def find_expires(self, options: str) -> float:
        """Return the seconds after which an occurrence of a job with these stored options expires; 0 for never."""
        return float(parse_options(options).get("expires", self.expires)) if options else self.expires

    def find_queue(self, jobid: str) -> str:
        """Return the queue of the next run of a job; "" if it has none."""
        try:
            return self.queue_for(jobid)
        except Unreachable:
            raise
        except RedbikeError:
            # The job cannot run, but people can still see, pause and unset it.
            return ""

    def pack(self, verb: str, queues: Iterable[str] = (), **given: Any) -> Call:
        """Return the call of a script with its arguments, by name, and the keys of `queues`."""
        if self.clock is not None:
            given.setdefault("now", self.now)
        names = tuple(queues)
        if names:
            given["queues"] = names
        keys = self.keys.list_given(SCRIPTS[verb].keys, names)
        if self.who is not None and SCRIPTS[verb].notes_changes:
            given["who"] = self.who
            keys = (*keys, self.keys.log)
        return Call(verb, keys, _encode(given))

    def run(self, verb: str, queues: Iterable[str] = (), **given: Any) -> Reply:
        """Run one script, and return its reply."""
        return self.scripts.run(self.pack(verb, queues, **given))

    @contextmanager
    def translate(self, *kinds: tuple[str, str]) -> Iterator[None]:
        """Translate errors of redis-py. The error for a wrong type names the key; `kinds` has keys and their types."""
        with translate_errors():
            try:
                yield
            except redis.ResponseError as error:
                raise name_wrong_key(self.client, kinds, error) from error

    def ask(self, command: str, key: str, *given: Any, **options: Any) -> Any:
        """Return the reply to a command of redis-py for a key. The error for a wrong type names the key."""
        with self.translate((key, self.keys.get_kind(key))):
            return getattr(self.client, command)(key, *given, **options)

    def ask_all(self, *asked: Sequence[Any], at_once: bool = True) -> list[Any]:
        """Return the replies to several commands in one round trip; each is a name, a key and further arguments.

        With `at_once`, all are of one instant. The error for a wrong type names the key.
        """
        kinds = [(key, self.keys.get_kind(key)) for _, *given in asked for key in given[:1]]

        def fill(pipeline: Any) -> None:
            for command, *given in asked:
                getattr(pipeline, command)(*given)

        with self.translate(*kinds):
            return self.execute(fill, at_once)

    def execute(self, fill: Callable[[Any], None], at_once: bool) -> list[Any]:
        """Return the replies to the commands that `fill` puts into a pipeline. Raises the errors of redis-py.

        With `at_once`, they are of one instant, unless the server's memory is too full to queue the commands.
        """
        try:
            with self.client.pipeline(transaction=at_once) as pipeline:
                fill(pipeline)
                return list(pipeline.execute())
        except redis.RedisError as error:
            if not (at_once and is_out_of_memory(error)):
                raise
        return self.execute(fill, at_once=False)

    def read_clock(self) -> float:
        """Return Redis' clock in epoch seconds; if this has a clock of its own, the time of that."""
        if (now := self.now) is not None:
            return now
        with translate_errors():
            return read_time(self.client.time())

    def scan_page(self, key: str, cursor: int, pattern: str | None, count: int) -> tuple[int, dict[bytes, bytes]]:
        """Return the next cursor of HSCAN, 0 at the end, and those fields of a page that `pattern` matches."""
        match = None if pattern is None else encode(pattern)
        following, found = self.ask("hscan", key, cursor, match=match, count=count)
        return int(following), found

    def scan(self, key: str, pattern: str | None = None, page: int = PAGE) -> Iterator[tuple[str, str]]:
        """Yield the fields of a hash with their values, or those that `pattern` matches; `page` in each request."""
        for name, value in self.scan_bytes(key, pattern, page):
            yield decode(name), decode(value)

    def scan_bytes(self, key: str, pattern: str | None = None, page: int = PAGE) -> Iterator[tuple[bytes, bytes]]:
        """Do what `scan` does, but return bytes: to decode values that are no texts is slow."""
        seen = set[bytes]()
        may_move = is_in_cluster(self.client)
        with self.translate((key, self.keys.get_kind(key))):
            for _ in range(MOVES):
                # A cursor is valid on one server only: begin again on the new one, without the fields already yielded.
                with suppress(*MOVING), hold_connection(self.client, key) as held:
                    for name, value in held.hscan_iter(key, match=pattern, count=page):
                        if name not in seen:
                            yield name, value
                        if may_move:
                            seen.add(name)
                    return
        raise Unreachable(ON_THE_MOVE)


def read_time(clock: tuple[int, int]) -> float:
    """Return the reply to TIME as epoch seconds."""
    return clock[0] + clock[1] / 1e6


class Part:
    """A group of methods of a store."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace


def split(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of this size; the last one may be shorter."""
    rest = iter(items)
    while page := list(islice(rest, size)):
        yield page


def make_tag(owner: str = "") -> str:
    """Return a unique name for one request or run. It begins with the name of its `owner`, if that is given.

    The rest is random, so the child of a forked process makes other tags than its parent.
    """
    return owner + _make_name(OWNER if owner else 2 * OWNER)


def make_owner() -> str:
    """Return a unique name for one dispatcher or worker, of `redbike.store.keys.OWNER` characters."""
    return _make_name(OWNER)


def _make_name(characters: int) -> str:
    return base64.urlsafe_b64encode(os.urandom(characters * 6 // 8)).decode()


def name_process(tag: str, host: str) -> str:
    """Return the id of this process, which takes jobs under `tag`, as `redbike.store.processes.Process` has it.

    `host` is the name of this host; "" for the name that the system has.
    """
    return f"{host or _find_host()}:{os.getpid()}:{tag[:OWNER]}"


_find_host = lru_cache(1)(name_host)


def number_queues(names: Iterable[str]) -> dict[str, int]:
    """Return the names of queues, each once, with the numbers from 1 by which scripts know them."""
    return {name: number for number, name in enumerate(dict.fromkeys(names), 1)}


def read_json(value: bytes) -> Any:
    """Return what a script has packed as JSON: the client reads one JSON text ten times as fast as many replies."""
    return json.loads(decode(value))


class Ranks:
    """A sorted set, in the order of the server: by score, and then by the bytes of the member.

    A walk can go on from the entry at which another one has stopped, even if many entries have the same score.
    """

    def __init__(self, namespace: Namespace, key: str) -> None:
        self._namespace = namespace
        self._key = key

    def count(self) -> int:
        """Return how many entries it has."""
        return int(self._namespace.ask("zcard", self._key))

    def list_after(self, last: Entry | None, page: int = RANKS_PAGE) -> Iterator[tuple[int, list[Entry]]]:
        """Yield pages of the entries behind `last` (None: of all), in order, each with the number of entries before it.

        Entries may come and go meanwhile, even `last`. No entry that stays is left out.
        """
        while True:
            rank = 0 if last is None else self._find_rank(last, 1)
            found = self._read(rank, rank + page - 1)
            if not found:
                return
            yield rank, found
            last = found[-1]

    def list_before(self, last: Entry | None, page: int = RANKS_PAGE) -> Iterator[tuple[int, list[Entry]]]:
        """Yield pages of the entries before `last`, in reverse, each with the number of entries behind it."""
        while True:
            number = self.count()
            end = number if last is None else self._find_rank(last, 0)
            found = self._read(max(0, end - page), end - 1) if end else []
            if not found:
                return
            yield number - end, found[::-1]
            last = found[0]

    def _read(self, first: int, last: int) -> list[Entry]:
        found = self._namespace.ask("zrange", self._key, first, last, withscores=True)
        return [(float(score), member) for member, score in found]

    def _find_rank(self, entry: Entry, behind: int) -> int:
        """Return how many entries are before this one, which may be gone. With 1 as `behind`, count it, too."""
        score, member = entry
        ranks, counts = (("zrank", member), ("zscore", member)), (f"({score!r}", score)
        asked = *ranks, *(("zcount", "-inf", most) for most in counts)
        rank, now, low, high = self._namespace.ask_all(*((name, self._key, *given) for name, *given in asked))
        if rank is not None and now == score:
            return int(rank) + behind
        # It is gone: find the first entry with its score that is behind it, by binary search.
        while low < high:
            middle = (low + high) // 2
            found = self._read(middle, middle)
            if found and found[0] <= entry:
                low = middle + 1
            else:
                high = middle
        return int(low)
