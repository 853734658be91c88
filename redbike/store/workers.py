"""The registered dispatchers and workers: they register at the start, renew every few seconds, and unregister."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from redbike.connection.refusals import translate_errors
from redbike.store.agreed import PROTOCOL, Naming, check_protocol
from redbike.store.keys import OWNER
from redbike.store.lease import CLOCKS_DIFFER
from redbike.store.namespace import PAGE, Part, split
from redbike.store.processes import LOST, MOST_JOBS, Process, ProcessRecord, make_process
from redbike.store.records import decode, parse_batch
from redbike.store.scripts import Reply

INTERVAL = 6.0  # seconds between two renewals of a process
KEPT = 86400.0  # seconds for which a lost process is known
REFRESH = 600.0  # seconds after which a process registers again, in case its record is damaged
STALE = 2 * REFRESH  # seconds after which a rule is forgotten if no worker has registered it again; see register.lua
AWAY = 30 * 86400.0  # seconds after which a function is forgotten: its worker may not run for days
SETTLED = 2.0  # seconds after which all processes have read how queues are named, see `redbike.store.agreed.REREAD`
FORGOTTEN = 100  # the most lost processes that one script forgets

NAME = re.compile(rf"[\w-]{{{OWNER}}}", re.ASCII)


class Workers(Part):
    """Registers dispatchers and workers, each by its owner: the text that begins all of its tags."""

    def register(self, owner: str, entry: str, since: str = "", naming: Naming | None = None) -> str:
        """Register a process, or a change of its record. Return its start: pass this as `since` the next time.

        `entry` is the text of `ProcessRecord.format_entry`. `naming` is how a worker names queues. Processes that were
        lost more than `KEPT` seconds ago are forgotten. Raise `OtherProtocol`.
        """
        given: dict[str, Any] = {"since": since} if since else {}
        if naming:
            (rule,) = naming.rules
            given |= {"rule": rule, "functions": naming.functions, "commands": sorted(naming.commands)}
            given |= {"stale": STALE, "away": AWAY}
        reply = self._register(owner, entry=entry, kept=KEPT, most=FORGOTTEN, settled=SETTLED, **given)
        return decode(reply[1])

    def renew(self, owner: str, notifies: bool = False) -> tuple[bool, bool]:
        """Renew a process. Return whether it is still registered, and whether the outbox may have runs.

        The second is always False unless its class `notifies`. Raise `OtherProtocol`.
        """
        given = {"tells": "yes"} if notifies else {}
        reply = self._register(owner, **given)
        return reply[0] == "ok", len(reply) > 1

    def _register(self, owner: str, **given: Any) -> Reply:
        reply = self._namespace.run("register", owner=owner, protocol=PROTOCOL, alive=LOST, **given)
        if reply[0] == "protocol":
            check_protocol(int(reply[1]))
        return reply

    def unregister(self, owner: str) -> None:
        """Remove a process that ends."""
        given: dict[str, Any] = {"kept": KEPT, "most": FORGOTTEN, "alive": LOST, "settled": SETTLED}
        self._namespace.run("register", owner=owner, ended=True, **given)

    def list_all(self) -> list[Process]:
        """Return all processes: first lost ones, then the others; of both, dispatchers before workers, by start."""
        namespace = self._namespace
        found = {owner: record for owner, text in self._list_records() if (record := ProcessRecord.parse(text))}
        seen = self._read_seen(list(found))
        now = self._namespace.read_clock()
        known = {owner: record for owner, record in found.items() if now - seen.get(owner, 0.0) <= KEPT}
        jobs: dict[str, list[str]] = {owner: [] for owner in known}
        if jobs:
            for tag, batch in self._namespace.scan(namespace.keys.batches):
                if (own := jobs.get(tag[:OWNER])) is not None:
                    own += islice(parse_batch(batch), MOST_JOBS - len(own))
        processes = (make_process(owner, record, seen[owner], now, jobs[owner]) for owner, record in known.items())
        return sorted(processes, key=lambda each: (each.state != "lost", each.kind, each.since, each.id))

    def list_working(self) -> list[ProcessRecord]:
        """Return the records of the workers that are alive and not stopping."""
        keys, records = self._namespace.keys, list[ProcessRecord | None]()
        since = self._namespace.read_clock() - LOST
        alive = self._namespace.ask("zrange", keys.seen, since, "+inf", byscore=True)
        for page in split(alive, PAGE):
            texts = self._namespace.ask("hmget", keys.workers, page)
            records += [ProcessRecord.parse(decode(text)) for text in texts]
        return [each for each in records if each and each.kind == "worker" and not each.is_stopping]

    def list_bad(self) -> Iterator[tuple[str, str]]:
        """Yield for each problem with the data of a process: its owner, and a line."""
        known: set[str] = set()
        suspects: list[str] = []
        for owner, text in self._list_records():
            known.add(owner)
            if not NAME.fullmatch(owner) or ProcessRecord.parse(text) is None:
                yield owner, f"its entry cannot be read: {text:.80}"
        seen = self._list_seen()
        now = self._namespace.read_clock()
        for owner, moment in seen.items():
            if moment > now + CLOCKS_DIFFER:
                yield owner, "it was seen at a time in the future"
            elif owner not in known:
                suspects.append(owner)
        suspects += sorted(known - seen.keys())
        for owner in suspects:
            # It may have started or ended between the requests above: read both keys again.
            yield from ((owner, problem) for problem in self._check(owner))

    def _check(self, owner: str) -> Iterator[str]:
        asked = ("hget", self._namespace.keys.workers, owner), ("zscore", self._namespace.keys.seen, owner)
        before, moment, after = self._namespace.ask_all(*asked, asked[0], at_once=False)
        if before is None and after is None and moment is not None:
            yield "it has no entry"
        elif before is not None and after is not None and moment is None:
            yield "nobody knows when it was seen"

    def forget(self, owner: str) -> None:
        """Remove all data of a process. A process that is alive registers again."""
        client, keys = self._namespace.client, self._namespace.keys
        with translate_errors():
            client.hdel(keys.workers, owner)
            client.zrem(keys.seen, owner)

    def _list_records(self) -> Iterator[tuple[str, str]]:
        return self._namespace.scan(self._namespace.keys.workers)

    def _list_seen(self) -> dict[str, float]:
        client, key = self._namespace.client, self._namespace.keys.seen
        with translate_errors():
            return {decode(owner): float(moment) for owner, moment in client.zscan_iter(key, count=PAGE)}

    def _read_seen(self, owners: list[str]) -> dict[str, float]:
        found: dict[str, float] = {}
        for page in split(owners, PAGE):
            moments = self._namespace.ask("zmscore", self._namespace.keys.seen, page)
            found |= {owner: moment for owner, moment in zip(page, moments, strict=True) if moment is not None}
        return found
