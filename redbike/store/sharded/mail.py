"""Delivers the messages of one shard to another, see `redbike.store.links`.

A message is removed once a replica of the receiver's master has it, too: a replica that takes over without it would
not get it again. Shards of a single server need no such wait: its replica gets the delivery before the removal.
"""

import time
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from redbike.store.sharded.missing import name_if_silent
from redbike.store.sharded.pipeline import ReplicatedPipeline

if TYPE_CHECKING:
    from redbike.store.links import Message
    from redbike.store.store import Store

PATIENCE = 0.1  # seconds to wait until a replica has what was delivered: a caller waits meanwhile
ROUNDS = 10  # of deliveries: news of a group goes to its home first, and then to the shard of the follower
ALONE_FOR = 5.0  # seconds after which a master that had no replica is asked for one again


def deliver(shards: Sequence["Store"], source: int, shard: int, patience: float = PATIENCE) -> bool:
    """Deliver all messages of the shard `source` to `shard`, both by number. Other processes may do so as well.

    Return False if messages stay and must be delivered again: no replica has had them after `patience` seconds. With 0,
    no replica has to have them.
    """
    sender, receiver = shards[source], shards[shard]
    waits = patience > 0 and sender.client is not receiver.client
    while messages := _read_mail(sender, shard):
        with closing(ReplicatedPipeline(receiver.client, lambda: receiver.scripts.is_stopping())) as pipeline:
            number, unneeded = "", list[str]()
            while number != messages[-1].number:
                # All messages each time: a replica that takes over meanwhile may lack the first ones.
                number, unneeded = receiver.links.deliver(source, messages, pipeline)
            if waits and not _is_replicated(receiver, pipeline, patience):
                return False
        with name_if_silent(sender):
            sender.links.confirm(shard, number, unneeded)
    return True


def _read_mail(sender: "Store", shard: int) -> "list[Message]":
    with name_if_silent(sender):
        return sender.links.read_mail(shard)


def _is_replicated(receiver: "Store", pipeline: ReplicatedPipeline, patience: float) -> bool:
    """Tell whether a replica has what was delivered, or there is none."""
    now = time.monotonic()
    if now < receiver.links.alone_until:
        return True
    if pipeline.is_alone():
        receiver.links.alone_until = now + ALONE_FOR
        return True
    return pipeline.is_replicated(patience)


def deliver_all(shards: Sequence["Store"], source: int, patience: float = PATIENCE) -> None:
    """Deliver all messages of the shard `source`, see `deliver`."""
    with name_if_silent(shards[source]):
        receivers = [shard for shard in shards[source].links.list_mail() if shard < len(shards)]
    for shard in receivers:
        with name_if_silent(shards[shard]):
            deliver(shards, source, shard, patience)


def deliver_between_all(shards: Sequence["Store"]) -> None:
    """Deliver the messages of all shards, and those that they cause. Wait for no replica."""
    for _ in range(ROUNDS):
        if not any(shard.links.list_mail() for shard in shards):
            return
        for number in range(len(shards)):
            deliver_all(shards, number, patience=0)
