"""A host was suspended with all of its processes: nobody could send a heartbeat, so nobody is lost for that."""

import signal

from redbike.dispatcher.dispatcher import OVERDUE
from tests.verbs import take_one
from tests.waiting import wait_until


def test_the_dispatcher_lets_workers_send_their_heartbeats_first(shell, client):
    bike = shell.bike
    store = bike.store
    dispatcher = shell.start("dispatch")
    wait_until(lambda: bike.workers())
    bike.set("job:A", "NOW")
    run = take_one(store, [("work-A", 1000.0)], "tag")
    due = store.timeline.read_clock() + 1.0
    bike.set("next:A", f"AT:{due}")
    wait_until(lambda: store.timeline.read_clock() > due - 0.5)
    dispatcher.send_signal(signal.SIGSTOP)
    client.zadd(store.keys.leases, {"tag": due}, xx=True)
    wait_until(lambda: store.timeline.read_clock() > due + OVERDUE + 0.5)
    back = store.timeline.read_clock()
    dispatcher.send_signal(signal.SIGCONT)
    wait_until(lambda: (store.timeline.read_dispatched()[1] or 0.0) > back)
    assert store.runs.heartbeat([run]) == ["ok"]
    # One that is lost is found all the same.
    client.zadd(store.keys.leases, {"tag": back}, xx=True)
    wait_until(lambda: store.questions.inspect(["job:A"])[0].queued)
