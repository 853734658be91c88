"""What Redis keeps of processes and of ended runs, for tests of what is said of that."""

import json
from datetime import UTC, datetime

from redbike.store.entries import pack_entry
from redbike.store.enums import Outcome
from redbike.store.history import pack_run
from tests.states import JOB, NOW, QUEUE


def at(moment):
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def register(store, kind, number=1, queues=None, now=NOW, since="", **more):
    """A dispatcher, or a worker of `QUEUE` or other queues, which is seen at `now`."""
    named = list(queues or ([QUEUE] if kind == "worker" else []))
    entry = {"kind": kind, "host": "web1", "pid": number, "queues": named, "version": "1", **more}
    store.at(now).workers.register(f"Owner{kind[0]}{number:02}", json.dumps(entry), since)


def remember(store, *given, **more):
    """An ended run, which is not archived yet, of a job of which so many are kept."""
    add_runs(store, make_run(*given, **more))


def archive(store):
    """All runs that are not archived yet."""
    while store.archiver.count_entries():
        for _ in store.archiver.archive():
            pass


def make_run(
    due, waited=0.0, took=1.0, outcome=Outcome.OK, error="", jobid=JOB, queue=QUEUE, attempt=1, history=10, **more
):
    """An ended run for `add_runs`; `more` is what else it is packed with."""
    return jobid, queue, history, pack_run(due, waited, took, outcome, attempt, error, **more)


def add_runs(store, *runs):
    """Ended runs of one worker, in one entry, which is not archived yet."""
    store.client.rpush(store.keys.journal, pack_entry("web1:1:Ownerw01", runs))
