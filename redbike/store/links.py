"""Jobs that follow jobs of other shards: who hears of which end, and the messages that tell of it.

A job or a group that is followed has the follower ``<FS>NN SINCE``, its *subscription*, for each shard NN with
followers of it. As it ends, the same step adds a message to that shard: ``<FS><FS>NN <LF> NUMBER ENDED DUE ID``. A
dispatcher delivers the messages in their order, and removes them then. Each shard has in ``-following``, in the field
``<FS>NN``, the numbers of the last message that it has posted to the shard NN, and of the last one that it has received
from there. So a message that is delivered again changes nothing.

The jobs of a group may be in several shards. Each of these counts its own. The shard that the name of the group leads
to, its *home*, counts the shards with jobs that are left, as if each were one job: the member ``<FS>NN`` of the group.
It hears from them as they begin and end to have such jobs.

No step unsubscribes when the last follower is unset. The shard of the followers says so as the next message comes.
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

MARK = "\x1c"  # a shard is its number behind this, among the followers of jobs: no job id has it
MESSAGES = 100  # that are read at a time
_NUMBER = re.compile(r"\d\d", re.ASCII)
_SUBSCRIPTION = re.compile(rf"^{MARK}(\d\d) ", re.ASCII | re.MULTILINE)
_MESSAGE = re.compile(r"(\d{16}) ([\w:]+) (\d+\.\d+) (.+)", re.ASCII | re.DOTALL)


class Message(NamedTuple):
    """An occurrence of a job has ended, or a group, or the jobs of a group that are in the shard of the sender."""

    number: str  # in the order in which they were posted
    ended: str  # ``ok``, ``failed`` or ``any``; of a group, see `lua/deliver.lua`
    due: str  # its due time
    parent: str


def find_subscribers(followers: str) -> tuple[int, ...]:
    """Return which shards have subscribed to a job, from its followers with newlines between."""
    return tuple(map(int, _SUBSCRIPTION.findall(followers)))


class Links(Part):
    """What one shard knows of followers and parents in others, and its messages to them."""

    alone_until = 0.0  # until when its master is taken to have no replica, by the monotonic clock

    def subscribe(self, shard: int, jobids: Iterable[str]) -> None:
        """Let another shard hear of the ends of these jobs. A follower there is to be set within a minute."""
        calls = (self._namespace.pack("subscribe", shard=_name(shard), jobs=page) for page in split(jobids, PAGE))
        self._namespace.scripts.run_all(calls)

    def list_mail(self) -> list[int]:
        """Return to which shards there are messages."""
        shards, start = list[int](), MARK * 2
        while found := self._read_mail(start, f"{MARK * 2}\x7f", 1):
            name = found[0][len(MARK * 2) :].partition("\n")[0]
            if _NUMBER.fullmatch(name):
                shards.append(int(name))
            start = f"{MARK * 2}{name}\v"
        return shards

    def read_mail(self, shard: int) -> list[Message]:
        """Return the first messages to a shard; none if there are none."""
        head = f"{MARK * 2}{_name(shard)}"
        found = self._read_mail(f"{head}\n", f"{head}\v", MESSAGES)
        matches = (_MESSAGE.fullmatch(each.partition("\n")[2]) for each in found)
        return [Message(*match.groups()) for match in matches if match]

    def list_ended(self, shard: int) -> list[tuple[str, GroupCounts]]:
        """Return what has become of jobs of groups here, of which their home, that shard, has not heard yet."""
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
        """Receive messages of another shard, one at least, in their order; `over` that connection, if it is given.

        Return the number of the last one that was received, and the jobs that nobody follows here.
        """
        given = [message._asdict() for message in messages]
        call = self._namespace.pack("deliver", shard=_name(shard), messages=given)
        reply = over.run([call])[0] if over else self._namespace.scripts.run(call)
        number, *unneeded = map(decode, reply[1:])
        return number, unneeded

    def confirm(self, shard: int, number: str, unneeded: Sequence[str]) -> None:
        """Remove the messages to a shard up to this one, and the subscriptions to jobs that nobody follows there."""
        self._namespace.run("confirm", shard=_name(shard), number=number, unneeded=unneeded)

    def list_bad(self) -> Iterator[tuple[str, bytes, str]]:
        """Yield members with a score, which break the order by name: the key, the member, and what is wrong."""
        key = self._namespace.keys.followers
        for bounds in (("-inf", "(0"), ("(0", "+inf")):
            for member in self._namespace.ask("zrange", key, *bounds, byscore=True):
                yield key, member, f"holds {decode(member)!r:.80} with a score, which hides followers"

    def list_links(self, jobids: Sequence[str]) -> dict[str, list[str]]:
        """Return by job its followers, the groups of which it is, and the shards that have subscribed to it."""
        return dict(self._read_links(jobids))

    def list_followers(self, jobids: Sequence[str]) -> dict[str, list[str]]:
        """Return the jobs of this shard that follow these, by their ids."""
        return {jobid: list(filter(is_jobid, names)) for jobid, names in self._read_links(jobids)}

    def list_subscribers(self, jobids: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """Return which shards have subscribed to these jobs of this shard, by their ids."""
        return {jobid: find_subscribers("\n".join(names)) for jobid, names in self._read_links(jobids)}

    def _read_links(self, jobids: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
        key = self._namespace.keys.followers
        for page in split(jobids, PAGE):
            replies = self._namespace.ask_all(*(_ask_links(key, jobid) for jobid in page), at_once=False)
            for jobid, links in zip(page, replies, strict=True):
                yield jobid, [decode(link).partition("\n")[2] for link in links]

    def read_parents(self, jobids: Sequence[str]) -> dict[str, list[str]]:
        """Return what jobs of this shard follow, by their ids; nothing for those that follow none."""
        found = dict[str, list[str]]()
        for page in split(jobids, PAGE):
            texts = self._namespace.ask("hmget", self._namespace.keys.following, list(map(encode, page)))
            found |= {jobid: _read_parents(decode(text)) for jobid, text in zip(page, texts, strict=True) if text}
        return found


def _read_parents(text: str) -> list[str]:
    try:
        parents = json.loads(text)["parents"]
    except (ValueError, TypeError, KeyError):
        return []  # fsck tells of a damaged one
    return [each for each in parents if isinstance(each, str)] if isinstance(parents, list) else []


def _ask_links(key: str, jobid: str) -> tuple[Any, ...]:
    is_reversed, has_scores, is_by_score, is_by_name = False, False, False, True
    bounds = encode(f"[{jobid}\n"), encode(f"({jobid}\v")
    return "zrange", key, *bounds, is_reversed, has_scores, float, is_by_score, is_by_name


def _name(shard: int) -> str:
    return f"{shard:02}"
