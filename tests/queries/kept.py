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


def remember(
    store, due, waited=0.0, took=1.0, outcome=Outcome.OK, error="", jobid=JOB, queue=QUEUE, attempt=1, history=10
):
    """An ended run, which is not archived yet, of a job of which so many are kept."""
    run = pack_run(due, waited, took, outcome, attempt, error)
    store.client.rpush(store.keys.journal, pack_entry("web1:1:Ownerw01", [(jobid, queue, history, run)]))
