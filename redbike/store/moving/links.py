"""Who follows whom, when jobs move to another number of shards."""

from collections.abc import Iterator, Sequence

from redbike.errors import RedbikeError
from redbike.store.backfill import HEAD
from redbike.store.links import MARK as SHARD
from redbike.store.links import Links
from redbike.store.moving.copying import find_target
from redbike.store.namespace import Namespace, Ranks
from redbike.store.records import decode
from redbike.text.group_names import MARK


def check_links(places: Sequence[Namespace], number: int) -> None:
    """Raise `RedbikeError` if messages are under way, or if what has to be in one shard would not be."""
    if any(Links(place).list_mail() for place in places):
        raise RedbikeError(
            "cannot move: followers in other shards are about to hear of their parents; start a dispatcher, which "
            "tells them, and stop it"
        )
    for place in places:
        for link in _list_links(place):
            names = [name.lstrip(MARK + HEAD) for name in link]
            # A job may be in another shard than its parent, but not than its group or its backfill.
            if names != link and len({find_target(name, number) for name in names}) > 1:
                raise RedbikeError(
                    f"cannot move: {' and '.join(map(repr, names))} belong together, and would be in different shards "
                    f"of {number}; the same word in braces in both ids keeps jobs together"
                )


def subscribe(targets: Sequence[Namespace]) -> None:
    """Let the shard of each parent know in which others it has followers."""
    for number, target in enumerate(targets):
        parents: dict[int, dict[str, None]] = {}
        for parent, follower in _list_links(target):
            if MARK not in (parent[:1], follower[:1]) and HEAD not in (parent[:1], follower[:1]):
                parents.setdefault(find_target(parent, len(targets)), {})[parent] = None
        parents.pop(number, None)
        for other, names in parents.items():
            Links(targets[other]).subscribe(number, names)


def _list_links(place: Namespace) -> Iterator[list[str]]:
    """Yield parents with their followers, but not what is between shards."""
    for _, page in Ranks(place, place.keys.followers).list_after(None):
        for _, link in page:
            parent, _, follower = decode(link).partition("\n")
            if SHARD not in (parent[:1], follower[:1]):
                yield [parent, follower]
