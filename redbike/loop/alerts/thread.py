"""A thread of each dispatcher and each worker that tells people what is wrong, if ``alert`` is set.

1. A dispatcher looks about once a second, and compares what is wrong with what has been told. A worker looks only
   whether a dispatcher is running.
2. A lost process, or a shard that is away, counts only if it is still found after a while. During an outage of the
   server, or a sleep of the host, no process could be seen.
3. One step in Redis adds the lines of an alert and notes that it is told: so only one of several processes tells it.
4. Lines wait there for some seconds: what happens at the same time is one message.
5. A process claims the message, sends it, and removes it. If it dies meanwhile, another one sends it again.
6. Each of several shards has its own lines. Alerts about processes, and about shards that are away, are told by the
   first shard that answers, unless another one has told them.

No job waits for any of that.
"""

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile

from redbike.config.settings import Settings
from redbike.errors import RedbikeError, Unreachable
from redbike.loop.alerts.conditions import Found, find_conditions, find_no_dispatcher, find_shard_away, has_run_well
from redbike.loop.alerts.deciding import decide
from redbike.loop.alerts.missed import SHARE, MissedWatch
from redbike.loop.alerts.sender import TIMEOUT, Sender, add_labels, find_jobid, format_alert
from redbike.process.signals import leave_to_others
from redbike.store.alerts import PROCESS, SENDING, SENT, SHARD, WAITING, Change, Known, Message, Told
from redbike.store.enums import Alert
from redbike.store.namespace import make_tag
from redbike.store.processes import LOST
from redbike.store.records import format_time
from redbike.store.store import Store
from redbike.text.printable import describe

log = logging.getLogger("redbike.alerts")

LOOK, WORKER_LOOK = 1.0, 10.0  # seconds between two looks of a dispatcher, and of a worker
GATHER = 5.0  # seconds for which the first line of a message waits for others
SPACING = 30.0  # seconds between two messages
AWAY = 60.0  # seconds after which people are told that a shard does not answer
NO_DISPATCHER = 60.0  # seconds without a dispatcher after which people are told: a restart takes less
CLAIM_TIMEOUT = TIMEOUT + 30.0  # seconds for which others leave a message to the process that sends it
PAUSES = (10.0, 60.0, 300.0, 900.0)  # seconds before each further try; the last one counts again
UPKEEP = 3600.0  # seconds between two looks for jobs that alert, but are not noted
STOP_TIMEOUT = 5.0  # seconds for which a process that ends waits for the message that it sends


class Alerting:
    """Tells people what is wrong, from `start` to `stop`, as the setting ``alert`` says; without it, nothing.

    A dispatcher has one for each shard. A worker has one for all shards, which asks `store` first.
    """

    def __init__(self, store: Store, settings: Settings, is_dispatcher: bool) -> None:
        self._store = store
        self._settings = settings
        self._is_dispatcher = is_dispatcher
        self.peers: Sequence[Alerting] = (self,)  # those of all shards, in their order
        self.is_away = True  # whether its shard did not answer the last look
        self._told = set[str]()  # processes and shards of which its shard had told people when it last answered
        self._sender = Sender(settings.alert, settings.prefix) if settings.alert else None
        self._missed = MissedWatch(store, settings.alert_every)
        self._upkeep: Iterator[None] = iter(())
        self._upkept = float("-inf")  # when that began last, by the monotonic clock
        self._lost: dict[str, float] = {}  # since when each process is found lost, by Redis' clock
        self._told_elsewhere: set[str] = set()  # those of which another shard has told people
        self._alone_since: float | None = None  # since when no dispatcher is found, by Redis' clock
        self._complaint = ""
        self._is_held_up = False  # whether a server did not answer the last look
        self._sending = 0.0  # seconds of the last look in which it sent
        self._looked: tuple[float, float] | None = None  # when it began, by Redis' clock and the monotonic one
        self._steady_since = 0.0  # since when looks follow one another, by Redis' clock
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def start(self) -> None:
        """Begin to look, if there is somebody to tell."""
        if self._sender is None:
            return
        self._thread = threading.Thread(target=self._run, name="redbike-alerts", daemon=True)
        with leave_to_others():
            self._thread.start()

    def stop(self) -> None:
        """End soon. A message that waits is sent by others, or by the next process."""
        self._stopping.set()
        # A forked child of a program has none of its threads.
        if self._thread is not None and os.getpid() == self._process:
            self._thread.join(STOP_TIMEOUT)

    def _run(self) -> None:
        pause = took_before = 0.0
        while not self._stopping.wait(pause):
            began, self._is_held_up, self._sending = time.monotonic(), False, 0.0
            self._complain(self._try_to_look())
            # The receiver of a message may take long: that costs Redis nothing.
            took = 0.0 if self._is_held_up else time.monotonic() - began - self._sending
            # One look alone that takes long has waited for a server that hung.
            pause = max(LOOK if self._is_dispatcher else WORKER_LOOK, SHARE * min(took, took_before))
            took_before = took

    def _try_to_look(self) -> str:
        """Look, and return what went wrong; "" for nothing."""
        problem = ""
        try:
            self.look()
        except Unreachable:
            # The loop of the process logs that.
            self.is_away = self._is_held_up = True
            self._lost, self._alone_since, self._looked = {}, None, None
            return ""
        except RedbikeError as error:
            problem = str(error)
        except Exception as error:
            # Whatever it is, the jobs go on, and so does this.
            log.debug("looking for what is wrong has failed", exc_info=True)
            problem = describe(error)
        self.is_away = False
        return problem

    def _complain(self, problem: str) -> None:
        if problem and problem != self._complaint:
            log.error("cannot send alerts: %s", problem)
        self._complaint = problem

    def look(self) -> None:
        """Look once, and send what is to be sent. Raise `RedbikeError`."""
        if self._is_dispatcher:
            self._look_at_all()
            self._send(self._store)
        elif self._look_for_dispatcher():
            # Another shard may have been the first one that answered.
            self._ask_each(self._store.whole.shards, self._send)

    def _look_at_all(self) -> None:
        alerts = self._store.alerts
        if time.monotonic() - self._upkept >= UPKEEP:
            self._upkept, self._upkeep = time.monotonic(), alerts.watch_all()
        next(self._upkeep, None)
        known = alerts.read()
        is_first = all(each.is_away for each in takewhile(lambda each: each is not self, self.peers))
        # What this shard has told lasts even if it is not the first one any more.
        of_processes = is_first or any(name.startswith(PROCESS) for name in known.told)
        found, gone = find_conditions(self._store, known, self._settings, of_processes)
        # While a job waits for one of a shard that is away, nobody knows whether it is late.
        self._is_held_up |= any(not each[Alert.LATE].text for each in found.values() if Alert.LATE in each)
        for each in self.peers:
            if each.is_away and each is not self:
                prefix = each._store.keys.prefix
                found |= find_shard_away(prefix, self._lost.get(f"{SHARD}{prefix}", known.now), known.now)
        self._note_look(known.now)
        self._choose_lost(found, known, is_first)
        has_recovered = partial(has_run_well, self._store, self._settings.failures_limit)
        changes = decide(found, gone, known, self._settings.alert_every, has_recovered)
        changes += self._missed.look(known.now)
        if changes:
            self._note(changes, known)
        self._missed.confirm()
        if known.idle:
            alerts.leave(known.idle)

    def _note_look(self, now: float) -> None:
        """Note since when looks follow one another: after an outage, a jump or a sleep, heartbeats are late."""
        at = time.monotonic()
        last, last_at = self._looked or (-math.inf, at)
        if at - last_at >= LOST / 2 or abs((now - last) - (at - last_at)) >= LOST / 2:
            self._steady_since = now
        self._looked = now, at

    def _choose_lost(self, found: Found, known: Known, is_first: bool) -> None:
        """Drop the texts about processes and shards that are lost only for a while, or of which another shard tells."""
        now = known.now
        self._lost = {name: min(now, self._lost.get(name, now)) for name in found if name.startswith((PROCESS, SHARD))}
        self._told_elsewhere &= self._lost.keys()
        # A live process would have been seen again by then.
        is_steady = now - self._steady_since >= LOST
        patience = {name: AWAY if name.startswith(SHARD) else 0.0 if is_steady else LOST for name in self._lost}
        told = {name for name, since in self._lost.items() if is_first and now - since >= patience[name]}
        told -= self._told_elsewhere
        self._told_elsewhere |= self._find_told([name for name in told if name not in known.told])
        self._told = told | {name for name in self._lost if Told.parse(known.told.get(name, "")).active}
        for name in self._lost.keys() - (told - self._told_elsewhere):
            found[name] = {alert: replace(each, text="") for alert, each in found[name].items()}

    def _find_told(self, names: Collection[str]) -> set[str]:
        """Return those of `names` of which another shard, maybe one away now, has told people, and that last."""
        others = [shard for shard in self._store.whole.shards if shard.keys.prefix != self._store.keys.prefix]
        found = {name for each in self.peers if each.is_away for name in each._told if name in names}

        def look(shard: Store) -> None:
            told = shard.alerts.read().told
            found.update(name for name in names if Told.parse(told.get(name, "")).active)

        self._ask_each(others if names else (), look)
        return found

    def _ask_each(self, shards: Iterable[Store], ask: Callable[[Store], object]) -> None:
        """Ask shards, without those that do not answer."""
        for shard in shards:
            try:
                ask(shard)
            except Unreachable:
                self._is_held_up = True

    def _read_dispatched(self) -> tuple[float, float | None]:
        """Return the clock, and when jobs were dispatched last, of the first shard that answers; use it from now on."""
        *others, last = self._store.whole.shards
        for self._store in others:
            try:
                return self._store.timeline.read_dispatched()
            except Unreachable:
                self._is_held_up = True
        self._store = last
        return last.timeline.read_dispatched()

    def _look_for_dispatcher(self) -> bool:
        """Note that no dispatcher is running, once this has lasted for long; return whether it has."""
        now, dispatched = self._read_dispatched()
        is_recent = dispatched is not None and abs(now - dispatched) < LOST
        if is_recent or any(
            each.kind == "dispatcher" and each.state != "lost" for each in self._store.workers.list_all()
        ):
            self._alone_since = None
            return False
        self._alone_since = alone_since = min(now, self._alone_since or now)
        since = alone_since if dispatched is None else min(dispatched, alone_since)
        if now - since < NO_DISPATCHER or now - alone_since < LOST:
            return False
        found = find_no_dispatcher(since, now)
        known = self._store.alerts.read()
        known.told = {name: record for name, record in known.told.items() if name in found or name == SENT}
        changes = decide(found, set(), known, self._settings.alert_every)
        if changes and not self._find_told(found):
            self._note(changes, known)
        return True

    def _note(self, changes: list[Change], known: Known) -> None:
        since = SPACING if known.sent is None else max(0.0, known.now - known.sent)
        self._store.alerts.alert(_add_labels(self._store, changes), gather=max(GATHER, SPACING - since))

    def _send(self, store: Store) -> None:
        """Send the message of a shard whose time came first, and only that: it may take long, and a look comes next."""
        known = store.alerts.read()
        found = ((name, Message.parse(known.told[name])) for name in known.told if name.startswith((WAITING, SENDING)))
        due = [(message.at, name, message) for name, message in found if message and message.at <= known.now]
        for _, name, message in sorted(due):
            if self._send_one(store, name, message, known):
                return

    def _send_one(self, store: Store, name: str, message: Message, known: Known) -> bool:
        """Send a message, unless another process does; return whether this one did."""
        assert self._sender is not None
        claimed, record = f"{SENDING}{make_tag()}" if name == WAITING else name, known.told[name]
        mine = replace(message, at=known.now + CLAIM_TIMEOUT, tries=message.tries + 1)
        changes = [Change(claimed, record if claimed == name else None, mine.format())]
        if claimed != name:
            changes += [Change(name, record, None), Change(SENT, known.told.get(SENT), format_time(known.now))]
        if not all(store.alerts.alert(changes, together=True)):
            return False
        began = time.monotonic()
        sent = self._sender.send(_list_lines(mine, known.now))
        self._sending += time.monotonic() - began
        done = Change(claimed, mine.format(), None)
        left = done if sent.is_sent else self._put_off(done, mine, store.timeline.read_clock(), sent.how)
        store.alerts.alert([left], gather=PAUSES[-1])
        return True

    def _put_off(self, change: Change, message: Message, now: float, problem: str) -> Change:
        """Return what becomes of a message that was not sent; after many tries, its lines wait with the next ones."""
        assert self._sender is not None
        number = len(message.lines) + message.more
        what = f"{number} alerts" if number > 1 else "an alert"
        pause = PAUSES[min(message.tries, len(PAUSES)) - 1]
        log.warning("could not send %s to %s, and tries again in %g s: %s", what, self._sender.name, pause, problem)
        if message.tries > len(PAUSES):
            return change._replace(lines=message.lines, more=message.more)
        return change._replace(record=replace(message, at=now + pause).format())


def _add_labels(store: Store, changes: list[Change]) -> list[Change]:
    """Return the changes; their lines have the labels of the jobs that they are about, too."""
    named = list({jobid: None for change in changes for line in change.lines if (jobid := find_jobid(line))})
    labels = store.questions.read_labels(named)
    return [
        change._replace(lines=[add_labels(line, labels.get(find_jobid(line), {})) for line in change.lines])
        for change in changes
    ]


def _list_lines(message: Message, now: float) -> list[str]:
    """Return the lines of a message, and one that says how many more there are, if there are."""
    more = [format_alert(Alert.MORE, f"and {message.more:,} more alerts", now)] if message.more else []
    return [*message.lines, *more]
