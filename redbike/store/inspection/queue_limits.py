"""Check and repair the gates of queues: their records, the slots of their runs, and the instants to look at them."""

from collections.abc import Iterator

from redbike.store.inspection.listing import Listing
from redbike.store.queue_limits import GateState
from redbike.store.records import decode
from redbike.store.store import Store


def list_bad_gates(store: Store, listing: Listing) -> Iterator[tuple[str, list[str]]]:
    """Yield what the problems are about, and a line for each of them."""
    for name, jobids in listing.gates.items():
        if problems := list(check_gate(store.gates.inspect(name, sorted(jobids)))):
            yield _describe(name), problems
    keys = store.keys
    for name in listing.stray_gates:
        yield f"the key {keys.gates!r}", [f"holds {name!r}, which no queue can have as its name"]
    for slot in listing.stray_slots:
        yield f"the key {keys.slots!r}", [f"holds {decode(slot)!r}, which names no queue and job"]
    for alarm in listing.stray_alarms:
        yield f"the key {keys.alarms!r}", [f"holds {alarm!r}, which names no gate"]


def repair_gates(store: Store, listing: Listing) -> None:
    """Repair what `list_bad_gates` finds."""
    for name, jobids in listing.gates.items():
        state = store.gates.inspect(name, sorted(jobids))
        if state.stored is not None and state.gate is None:
            store.gates.forget(name)
        if state.wrong:
            store.gates.occupy(name, sorted(state.wrong))
        if _lacks_alarm(state) or state.stored is None:
            store.gates.open(name)
    for name in listing.stray_gates:
        store.gates.forget(name)
    for slot in listing.stray_slots:
        store.gates.forget_slot(slot)
    for alarm in listing.stray_alarms:
        store.gates.forget_alarm(alarm)


def check_gate(state: GateState) -> Iterator[str]:
    """Yield what is wrong with the gate of a queue, and with its slots."""
    if state.stored is None and state.alarm is not None:
        yield "it has an alarm, but there is no gate"
    if state.stored is not None and state.gate is None:
        yield f"its record cannot be read: {state.stored:.80}"
    if _lacks_alarm(state):
        yield "nobody is told when its pause ends"
    for jobid, has_slot in sorted(state.wrong.items()):
        yield f"{jobid!r} has a slot, but needs none" if has_slot else f"{jobid!r} is in flight, but has no slot"


def _lacks_alarm(state: GateState) -> bool:
    pause = state.gate.pause if state.gate else None
    return bool(pause and pause.until is not None and (state.alarm is None or state.alarm > pause.until))


def _describe(name: str) -> str:
    return f"the gate of the queue {name!r}" if name else "the gate of everything"
