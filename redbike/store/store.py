"""The state of all jobs, in Redis.

A job is on the timeline, in a queue, in flight, held by a pause, or stopped. Each transition is one Lua script, which
moves jobs in one step, so a job is never nowhere. Python computes *when* a job runs next. The script commits this time
only if nothing has changed meanwhile. All times are of Redis' own clock, so the clocks of hosts may differ.

A method packs the request of a transition, and reads the reply. A transition that can share a round trip with others
has two methods: `pack_…` and `read_…`. The methods are grouped by their callers; ``docs/architecture.rst`` lists the
groups. `redbike.store.keys` describes the keys, and ``docs/scripts.rst`` explains how to write a script.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial

import redis

from redbike.config.options import find_backfill
from redbike.connection.client import aim_at, connect
from redbike.connection.line import hold_connection
from redbike.errors import BadQueueName, RedbikeError
from redbike.store.agreement import Agreement
from redbike.store.alerts import Alerts
from redbike.store.backfill import looks_like_one
from redbike.store.backfills import Backfills
from redbike.store.blackouts import Blackouts
from redbike.store.catalog import Catalog
from redbike.store.coming import Coming
from redbike.store.every_host import HostNotes
from redbike.store.groups import Groups
from redbike.store.jobs import Jobs
from redbike.store.journal import Archiver, Journal
from redbike.store.keys import Keys
from redbike.store.links import Links
from redbike.store.live import LiveOutput
from redbike.store.log import Events, Log
from redbike.store.misplaced import Misplaced
from redbike.store.names import check_queue_name
from redbike.store.namespace import PAGE, Namespace
from redbike.store.outbox import Outbox
from redbike.store.outputs import Outputs
from redbike.store.overview import JobLister
from redbike.store.past_runs import PastRuns
from redbike.store.pauses import Pauses
from redbike.store.questions import Questions
from redbike.store.queue_limits import QueueLimiter
from redbike.store.quotas import Quotas
from redbike.store.records import decode, encode
from redbike.store.rows import Rows
from redbike.store.runs import Runs
from redbike.store.scripts import Scripts
from redbike.store.signals import Signals
from redbike.store.timeline import Timeline
from redbike.store.tokens import Tokens
from redbike.store.totals import Counts, Depths, Totals
from redbike.store.upkeep import Rewinds, Upkeep
from redbike.store.workers import Workers
from redbike.text.printable import describe

QueueFor = Callable[[str], str]


class Store:
    """The jobs under one prefix. `queue_for` returns the queue of a job id.

    The last `failures_limit` failures are kept, and the last `history` runs of each job. A one-off is forgotten
    `forget_after` seconds after its end, or ``never``. A waiting occurrence expires after `expires` seconds; 0 for
    never. The options of a job override the last three. `host` is the name of this host; "" for the system's own.
    """

    def __init__(
        self,
        client: "redis.Redis",
        prefix: str,
        queue_for: QueueFor,
        failures_limit: int = 1000,
        history: int = 10,
        forget_after: float | str = "never",
        expires: float = 0.0,
        host: str = "",
    ) -> None:
        self.client = client
        self.keys = Keys(prefix)
        self.scripts = Scripts(client)
        self._failures_limit = failures_limit
        self._history = history
        self._queue_for = queue_for
        self._whole: Store | None = None
        refuse_unknown: Callable[[], QueueFor] | None = getattr(queue_for, "refuse_unknown", None)
        self._to_set = refuse_unknown() if refuse_unknown else queue_for
        more = forget_after, expires, self.queue_for, host
        self._group(Namespace(client, self.keys, self.scripts, None, None, *more))

    @property
    def agreement(self) -> Agreement:
        """The number of shards among which its jobs are divided."""
        return Agreement(self.client, self.keys.prefix)

    @property
    def shards(self) -> "Sequence[Store]":
        """The stores of all shards: here only this one; see `redbike.store.sharded.store`."""
        return (self,)

    @property
    def whole(self) -> "Store":
        """The store of all shards, as a job of this shard may follow a job of another one."""
        return self._whole or self

    def find_shard(self, jobid: str) -> "Store":
        """Return the store in which a job is."""
        return self

    def number_shard(self, jobid: str) -> int:
        """Return the index in `shards` of the store in which a job is."""
        return 0

    def _group(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self.jobs = Jobs(namespace)
        self.groups = Groups(namespace)
        self.links = Links(namespace)
        self.timeline = Timeline(namespace)
        self.runs = Runs(namespace, self._failures_limit, self._history)
        self.queue_limits = QueueLimiter(namespace)
        self.quotas = Quotas(namespace)
        self.misplaced = Misplaced(namespace)
        self.upkeep = Upkeep(namespace)
        self.signals = Signals(namespace)
        self.pauses = Pauses(namespace)
        self.blackouts = Blackouts(namespace)
        self.backfills = Backfills(namespace)
        self.log = Log(namespace)
        self.journal = Journal(namespace)
        self.counts = Counts(namespace)
        self.totals = Totals(namespace)
        self.archiver = Archiver(namespace)
        self.depths = Depths(namespace)
        self.coming = Coming(namespace)
        self.overview = JobLister(namespace)
        self.past = PastRuns(namespace)
        self.events = Events(namespace)
        self.outputs = Outputs(namespace)
        self.live = LiveOutput(namespace)
        self.outbox = Outbox(namespace)
        self.rewinds = Rewinds(namespace)
        self.workers = Workers(namespace)
        self.alerts = Alerts(namespace)
        self.catalog = Catalog(namespace)
        self.questions = Questions(namespace)
        self.rows = Rows(namespace)
        self.hosts = HostNotes(namespace)
        self.tokens = Tokens(namespace)

    def join(self, whole: "Store") -> None:
        """Note that this is a shard of `whole`."""
        self._whole = whole

    def at(self, now: float | None) -> "Store":
        """Return this store with its clock stopped at `now` (epoch seconds); None for the server's clock."""
        return self.follow(None if now is None else lambda: now)

    def follow(self, clock: Callable[[], float] | None) -> "Store":
        """Return this store with another `clock`, for tests; None for the server's. It shares the connections."""
        return self._copy(replace(self._namespace, clock=clock))

    @property
    def stopped_at(self) -> float | None:
        """The instant at which the clock of this store is stopped; None if it is the server's own."""
        return self._namespace.now

    def noted_as(self, who: str | None) -> "Store":
        """Return this store with changes noted in the log as those of `who`; None to note nothing."""
        return self._copy(replace(self._namespace, who=who))

    @property
    def who(self) -> str | None:
        """The person whose name the log has for changes by this store; None if it does not note them."""
        return self._namespace.who

    @contextmanager
    def hold_connection(self) -> Iterator["Store"]:
        """Yield this store with one connection, for scans; it fails if the connection is lost, or the keys move."""
        with hold_connection(self.client, self.keys.schedules) as client:
            yield self._copy(replace(self._namespace, client=client, clock=None))

    @contextmanager
    def connect_anew(self) -> Iterator["Store"]:
        """Yield this store with new connections, as an interrupted call may still hold the others."""
        with closing(connect(self.client)) as client:
            aim_at(client, self.keys.prefix)
            yield self._copy(replace(self._namespace, client=client, scripts=Scripts(client), clock=None))

    def scan(self, key: str, page: int = PAGE) -> Iterator[tuple[str, str]]:
        """Yield the fields of a hash with their values, `page` in each request."""
        return self._namespace.scan(key, page=page)

    def _copy(self, namespace: Namespace) -> "Store":
        other = Store.__new__(type(self))
        other.__dict__.update(self.__dict__, client=namespace.client, scripts=namespace.scripts)
        other._group(namespace)
        return other

    def queue_for(self, jobid: str) -> str:
        """Return the queue of `jobid`. Raise `BadQueueName`, or what Redbike's own `queue_for` raises."""
        return _name_queue(self._queue_for, self._find_base(jobid) if looks_like_one(jobid) else jobid)

    def _find_base(self, jobid: str) -> str:
        """Return the job whose queue `jobid` uses: the backfilled job if it is of a backfill, else itself."""
        options = self._namespace.ask("hget", self._namespace.keys.options, encode(jobid))
        return find_backfill(decode(options))[0] or jobid

    def name_queue(self, jobid: str) -> str:
        """Return the queue of the next run of a job; "" if it has none."""
        return self._namespace.find_queue(jobid)

    def queue_to_set(self, jobid: str) -> str:
        """Return the queue of a job to set. Raise `BadQueueName`, also if no worker could run this job."""
        return _name_queue(self._to_set, jobid)

    def freeze_queues(self) -> QueueFor:
        """Return a function that does what `queue_to_set` does now, but reads nothing from the server."""
        freeze: Callable[[], QueueFor] | None = getattr(self._to_set, "freeze", None)
        return partial(_name_queue, freeze() if freeze else self._to_set)


def _name_queue(queue_for: QueueFor, jobid: str) -> str:
    try:
        name = queue_for(jobid)
    except RedbikeError:
        raise
    except Exception as error:
        raise BadQueueName(f"no queue for {jobid!r}: queue_for() raised {describe(error)}") from error
    try:
        return check_queue_name(name)
    except BadQueueName as error:
        raise BadQueueName(f"no queue for {jobid!r}: queue_for() gave a {error}") from None
