"""Delivers the messages of one shard to another, see `redbike.store.links`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from redbike.store.store import Store


def deliver(shards: Sequence["Store"], source: int, shard: int) -> None:
    """Deliver all messages of the shard `source` to another one. Others may do the same at the same time."""
    while messages := shards[source].links.read_mail(shard):
        while messages:
            number, unneeded = shards[shard].links.deliver(source, messages)
            shards[source].links.confirm(shard, number, unneeded)
            messages = [message for message in messages if message.number > number]


def deliver_all(shards: Sequence["Store"], source: int) -> None:
    """Deliver all messages of the shard `source`."""
    for shard in shards[source].links.list_mail():
        if shard < len(shards):
            deliver(shards, source, shard)
