"""Changes that are sent to all shards, and how a shard that was away gets them later.

Each shard notes in ``-agreed`` the time of its last change of a queue or a token. So the newest note shows which shard
is up to date, and a shard that was away copies from it. A copy may be older than a change that comes at the same time.
So the state is in doubt while it is copied, and a second note says so: the process that copies may die.

A process that ends while a shard is away leaves such a note in the others. It is kept until all shards know of the end.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from redbike.connection.refusals import translate_errors
from redbike.errors import RedbikeError, Unreachable
from redbike.store.blackouts import OF_QUEUE
from redbike.store.records import decode
from redbike.store.sharded.routes import Ask, Given, Merge, Named, Route, Shards, any_one, nothing, tell_all, try_each
from redbike.store.store import Store
from redbike.store.tokens import UnknownToken
from redbike.store.workers import KEPT

NEWER = 1e-6  # seconds between two notes, at least
ROUNDS = 10  # times that notes are compared in a row
FIELD = "told:"  # how the field of a note begins, before the kind, a colon and the name
DOUBT = f"{FIELD}?"  # the same for a state in doubt
ENDED = f"{FIELD}ended:"  # the same for a process that has ended, before its owner

Copy = Callable[[Store, Store, str], None]  # from one shard to another
Note = tuple[bool, float]  # whether the state is certain, and when it was changed
NONE: Note = (False, 0.0)


def told(kind: str, merge: Merge, get_name: Callable[[Any], str] = str) -> Route:
    """Send a change to all shards, see `tell_all`, and note it. `get_name` finds the name in the first argument."""

    def route(shards: Shards, ask: Ask, given: Given, named: Named) -> Any:
        field = f"{FIELD}{kind}:{get_name(given[0])}"
        # Masters have clocks of their own: the newest note is newer than all others, whatever its clock says.
        clock = any_one()(shards, lambda shard: shard.timeline.read_clock, (), {})
        at = max([clock, *(known + NEWER for known in _read_all(shards, field))])

        def tell(shard: Store) -> Callable[..., Any]:
            def call(*given: Any, **named: Any) -> Any:
                answer = ask(shard)(*given, **named)
                _note(shard, field, at)
                return answer

            return call

        return tell_all(merge)(shards, tell, given, named)

    return route


_REMOVED = told("token", nothing)


def remove_token(shards: Shards, ask: Ask, given: Given, named: Named) -> None:
    """Remove a token in all shards: one that was away when it was added lacks it. Raise `UnknownToken` if all do."""
    unknown = list[UnknownToken]()

    def remove(shard: Store) -> Callable[..., bool]:
        def call(*given: Any, **named: Any) -> bool:
            try:
                ask(shard)(*given, **named)
            except UnknownToken as error:
                unknown.append(error)
                return False
            return True

        return call

    _REMOVED(shards, remove, given, named)
    if len(unknown) == len(shards):
        raise unknown[0]


def sign_off(shards: Shards, ask: Ask, given: Given, named: Named) -> None:
    """Unregister a process in the shards that answer, and others later. Raise `Unreachable` if none answers."""
    found = try_each(shards, lambda shard: ask(shard)(*given, **named))
    answering = [shard for shard, each in zip(shards, found, strict=True) if not isinstance(each, Unreachable)]
    if not answering:
        raise found[0]
    if len(answering) < len(shards):
        note_end(answering, given[0])


def note_end(shards: Sequence[Store], owner: str) -> None:
    """Note in `shards` that a process has ended in order, for the shards that do not know it yet."""
    with suppress(RedbikeError):
        at = shards[0].timeline.read_clock()
        for shard in shards:
            _note(shard, f"{ENDED}{owner}", at)


def _read_all(shards: Sequence[Store], field: str) -> Iterator[float]:
    """Yield the time of the last change in each shard that answers."""
    for shard in shards:
        with suppress(Unreachable):
            yield _read_notes(shard).get(field, NONE)[1]


def _note(shard: Store, field: str, at: float) -> None:
    with translate_errors():
        shard.client.hset(shard.keys.agreed, field, f"{at:.6f}")


def catch_up(shards: Sequence[Store]) -> list[str]:
    """Copy to each shard the changes that it has missed. Return them, each as ``PREFIX: KIND:NAME``."""
    done = list[str]()
    # A change may reach a shard before an older copy does: then the notes differ again.
    # Two processes that copy at the same time may see the doubts of each other: the next call will do then.
    for _ in range(ROUNDS):
        told = _copy_news(shards)
        done += told
        if not told:
            break
    return done


def _copy_news(shards: Sequence[Store]) -> list[str]:
    known = {}
    for number, shard in enumerate(shards):
        try:
            known[number] = _read_notes(shard)
        except Unreachable:
            continue
    done = []
    for field in sorted({field for notes in known.values() for field in notes}):
        newest = max(known, key=lambda number: known[number].get(field, NONE))
        best = known[newest][field]
        for number, notes in known.items():
            if notes.get(field, NONE) < best:
                _copy(shards[newest], shards[number], field, best[1])
                done.append(f"{shards[number].keys.prefix}: {field.removeprefix(FIELD)}")
        if field.startswith(ENDED):
            _forget(field, best, [(shards[number], notes) for number, notes in known.items()], len(shards))
    return done


def _forget(field: str, best: Note, known: Sequence[tuple[Store, Mapping[str, Note]]], number: int) -> None:
    """Delete the note of an ended process if all `number` shards have it, or if it is older than `KEPT` seconds."""
    is_known = len(known) == number and all(notes.get(field) == best for _, notes in known)
    if is_known or best[1] < known[0][0].timeline.read_clock() - KEPT:
        for shard, _ in known:
            with translate_errors():
                shard.client.hdel(shard.keys.agreed, field)


def _copy(source: Store, target: Store, field: str, at: float) -> None:
    kind, _, name = field.removeprefix(FIELD).partition(":")
    doubt = field.replace(FIELD, DOUBT, 1)
    _note(target, doubt, at)
    _COPIES[kind](source, target, name)
    _note(target, field, at)
    with translate_errors():
        target.client.hdel(target.keys.agreed, doubt)


def _read_notes(shard: Store) -> dict[str, Note]:
    with translate_errors():
        found = {decode(field): decode(at) for field, at in shard.client.hgetall(shard.keys.agreed).items()}
    # A damaged note, or one that a later version has left, counts as none: it must end no dispatcher.
    notes = {field: float(at) for field, at in found.items() if _KNOWN.match(field) and _AT.fullmatch(at)}
    doubts = {field.replace(DOUBT, FIELD, 1) for field in notes if field.startswith(DOUBT)}
    return {field: (field not in doubts, at) for field, at in notes.items() if not field.startswith(DOUBT)}


def _copy_pause(source: Store, target: Store, name: str) -> None:
    pause, own = source.queue_limits.read(name).pause, target.queue_limits.read(name).pause
    if pause is not None and not pause.is_of_blackout:
        target.queue_limits.pause(name, pause.until, pause.by, pause.reason, replaces=True)
    elif own is not None and not own.is_of_blackout:
        target.queue_limits.open(name, resume=True)
        # The pause may have kept a blackout from beginning that is on now.
        _copy_blackout(source, target, name)


def _copy_blackout(source: Store, target: Store, name: str) -> None:
    full = f"{OF_QUEUE}{name}"
    blackout = source.blackouts.read([full]).get(full)
    if blackout:
        # Its dispatcher finds out at once whether it is on now.
        target.blackouts.set([full], blackout, target.timeline.read_clock(), "")
    else:
        target.blackouts.end([full], "")


def _copy_token(source: Store, target: Store, name: str) -> None:
    with translate_errors():
        record = source.client.hget(source.keys.tokens, name)
        if record is None:
            target.client.hdel(target.keys.tokens, name)
        else:
            target.client.hset(target.keys.tokens, name, record)


def _copy_end(source: Store, target: Store, name: str) -> None:
    target.workers.unregister(name)


_COPIES: Mapping[str, Copy] = {
    "pause": _copy_pause,
    "blackout": _copy_blackout,
    "token": _copy_token,
    "ended": _copy_end,
}
_KNOWN, _AT = re.compile(rf"{FIELD}\??({'|'.join(_COPIES)}):"), re.compile(r"\d{1,11}\.\d{6}")
