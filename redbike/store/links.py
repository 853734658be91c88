"""Jobs that follow jobs of other shards: subscriptions to the ends of jobs, and the messages about these ends.

If a job or group has followers in the shard NN, it has itself the follower ``<FS>NN SINCE``: a *subscription*. When the
job ends, the same step adds a message to that shard: ``<FS><FS>NN <LF> NUMBER ENDED DUE ID``. A dispatcher delivers the
messages in their order, and then removes them. In ``-following``, the field ``<FS>NN`` of a shard has two numbers: of
the last message that it has posted to the shard NN, and of the last one that it has received from there. So a message
that is delivered again changes nothing.

The jobs of a group may be in several shards. Each shard counts its own jobs. The shard to which the name of the group
leads is its *home*. It counts each other shard with jobs left as one job: the member ``<FS>NN`` of the group. A shard
sends a message to the home when it gets its first such job, and when its last one ends.

No step unsubscribes when the last follower is unset. The shard of the followers replies so to the next message.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from redbike.store.group_counts import COUNTED, GroupCounts
from redbike.store.namespace import PAGE, Part, split
from redbike.store.records import decode, encode
from redbike.store.scripts import Pipeline
from redbike.text.group_names import MARK as GROUP
from redbike.text.group_names import is_jobid

MARK = "\x1c"  # among the followers of jobs, a shard is this mark and its number; no job id has the mark
MESSAGES = 100  # messages that are read at a time
_NUMBER = re.compile(r"\d\d", re.ASCII)
_SUBSCRIPTION = re.compile(rf"^{MARK}(\d\d) ", re.ASCII | re.MULTILINE)
_MESSAGE = re.compile(r"(\d{16}) ([\w:]+) (\d+\.\d+) (.+)", re.ASCII | re.DOTALL)


class Message(NamedTuple):
    """The end of an occurrence, or of a group; or news of those jobs of a group that are in the sender's shard."""

    number: str  # messages are numbered in the order in which they were posted
    ended: str  # ``ok``, ``failed`` or ``any``; of a group, see `lua/deliver.lua`
    due: str  # the due time of the occurrence
    parent: str  # the job, or the group


def find_subscribers(followers: str) -> tuple[int, ...]:
    """Return the numbers of the shards that have subscribed to a job, from its followers, separated by newlines."""
    return tuple(map(int, _SUBSCRIPTION.findall(followers)))


class Links(Part):
    """The links of one shard to followers and parents in others, and its messages to other shards."""

    alone_until = 0.0  # until then, by the monotonic clock, the master is assumed to have no replica

    def subscribe(self, shard: int, jobids: Iterable[str]) -> None:
        """Subscribe a shard to the ends of these jobs. A follower must be set there within a minute."""
        calls = (self._namespace.pack("subscribe", shard=_name(shard), jobs=page) for page in split(jobids, PAGE))
        self._namespace.scripts.run_all(calls)

    def list_mail(self) -> list[int]:
        """Return the numbers of the shards for which there are messages."""
        shards, start = list[int](), MARK * 2
        while found := self._read_mail(start, f"{MARK * 2}\x7f", 1):
            name = found[0][len(MARK * 2) :].partition("\n")[0]
            if _NUMBER.fullmatch(name):
                shards.append(int(name))
            start = f"{MARK * 2}{name}\v"
        return shards

    def read_mail(self, shard: int) -> list[Message]:
        """Return the first `MESSAGES` messages to a shard, in their order."""
        head = f"{MARK * 2}{_name(shard)}"
        found = self._read_mail(f"{head}\n", f"{head}\v", MESSAGES)
        matches = (_MESSAGE.fullmatch(each.partition("\n")[2]) for each in found)
        return [Message(*match.groups()) for match in matches if match]

    def list_ended(self, shard: int) -> list[tuple[str, GroupCounts]]:
        """Return groups and their counts from messages to their home, `shard`: all of their jobs here have ended."""
        found = []
        for message in self.read_mail(shard):
            word, *numbers = message.ended.split(":")
            if word == "left" and len(numbers) == len(COUNTED):
                total, failed, dropped = map(int, numbers)
                counts = GroupCounts(0, total, failed, dropped, due=float(message.due) or None)
                found.append((message.parent.removeprefix(GROUP), counts))
        return found

    def _read_mail(self, start: str, end: str, most: int) -> list[str]:
        bounds = encode(f"[{start}"), encode(f"({end}")
        found = self._namespace.ask("zrange", self._namespace.keys.followers, *bounds, bylex=True, offset=0, num=most)
        return list(map(decode, found))

    def deliver(self, shard: int, messages: Sequence[Message], over: Pipeline | None = None) -> tuple[str, list[str]]:
        """Receive messages of another shard, at least one, in their order; `over` that connection, if it is given.

        Return the number of the last received message, and those jobs of the messages that no job here follows.
        """
        given = [message._asdict() for message in messages]
        call = self._namespace.pack("deliver", shard=_name(shard), messages=given)
        reply = over.run([call])[0] if over else self._namespace.scripts.run(call)
        number, *unneeded = map(decode, reply[1:])
        return number, unneeded

    def confirm(self, shard: int, number: str, unneeded: Sequence[str]) -> None:
        """Remove the messages to a shard up to `number`, and its subscriptions to jobs that no job there follows."""
        self._namespace.run("confirm", shard=_name(shard), number=number, unneeded=unneeded)

    def list_bad(self) -> Iterator[tuple[str, bytes, str]]:
        """Yield each member with a score, which breaks the order by name: the key, the member, and what is wrong."""
        key = self._namespace.keys.followers
        for bounds in (("-inf", "(0"), ("(0", "+inf")):
            for member in self._namespace.ask("zrange", key, *bounds, byscore=True):
                yield key, member, f"holds {decode(member)!r:.80} with a score, which hides followers"

    def list_links(self, jobids: Sequence[str]) -> dict[str, list[str]]:
        """Return by job its followers, its groups, and the shards that have subscribed to it, as they are stored."""
        return dict(self._read_links(jobids))

    def list_followers(self, jobids: Sequence[str]) -> dict[str, list[str]]:
        """Return by id the jobs of this shard that follow each of `jobids`."""
        return {jobid: list(filter(is_jobid, names)) for jobid, names in self._read_links(jobids)}

    def list_subscribers(self, jobids: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """Return by id the numbers of the shards that have subscribed to each of `jobids`."""
        return {jobid: find_subscribers("\n".join(names)) for jobid, names in self._read_links(jobids)}

    def _read_links(self, jobids: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
        key = self._namespace.keys.followers
        for page in split(jobids, PAGE):
            replies = self._namespace.ask_all(*(_ask_links(key, jobid) for jobid in page), at_once=False)
            for jobid, links in zip(page, replies, strict=True):
                yield jobid, [decode(link).partition("\n")[2] for link in links]

    def read_parents(self, jobids: Sequence[str]) -> dict[str, list[str]]:
        """Return by id the parents of each of `jobids`; jobs of this shard that follow none are missing."""
        found = dict[str, list[str]]()
        for page in split(jobids, PAGE):
            texts = self._namespace.ask("hmget", self._namespace.keys.following, list(map(encode, page)))
            found |= {jobid: _read_parents(decode(text)) for jobid, text in zip(page, texts, strict=True) if text}
        return found


def _read_parents(text: str) -> list[str]:
    try:
        parents = json.loads(text)["parents"]
    except (ValueError, TypeError, KeyError):
        return []  # fsck reports a damaged record
    return [each for each in parents if isinstance(each, str)] if isinstance(parents, list) else []


def _ask_links(key: str, jobid: str) -> tuple[Any, ...]:
    is_reversed, has_scores, is_by_score, is_by_name = False, False, False, True
    bounds = encode(f"[{jobid}\n"), encode(f"({jobid}\v")
    return "zrange", key, *bounds, is_reversed, has_scores, float, is_by_score, is_by_name


def _name(shard: int) -> str:
    return f"{shard:02}"
