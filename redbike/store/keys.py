"""The names of all keys that Redbike has in Redis, with the schema of their content.

========================  ======  ==============================================================================
key (after the prefix)    type    content
========================  ======  ==============================================================================
``-schedules``            hash    job id → schedule, in its complete stored form
``-statuses``             hash    job id → ``EVENT:TIMESTAMP``
``-timeline``             zset    job id, scored by its due time
``-<queue name>``         list    job ids, pushed left and popped right: due jobs, and entries with a tombstone
``-tombstones-<queue>``   set     ids of jobs that have an entry in the list of the queue, but do not wait there
``-queued``               hash    job id → ``DUE QUEUE``: the jobs that wait in a queue, with their due times
``-running``              hash    job id → ``TAG START DEADLINE DUE FAILURES LOSSES NEXT QUEUE``: runs in flight
``-batches``              hash    tag → job ids, each between newlines: the runs in flight under it, in their order
``-leases``               zset    tag, scored by when its worker counts as dead if it sends no further heartbeat
``-inflight-<tag>``       string  the job ids that were taken under the tag; expires at the last of their deadlines
``-retry-states``         hash    job id → ``FAILURES LOSSES TRIES DUE AFTER``, of jobs that have failed or were lost
``-pauses``               hash    job id → ``DUE SINCE UNTIL NOTE``: the paused jobs, and their held occurrences
``-skipped``              hash    ``REASON:job id`` → number of skipped occurrences; ``REASON:`` → of all jobs
``-failures``             hash    job id → JSON of its last failure
``-failure-times``        zset    job id, scored by the time of its last failure
``-queues``               set     names of the queues that were ever used
``-queue-limits``         hash    queue name → JSON: its pause, its limits; the empty name is that of all queues
``-slots``                zset    ``QUEUE <LF> JOB``, all scored 0: runs in flight of queues with a limit at once
``-timers``               zset    ``job:ID``, ``expires:ID``, ``queue:NAME``, ``quota:NAME``, ``blackout:…``,
                                  ``naming:`` (misplaced.py), scored by when a dispatcher handles them
``-blackouts``            hash    ``job:ID`` or ``queue:NAME`` → JSON: when it is paused again and again, see below
``-dispatched``           zset    ``until``, ``until:OWNER``, ``noted``, scored by up to when all was dispatched
``-rewinds``              hash    instant to which the server went back → ``KNOWN NOTED``, see below
``-spent``                zset    job id of a one-off that has ended, scored by when it is forgotten
``-requests``             zset    tags of the latest requests to set, run or cancel jobs, scored by their time
``-control``              string  ``HALT TIMESTAMP``
``-halt``                 list    a token that wakes blocked processes when a HALT is given
``-wakeup``               list    a token that wakes a dispatcher when something earlier than before is due
``-wake-<queue name>``    list    a token that wakes one worker when the queue has jobs
``-options``              hash    job id → JSON object of the options that the job has; most have none
``-data``                 hash    job id → JSON that its worker is given
``-groups``               hash    job id → ``GROUP`` or ``GROUP <LF> SCHEDULE``: the file whose row it is, see below
``-outputs``              hash    job id → the ends of the outputs of its last runs, newest first, see outputs.py
``-saved``                hash    job id → ``KEY JSON``: what a run has saved for the next try, see below
``-progress``             hash    job id → ``TAG SHARE TEXT``: the progress that the run with this tag has reported
``-log``                  list    what people have changed, newest first: JSON ``[TIME, WHO, ACTION, DETAIL, JOB, …]``
``-workers``              hash    owner → ``SINCE ENTRY``: the dispatchers and workers, see below
``-seen``                 zset    owner, scored by when the process was seen last
``-agreed``               hash    what all must agree on: ``protocol``, ``rules``, ``job:ID`` and so on, see below
``-journal``              list    ended runs that are not in ``-history`` yet, oldest first, packed as in entries.py
``-history``              hash    job id → its last ended runs, packed as in archived.py
``-counts``               hash    ``KIND:LABEL:QUEUE`` → ended runs and what they took, see tally.py
``-untold``               hash    ``TAG JOB`` → ``TIME N <LF> entry``: the outbox: ended runs to notify, see below
``-following``            hash    job id of a follower → JSON: its parents, and which have ended since it was due last;
                                  records of backfills; a group → JSON: how its jobs have ended; see below
``-followers``            zset    ``PARENT <LF> JOB``, all scored 0: the followers of each parent, the jobs of groups,
                                  the messages to other shards
``-hosts``                hash    job id that ends in ``@all`` → JSON: on which hosts it runs, see below
``-alerts``               hash    ``job:ID``, ``process:ID``, … → JSON of the alerts about it, see below
``-tokens``               hash    name of a token → JSON: its role, its jobs, and the hash of its secret, see below
========================  ======  ==============================================================================

Times are seconds since the epoch with six decimals.

**A tag** names one request of a worker for jobs, and so all runs that the worker got by it. Each run has its own record
in ``-running``. All runs of a tag share the list in ``-batches``, the lease and the in-flight key. A run that ends is
removed from the list. The last one removes the list, the lease and the key. Until then the key also names runs that
have ended.

**An owner** begins all tags of one worker process: `OWNER` random characters, which it makes when it starts. A
dispatcher has one too. ENTRY is a JSON object: ``kind`` (``dispatcher`` or ``worker``), ``host``, ``pid``, ``queues``,
``version``; of a worker ``concurrency``: how many jobs it runs at once, ``stopping`` if it takes no more, ``takes``:
the names of its functions or commands, ``lacks``: an object with the queues of jobs whose command no worker seems to
have, by job id, ``lines``: its command lines without secrets, by name. SINCE is when the process started. The field is
removed when the process ends in order. That of a killed process stays for a day.

``protocol`` is the version of these keys and scripts, `redbike.store.agreed.PROTOCOL`. A process with another version
does not work here. ``job:ID`` has the queue of a function. ``functions`` is a JSON object: for each function, by its
id, the instant at which a worker with it registered last. ``rules`` has the same for each rule. A rule by which workers
name queues is ``stock``, ``functions`` or ``package.module:Class``, for a class that names queues in its own way.
``told:KIND:NAME`` has the instant at which a queue or token was last sent to all shards, ``told:?KIND:NAME`` while it
is copied: see `redbike.store.sharded.steering`.

**A tombstone** marks an entry in the list of a queue that is no longer valid: the job was unset, stopped or set for
later. No script searches the list for that entry. It is discarded when its turn comes, or becomes the job's entry again
when the job is enqueued in that queue. So LLEN of the list may be more than the number of jobs that wait. A timer
``expires:`` stays in the same way: when it comes, a dispatcher finds that the occurrence does not wait any more.

``until:OWNER`` is the instant that one dispatcher has stored last, by which it detects that the server has lost data.
It is removed when the dispatcher ends in order; of killed ones, the latest hundred stay. ``noted`` is the KNOWN of the
latest rewind. A rewind stays until somebody has acknowledged it. KNOWN is the instant up to which all was dispatched,
as a dispatcher knew at NOTED, while the server had an earlier one. If KNOWN is later than NOTED, the server's clock was
ahead.

NEXT in the record of a run is what changes during the run have left for its end: ``-`` nothing, ``set`` a new schedule,
``from:TIME`` a new schedule that was already due since TIME when it was set, or a one-off with other data, ``once`` a
new one-off that waits on the timeline, ``due:TIME`` a further run that is owed when this one ends. ``cancelled+``
before these: the run was cancelled, so its worker ends it early. No matter how it ends, it has not failed.

Limits are an object with some of these fields, and others for shards (quota.lua). ``paused``: since, until (times), by,
reason; ``code``: true if it is the pause of a blackout; ``own_end``: its end before a blackout lengthened it. ``last``:
since and ended, of the last pause, for a day. ``at_once``: the most runs in flight. ``count``, ``seconds``: so many
jobs in that time; ``full_at``: when the bucket is full again. ``code``: true if a worker class has set these limits,
and no operator. ``moving``: no job is taken until runs in flight are counted, or, with ``epoch``, until shards have
divided the limits. ``held``: by tag and job, until when a function that overruns counts for ``at_once``.

A retry state has five fields and two marks. FAILURES and LOSSES count those in a row. TRIES is how often its
occurrence was tried. DUE is the due time of that occurrence, ``-`` for the one in the queue. AFTER is the instant
after which the schedule goes on, ``-`` for DUE. The last three are missing if nothing was tried yet. A one-off that was
late or has expired has them, with 0 tries. After the fields, ``failed=N`` is how many occurrences have failed in a row,
if the job is to be stopped after some number. ``alone`` at the end: the job must not be taken with others.

A blackout is an object with these fields. ``every``: the schedule of its times. ``seconds``: how long each lasts.
``since``: when it was set. ``by``, ``reason``. Its timer is ``blackout:`` and its field. When the timer comes, a
dispatcher pauses the job, the queue or, for ``queue:``, everything, with an end. Each job of a pattern has its own.

A paused job is never on the timeline. DUE in its pause is the instant at which it would be due there, or since which it
has been due: that occurrence is *held*. DUE is ``-`` if none is held. SINCE is when the job was paused. UNTIL is when
the pause ends by itself, ``-`` for never. NOTE is a JSON object: ``by`` and ``reason`` for people, ``every`` if it is
of a blackout, ``own_end`` if a blackout has lengthened it, ``of_base`` if the job on a host has it from its base.

KEY in ``-saved`` is the key of an occurrence, `redbike.store.run.Run.key`: only runs of this occurrence see the value.
It is removed when an occurrence ends well that has used it or was retried. ``redbike run`` reads that of a failed one.

The values in ``-options`` are those of `redbike.config.options`; default values are left out.

GROUP is the name that ``load`` and ``sync`` give to their jobs, such as the path of a file; "" for a job without one.
SCHEDULE is there only for a one-off: its text in the file. When the one-off has ended, the job is stored as ``STOP``,
and SCHEDULE shows that the row has had its run. For a row with ``IN``, it is the instant, and then ``<LF> IN:SECONDS``:
so it shows whether the row has another duration now.

An entry of the log has what one script has changed: up to 100 jobs, or none. Changes of the same action by several
scripts within a second share an entry, too. The list has 10,000 entries at most.

If a tag ends in `NOTIFIES`, its worker class has a method ``ended``, which is called for each ended run of the tag.
Until then the entry of the journal is in ``-untold``, too, by the tag and the first of its jobs that ended. From TIME
on, any worker of such a class and of its queues may claim the entry, to call ``ended``. N is the number of claims.

A follower is a job with the schedule ``AFTER``. Its JSON has ``parents``: their ids; ``when``: ``ok``, ``failed`` or
``any``; ``ended``: for each parent that has ended so since the follower was due last, the due time of its last
occurrence; ``again``, once all parents have ended: those that have ended once more, which are only counted. While it
waits, it is on the timeline at `redbike.schedule.moments.AWAITED`. A parent need not be a job.

A backfill has no key of its own, as this would make each step that ends a run slower. In ``-following`` the field
``<RS> ID`` is a JSON object of the backfill under way: ``id`` (a tag), ``from``, ``to``, ``since``, ``by``,
``schedule`` and ``options`` (those from which its occurrences were computed), ``at_once``, ``of``, ``begun``, ``done``,
``failed``, ``dropped`` (numbers of occurrences), ``running`` and ``except`` (due times: of occurrences that wait or
run, and of those that have not ended well), ``last`` (the last one that has begun), ``part`` (the number of the first
part that is left), ``parts`` (how many there are), ``at`` (how many of that part have begun), and ``open`` while they
are being stored. ``<RS> ID <LF> N`` is a part: JSON of 100 due times. ``<RS> ID <LF> done`` is JSON of the last 20
objects of backfills that have ended, with ``ended``, and ``how`` if it was cancelled. An occurrence is a one-off,
``ID@2026-11-03T00:00:00Z``, with an option ``backfill``, which nobody can set: an object with ``of``, the job, and
``due``. In ``-followers`` it has the follower ``<RS> ID``. As it ends, the next one is set in the same step. Unless the
object has ``alone``, each job that follows the backfilled job, directly or not, has an occurrence with it: a follower
with such an id, option and schedule (``AFTER:ID@2026-11-03T00:00:00Z once:1793664000``). Its JSON has ``of``:
``<RS> ID`` of the backfilled job. Until it has ended, ``-followers`` has it as a follower of ``<RS> ID``, too.

A group is stored as its name behind the control character GS, which no job id has. A job with the schedule ``GROUP``
follows it as if it were a job. Each of its jobs that has not ended has two links in ``-followers``:
``JOB <LF> <GS>NAME`` has its group, and ``<GS><GS>NAME <LF> JOB`` counts it. The JSON of a group has ``total``: the
jobs that it has had; ``failed`` and ``dropped``: how many of these have failed, or were given up; ``due``: the latest
due time of those that have ended; ``open``: true if more are to come; ``owed``: jobs that have joined in flight, with
the tag of the run that does not count, as they are to run once more. The JSON is removed when the last job ends, unless
it is open. The record of a follower then has ``group``: these numbers.

In the shard of a follower, a parent in another shard is like any other parent. In its own shard, the parent has the
follower ``<FS>NN SINCE``: the shard NN has subscribed. As it ends, ``<FS><FS>NN <LF> NUMBER ENDED DUE PARENT`` is added
to ``-followers``: a message to that shard, until a dispatcher has delivered it. NUMBER has 16 digits. In ``-following``
the field ``<FS>NN`` is ``POSTED RECEIVED``: the numbers of the last messages to and from the shard NN.
A group has a record in each shard with jobs of it. In other shards than its home, the JSON has ``home``: the number of
the home. In the home, ``<GS><GS>NAME <LF> <FS>NN`` counts the shard NN. See `redbike.store.links`.

A job for every host, a *base*, has a schedule that begins with ``ALL:``, and is on the timeline at ``AWAITED``, as it
is never due. The object in ``-hosts`` has ``hosts``: when a worker of its queue was last seen on each, ``over``: since
when it is unset, and ``began``: the schedule of a one-off that a present host has had. Its job on one host has the
option ``all-of``, which nobody can set: ``of``, the base, and ``revision``, which changes with schedule, options or
data of the base. Both store there from when occurrences count, if not from when the base was set: `HostStart`.

For a job that alerts if it is late, ``-alerts`` has ``job:ID`` with ``{}``. If alerts about it were sent, the object
has ``active``: since when each alert lasts, by its name, and ``told``: when each was sent last. ``process:ID`` of a
lost worker, ``rewind:INSTANT`` and ``dispatcher:`` have such an object, too. ``recovered`` in ``active`` is since when
a run that ends well is awaited. ``missed:ID`` is how many missed occurrences of a job people were told of, and when;
``missed:`` is the number for all jobs. ``waiting:`` has lines that are to be sent from ``at`` on, and ``sent:`` when
some were sent last. ``sending:TAG`` is a message that one process sends; from ``at`` on, others may send it.

A token gives access to the API and the page. Its object has ``role``, ``jobs`` (patterns; of all jobs if there are
none), ``expires`` (a time, null for never), ``since``, ``by``, and ``digest``: only the SHA-256 of the secret.

With a prefix in braces (``{myapp}``) all of these keys are in one slot of a cluster. Of several shards, each has all of
these keys. ``-agreed`` of the prefix itself, and of ``{myapp:00}`` and so on, has ``shards``: their number, or a move
to another number, see `redbike.store.agreement`, and ``left``: earlier numbers. Where jobs have left, each key with a
fixed name is a text that says so: a script that is sent there fails. While they move, the keys have names that begin
with ``-~old-`` and, in their new places, ``-~ID-``.
"""

from functools import lru_cache

OWNER = 8  # characters
NOTIFIES = "+"  # the end of a tag whose worker class has a method ``ended``; no other tag ends so

# Every key whose name does not depend on a queue or a run, and its type. A script gets those that its header lists, in
# this order.
FIXED = {
    "schedules": "hash",
    "statuses": "hash",
    "timeline": "zset",
    "queued": "hash",
    "running": "hash",
    "batches": "hash",
    "leases": "zset",
    "retry-states": "hash",
    "skipped": "hash",
    "failures": "hash",
    "failure-times": "zset",
    "queues": "set",
    "wakeup": "list",
    "dispatched": "zset",
    "rewinds": "hash",
    "spent": "zset",
    "requests": "zset",
    "control": "string",
    "halt": "list",
    "queue-limits": "hash",
    "slots": "zset",
    "pauses": "hash",
    "timers": "zset",
    "options": "hash",
    "data": "hash",
    "outputs": "hash",
    "saved": "hash",
    "progress": "hash",
    "groups": "hash",
    "log": "list",
    "workers": "hash",
    "seen": "zset",
    "agreed": "hash",
    "journal": "list",
    "history": "hash",
    "counts": "hash",
    "untold": "hash",
    "following": "hash",
    "followers": "zset",
    "alerts": "hash",
    "blackouts": "hash",
    "hosts": "hash",
    "tokens": "hash",
}
GIVEN = (*FIXED, "inflight-")  # the last one is no key: the names of in-flight keys begin with it
OF_QUEUE = ("list", "list", "set")  # the types of the keys of a queue: its list, its tokens, its tombstones
ASIDE = "~"  # begins the names of keys that are on the move to another number of shards
FAMILIES = ("inflight-", "wake-", "tombstones-", ASIDE)
MARKS = ("-schedules", "-agreed")  # each prefix that has jobs or workers has a key with such an end


class Keys:
    """The names of the keys under one prefix.

    `list_given(given, names)` returns the keys that a script gets: those of `given`, some of `GIVEN` in order, and then
    the keys of the queues `names`. Both are tuples.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        given = [f"{prefix}-{name}" for name in GIVEN]
        self.schedules, self.statuses, self.timeline, self.queued, self.running, self.batches = given[:6]
        self.leases, self.retry_states, self.skipped, self.failures, self.failure_times, self.queues = given[6:12]
        self.wakeup, self.dispatched, self.rewinds, self.spent, self.requests, *others = given[12:]
        self.control, self.halt, *others = others
        self.queue_limits, self.slots, self.pauses, self.timers, self.options, self.data, *others = others
        self.outputs, self.saved, self.progress, self.groups, self.log, self.workers, *others = others
        self.seen, self.agreed, self.journal, self.history, self.counts, *others = others
        self.untold, self.following, self.followers, self.alerts, self.blackouts, *others = others
        self.hosts, self.tokens, self.inflight_base = others
        self.list_given = lru_cache(1024)(self._list_given)

    def _list_given(self, given: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
        return (*(f"{self.prefix}-{name}" for name in given), *(key for name in names for key in self.of_queue(name)))

    def list_fixed(self) -> list[str]:
        """Return every key whose name does not depend on a queue or a run."""
        return [f"{self.prefix}-{name}" for name in FIXED]

    def get_kind(self, key: str) -> str:
        """Return the type of a key whose name does not depend on a run: one of `FIXED`, or the list of a queue."""
        return FIXED.get(key.removeprefix(f"{self.prefix}-"), "list")

    def queue(self, name: str) -> str:
        """Return the list of the queue `name`."""
        return f"{self.prefix}-{name}"

    def of_queue(self, name: str) -> tuple[str, str, str]:
        """Return the keys of the queue `name`: its list, its tokens, its tombstones."""
        return self.queue(name), self.wake(name), self.tombstones(name)

    def wake(self, name: str) -> str:
        """Return the list of tokens that wake a worker of the queue `name`."""
        return f"{self.prefix}-wake-{name}"

    def tombstones(self, name: str) -> str:
        """Return the set of jobs that have an entry in the list of the queue `name`, but do not wait there."""
        return f"{self.prefix}-tombstones-{name}"

    def inflight(self, tag: str) -> str:
        """Return the expiring key of the runs that were taken under `tag`."""
        return f"{self.inflight_base}{tag}"
