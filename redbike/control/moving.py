"""Moves the jobs of a prefix to another number of shards, while no process runs. An interrupted move can be resumed.

1. ``4>16 ID`` in ``-agreed`` of all shards says that the jobs are on the move. From then on, no process starts.
2. In each old shard, all keys are renamed in one step. Texts replace the fixed keys, so a process that has started
   before is refused. Now nothing changes any more; the move checks that no process is there, and no job runs.
3. All keys are copied to the new shards, under temporary names. A process that resumes the move copies again, under
   names of its own. Until this step has ended, the move can be reverted.
4. ``4=>16 ID``: from then on, it cannot be reverted. In each new shard, the keys get their own names in one step.
5. When replicas have these, the renamed keys in the old shards are deleted, except the texts, and ``-agreed`` gets
   the new number.

The names of keys contain the number of shards, so no old shard has a key of a new one. A process that comes too late
finds only the texts. Each step in a shard is one script that compares ``-agreed`` there. So a process that was
suspended, and replaced by another one, changes nothing.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from redbike.config.definitions import MOST_SHARDS
from redbike.errors import BadConfig, RedbikeError, Unreachable
from redbike.schedule.moments import join_words
from redbike.store.agreement import Division, add_left
from redbike.store.journal import Archiver
from redbike.store.moving.copying import Copier, Report, make_key
from redbike.store.moving.links import check_links, link
from redbike.store.moving.lists import check_queues, copy_log, copy_queue
from redbike.store.moving.merged import merge
from redbike.store.moving.rules import EMPTY
from redbike.store.moving.shard import (
    MARK,
    OLD,
    Shard,
    Superseded,
    delete,
    forget_agreed,
    list_queues,
    list_shards,
    pass_on_agreed,
    wait_for_replicas,
)
from redbike.store.namespace import Namespace, make_tag
from redbike.store.sharded.mail import deliver_between_all
from redbike.store.sharded.steering import catch_up
from redbike.store.store import Store
from redbike.store.workers import Workers
from redbike.text.printable import cut, name_number

PATIENCE, PAUSE = 30.0, 0.2  # seconds: to wait for archiving or replicas, and between two checks
MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Moved:
    """The result of a move: there were `before` shards, and there are `number` now."""

    before: int
    number: int
    jobs: int  # that have moved
    is_taken_back: bool = False

    def describe(self) -> str:
        """Return the result in words."""
        now = name_number(self.number, "shard")
        if self.is_taken_back:
            return f"the move is reverted: the jobs are in {now}, as before"
        if self.before == self.number:
            return f"the jobs are in {now} already"
        return (
            f"moved {name_number(self.jobs, 'job')} from {name_number(self.before, 'shard')} to {self.number}: write "
            f"shards: {self.number} into the config of each process before you start it"
        )


def check_number(number: int) -> int:
    """Return `number`, if it is a valid number of shards. Raise `BadConfig` otherwise."""
    if not 1 <= number <= MOST_SHARDS:
        raise BadConfig(f"bad --to {number}: 1 to {MOST_SHARDS} shards are allowed")
    return number


class Mover:
    """Moves the jobs of `prefix`, whose own keys `client` reaches. `report` is called with the progress.

    The log names `who`, such as ``user@host``, if it is given.
    """

    def __init__(
        self, client: Any, prefix: str, report: Report = lambda done, number: None, who: str | None = None
    ) -> None:
        self._client, self._prefix, self._report, self._who = client, prefix, report, who
        self._known: dict[int, list[Shard]] = {}
        self._queues: list[str] = []  # that are copied
        self._head = self._list(1)[0]

    def move(self, number: int) -> Moved:
        """Move the jobs to `number` shards, or resume this move. With the old number, revert a move before step 4.

        Raise `BadConfig` if the jobs are on the move to another number, `RedbikeError` if they cannot be moved now.
        """
        try:
            return self._move(number)
        finally:
            for shard in chain.from_iterable(self._known.values()):
                shard.scripts.close()

    def _move(self, number: int) -> Moved:
        text = self._head.read_agreed()
        known = Division.parse(text) if text else Division(1)
        if known is None:
            raise BadConfig(f"cannot move: {self._head.home.agreed} has a bad number of shards: {text:.40!r}")
        if known.to is None:
            if known.number == number:
                return Moved(number, number, 0)
            self._list(number)  # first of all: this prefix may be invalid for shards
            old = self._list(known.number)
            _check_processes([shard.live for shard in old])
            _pass_on_news(old)
            self._check([shard.live for shard in old], number)
            known = self._become(text, replace(known, to=number, token=make_tag()))
        elif number == known.number and not known.is_decided:
            return self._take_back(known)
        elif number != known.to:
            raise BadConfig(f"bad --to {number}: the jobs are {known.describe()}")
        elif not known.is_decided:
            known = self._take_over(known)
        if not known.is_decided:
            self._close(known)
        try:
            return self._finish(known if known.is_decided else self._copy(known))
        except Unreachable:
            raise
        except RedbikeError as error:
            now = Division.parse(self._head.read_agreed())
            if now and now.to is not None and now.token == known.token:
                raise
            # The process that has replaced us does not use our copy.
            self._delete_copy(known)
            raise Superseded("another process moves these jobs") from error

    def _list(self, number: int) -> list[Shard]:
        if number not in self._known:
            self._known[number] = list_shards(self._client, self._prefix, number)
        return self._known[number]

    def _become(self, was: str, division: Division) -> Division:
        if not self._head.agree(was, division.format()):
            raise Superseded("another process moves these jobs")
        return division

    def _take_over(self, known: Division) -> Division:
        """Take over the move that another process has begun; it cannot go on. Return our division."""
        mine = self._become(known.format(), replace(known, token=make_tag()))
        self._delete_copy(known)
        return mine

    def _delete_copy(self, known: Division) -> None:
        for shard in self._list(known.to or 1):
            delete(shard.aside(known.token), self._queues)

    def _agree(self, text: str, head: str) -> None:
        """Write `text` to ``-agreed`` of all shards, old and new ones, while the prefix itself has `head`."""
        known = Division.parse(head)
        assert known
        homes = {shard.home.agreed: shard for shard in chain(self._list(known.number), self._list(known.to or 1))}
        homes.pop(self._head.home.agreed, None)
        for shard in homes.values():
            was = shard.read_agreed()
            # A process that has replaced us may have written there since: then read again.
            while self._is_ours(head) and not shard.agree(was, text):
                was = shard.read_agreed()

    def _is_ours(self, head: str) -> bool:
        if self._head.read_agreed() != head:
            raise Superseded("another process moves these jobs")
        return True

    def _close(self, known: Division) -> None:
        """Refuse all processes, and check that none is there; if one is, revert the move."""
        assert known.to
        text, old = known.format(), self._list(known.number)
        add_left(self._client, self._prefix, known.number, known.to)
        self._agree(text, text)
        guard = (
            f"bad shards {known.number}: the jobs of the prefix {self._prefix!r} have moved to {known.to} shards: "
            "write the number that redbike shards prints into the config, and start again"
        )
        for shard in old:
            shard.leave(text, guard)
        try:
            self._check([shard.aside(OLD) for shard in old], known.to)
        except Unreachable:
            raise
        except RedbikeError:
            self._take_back(known)
            raise

    def _copy(self, known: Division) -> Division:
        """Copy all keys, and decide that the copy counts (step 4)."""
        assert known.to
        sources = [shard.aside(OLD) for shard in self._list(known.number)]
        targets = [shard.aside(known.token) for shard in self._list(known.to)]
        for source in sources:
            _archive(source)
        for target in targets:
            target.ask("set", make_key(target, MARK), "1")
        Copier(sources, targets, self._report).copy()
        merge(sources, targets)
        link(sources, targets)
        self._queues = sorted({queue for source in sources for queue in list_queues(source)})
        for name in self._queues:
            copy_queue(name, sources, targets)
        copy_log(sources, targets)
        wait_for_replicas(self._list(known.to), known.format(), PATIENCE)
        return self._become(known.format(), replace(known, is_decided=True))

    def _finish(self, known: Division) -> Moved:
        """Replace the old shards by the new ones."""
        assert known.to
        text, old, new = known.format(), self._list(known.number), self._list(known.to)
        self._agree(text, text)
        for shard in new:
            shard.enter(text, known.token)
        pass_on_agreed(old, new)
        wait_for_replicas([self._head, *new], text, PATIENCE)
        forget_agreed(old)
        undecided = replace(known, is_decided=False).format()
        for shard in old:
            # A replica that became the master may not know that the move is decided.
            self._become(undecided, known)
            shard.drop_old(text)
        jobs = sum(int(shard.live.ask("hlen", shard.keys.schedules)) for shard in new)
        detail = f"from {known.number} to {known.to}"
        replace(new[0].live, who=self._who).run("note", action="shards move", detail=detail, request=known.token)
        self._settle(self._become(undecided, known), known.to)
        return Moved(known.number, known.to, jobs)

    def _take_back(self, known: Division) -> Moved:
        """Revert the move: give the keys of the old shards their own names again."""
        mine = self._take_over(known)
        self._agree(mine.format(), mine.format())
        for shard in self._list(mine.number):
            shard.enter(mine.format(), OLD)
        self._settle(mine, mine.number)
        return Moved(mine.number, mine.number, 0, is_taken_back=True)

    def _settle(self, known: Division, number: int) -> None:
        settled = Division(number, token=known.token)
        self._agree(settled.format(), known.format())
        self._become(known.format(), settled)

    def _check(self, places: Sequence[Namespace], number: int) -> None:
        """Raise `RedbikeError` if a process is there, a job runs, or something cannot be in `number` shards."""
        _check_processes(places)
        for name in EMPTY:
            if found := [jobid for place in places for jobid, _ in place.scan(make_key(place, name))]:
                raise RedbikeError(
                    f"cannot move: {_list_some(found)} in flight; if the workers are gone, start a dispatcher, which "
                    "ends these runs, and stop it"
                )
        check_queues(places)
        check_links(places, number)


def _check_processes(places: Sequence[Namespace]) -> None:
    found = {each.id: each for place in places for each in Workers(place).list_all() if each.state != "lost"}
    if found:
        named = _list_some([f"the {each.kind} {each.host}:{each.pid}" for each in found.values()])
        raise RedbikeError(
            f"cannot move: {named} there; stop all dispatchers and workers first, as redbike control HALT does"
        )


def _pass_on_news(shards: Sequence[Shard]) -> None:
    """Deliver messages that dispatchers had no time for: ends of parents, and changes that a shard has missed."""
    stores = [Store(shard.client, shard.keys.prefix, lambda jobid: "") for shard in shards]
    # This does not wait for replicas: messages are not moved.
    deliver_between_all(stores)
    catch_up(stores)


def _list_some(names: Sequence[str]) -> str:
    """Return the first names and their verb, for a sentence."""
    return f"{join_words(cut(names, MOST_NAMED))} {'is' if len(names) == 1 else 'are'}"


def _archive(place: Namespace) -> None:
    """Archive all ended runs, so that the histories of jobs contain them and move."""
    archiver, until = Archiver(place), time.monotonic() + PATIENCE
    while left := archiver.count_entries():
        for _ in archiver.archive():
            pass
        if archiver.count_entries() == left:
            if time.monotonic() > until:
                raise RedbikeError(f"cannot move: ended runs in {place.keys.journal} cannot be archived")
            time.sleep(PAUSE)
