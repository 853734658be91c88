"""The source of a worker's jobs if its prefix has several shards: each of them in turn.

A shard that does not answer is skipped until it does, and does not delay the jobs of the others. Another thread asks
it until it does, and then sends it the ends of runs that were kept.
"""

import select
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from redbike.connection.cluster import get_known_server
from redbike.errors import Unreachable
from redbike.loop.loop import Loop
from redbike.loop.queues import Queues
from redbike.loop.wakeup import BLOCK
from redbike.store.next_state import EndedRun
from redbike.store.run import Run
from redbike.store.scripts import Call, Reply
from redbike.worker import source
from redbike.worker.ends import Ends
from redbike.worker.shard import Shard
from redbike.worker.source import Source, list_naps

T = TypeVar("T")


class ShardedSource(Source):
    """Takes jobs from all shards, and ends their runs. One thread uses it."""

    def __init__(self, sources: Sequence[Source], loop: Loop, queues: Queues, ends: Ends) -> None:
        self._shards = [Shard(number, each, loop, ends) for number, each in enumerate(sources)]
        self._loop, self._queues, self._ends = loop, queues, ends
        self._next = 0  # the shard whose turn it is
        self._taken = self._shards[0]  # the shard from which something was taken last
        self._looked_at = 0.0  # when all of them were asked last, by the monotonic clock
        self.when_idle: Callable[[], None] = lambda: None
        self._find = loop.store.number_shard

    def take_turns(self) -> Iterator[Source]:
        """Yield the source of each shard, from the one whose turn it is. Each step advances the turn."""
        for _ in self._shards:
            source = self._shards[self._next].source
            self._next = (self._next + 1) % len(self._shards)
            yield source

    def close(self) -> None:
        """Release the connections."""
        for shard in self._shards:
            shard.source.close()
            shard.give_up()

    def take(self, most: int, skipped: int = 0, patience: float | None = None) -> list[Run]:
        """Take up to `most` jobs of the first shard in turn that has any; skip the first `skipped` polls of each."""
        self._looked_at = time.monotonic()
        for each in self.take_turns():
            if found := self._take_of(self._shards[each.number], most, skipped):
                return found
        return []

    def _take_of(self, shard: Shard, most: int, skipped: int = 0) -> list[Run]:
        if shard.is_away or self._loop.stopping.is_set():
            return []
        found = list[Run]()
        with self._pass_over_if_away(shard):
            # A lost take is not repeated: it may be long ago, and may have more jobs than there are slots now.
            shard.give_back()
            found = shard.source.take(most, skipped, patience=0.0)
        if found:
            self._taken = shard
        return found

    @contextmanager
    def _pass_over_if_away(self, shard: Shard) -> Iterator[None]:
        try:
            yield
        except Unreachable as error:
            self._pass_over(shard, error)

    def _pass_over(self, shard: Shard, error: Unreachable) -> None:
        """Skip a shard, and the other shards of its master, until they answer again."""
        address = get_known_server(shard.store.client)
        for each in self._shards:
            if each is shard or (address and not each.is_away and get_known_server(each.store.client) == address):
                each.give_up()
                each.pass_over(error)

    def wait(self) -> list[Run]:
        """Block until a shard may have something, and return the runs taken from it."""
        names, naps, looked = self._queues.list_awaited(), list_naps(), time.monotonic()
        while not self._loop.stopping.is_set():
            woken = self._wait_once(names, next(naps))
            if woken:
                return self._take_first(woken)
            self.when_idle()
            if (now := time.monotonic()) - looked < source.NAP / 2:
                continue
            looked = now
            if self._queues.refresh():
                self._call_off_all(self._shards)
                return []
            # A token may have gone to a worker that was killed.
            if time.monotonic() - self._looked_at > BLOCK and (found := self.take(1)):
                self._pass_on(self._call_off_all(self._shards))
                return found
        self._pass_on(self._call_off_all(self._shards))
        return []

    def _wait_once(self, names: Sequence[str], seconds: float) -> list[Shard]:
        """Wait for up to `seconds`; return the shards that have woken this worker."""
        poll, waiting = select.poll(), dict[int, Shard]()
        poll.register(self._loop.stopping.fileno(), select.POLLIN)
        for shard in self._shards:
            if not shard.is_away:
                with self._pass_over_if_away(shard):
                    number = shard.begin_to_wait(names)
                    poll.register(number, select.POLLIN)
                    waiting[number] = shard
        ready = [waiting[number] for number, _ in poll.poll(seconds * 1000) if number in waiting]
        return [shard for shard in ready if self._is_woken(shard)]

    def _is_woken(self, shard: Shard) -> bool:
        if shard.wakeup is None:  # another shard of its master did not answer
            return False
        try:
            key, _ = shard.wakeup.wait(0.0, None)
        except Unreachable as error:
            self._pass_over(shard, error)
            return False
        if key == shard.store.keys.halt:
            self._loop.check_halt(shard.store.signals.read_all())
        shard.token = key or ""
        self._queues.note_token(shard.queues.get(shard.token, ""))
        return key is not None

    def _take_first(self, woken: Sequence[Shard]) -> list[Run]:
        """Take one job, of the `woken` shards if possible. Stop waiting, and pass the other tokens on."""
        runs, left = list[Run](), list[Shard]()
        for shard in woken:
            if runs:
                left.append(shard)
            else:
                runs = self._take_of(shard, 1)
        for shard in self._call_off_all([shard for shard in self._shards if shard not in woken]):
            if runs:
                left.append(shard)
            else:
                runs = self._take_of(shard, 1)
        self._pass_on(left)
        return runs

    def _pass_on(self, shards: Sequence[Shard]) -> None:
        """Pass the tokens of these shards on to other workers: this one is busy now, or ends."""
        for shard in shards:
            with self._pass_over_if_away(shard):
                shard.pass_on()

    def _call_off_all(self, shards: Sequence[Shard]) -> list[Shard]:
        """Stop waiting for these shards; return those that have given a token meanwhile."""
        found = []
        for shard in shards:
            with self._pass_over_if_away(shard):
                if shard.wakeup and (token := shard.wakeup.call_off()):
                    shard.token = token
                    found.append(shard)
        return found

    def finish(self) -> None:
        """Send the shards all ends that are owed, and release the runs that have not begun."""
        began = time.monotonic()
        for shard in self._shards:
            shard.finish(began)

    def list_owed(self) -> list[EndedRun]:
        """Return the ends that wait for shards that are away."""
        return [each for shard in self._shards for each in shard.owed]

    def release(self, runs: list[Run], patience: float | None = None) -> None:
        """Release runs of one tag that have not begun; if their shard is away, do so once it answers."""
        ((shard, _),) = self._group(runs, lambda run: run.jobid)
        try:
            shard.source.release(runs, patience=0.0)
        except Unreachable as error:
            shard.pass_over(error)
            shard.leave(runs)

    @property
    def fresh_until(self) -> float:
        """Until when the runs that were taken last surely belong to this worker, by the monotonic clock."""
        return self._taken.source.fresh_until

    def keep_own(self, runs: list[Run], patience: float | None = None) -> list[Run]:
        """Return those of `runs` that still belong to this worker; a shard that is away keeps its own for later."""
        kept = list[Run]()
        for shard, own in self._group(runs, lambda run: run.jobid):
            try:
                kept += shard.source.keep_own(own, patience=0.0)
            except Unreachable as error:
                shard.pass_over(error)
                shard.leave(own)
        return kept

    def _group(self, items: Sequence[T], get_jobid: Callable[[T], str]) -> list[tuple[Shard, list[T]]]:
        found: dict[int, list[T]] = {}
        for item in items:
            found.setdefault(self._find(get_jobid(item)), []).append(item)
        return [(self._shards[number], own) for number, own in found.items()]

    def send_ends(self, ended: list[EndedRun], patience: float | None = None) -> None:
        """Send the ends of these runs, without waiting for replies: the servers end them while the next ones run."""
        for shard, own in self._group(ended, lambda each: each[0].jobid):
            if not shard.owe(own):
                try:
                    shard.source.send_ends(own, patience=0.0)
                except Unreachable as error:
                    shard.pass_over(error, shard.source.drain_unheard())

    def tell(self, ended: Sequence[EndedRun], patience: float | None = None) -> None:
        """End runs, in any thread."""
        for shard, own in self._group(ended, lambda each: each[0].jobid):
            if not shard.owe(own):
                try:
                    self._ends.end(own, patience=0.0)
                except Unreachable as error:
                    shard.pass_over(error, own)

    def end_and_take(self, ended: list[EndedRun], most: int) -> list[Run]:
        """End these runs, and take up to `most` jobs of the first shard in turn that has any."""
        self.end(ended)
        return self.take(most)

    def end(
        self, ended: list[EndedRun], then: Callable[[bool], Call] | None = None, patience: float | None = None
    ) -> Reply:
        """End these runs, and those whose ends were sent without a reply; a shard that is away gets them later."""
        groups = {shard.number: own for shard, own in self._group(ended, lambda each: each[0].jobid)}
        for shard in self._shards:
            own = groups.get(shard.number, [])
            if not shard.owe(own):
                try:
                    shard.source.end(own, patience=0.0)
                except Unreachable as error:
                    shard.pass_over(error, [*shard.source.drain_unheard(), *own])
        return []
