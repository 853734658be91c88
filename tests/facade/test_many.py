"""Many jobs at once: they are set, and looked at, in few round trips."""

import json

import pytest
from redis.connection import AbstractConnection

from redbike import BadConfig, BadJobId, BadSchedule
from redbike.facade.queries import TOGETHER
from tests.counting import count_calls

WORKER = {"kind": "worker", "host": "web1", "pid": 1, "queues": ["work-A"], "version": "1"}
BIKE = {"queues": "A:B"}


@pytest.fixture
def trips(monkeypatch):
    """A list with an entry for every time that something is sent to a server after an answer."""
    events = []
    send, receive = AbstractConnection.send_packed_command, AbstractConnection.read_response

    def note_sent(connection, *args, **kwargs):
        if events[-1:] != ["waits"]:
            found.append(len(events))
        events.append("waits")
        return send(connection, *args, **kwargs)

    def note_received(connection, *args, **kwargs):
        events.append("answered")
        return receive(connection, *args, **kwargs)

    found = []
    monkeypatch.setattr(AbstractConnection, "send_packed_command", note_sent)
    monkeypatch.setattr(AbstractConnection, "read_response", note_received)
    return found


def test_set_many_takes_options_and_data_for_each_job(bike):
    rows = [
        ("a:A", "EVERY:1h@0", {"timeout": "5m", "on-error": "retry", "data": {"to": ["anna"]}}),
        ("b:A", "NOW", {}),
        ["c:A", "NOW", {"retries": 3}],
    ]
    assert list(bike.set_many(rows)) == [("a:A", True), ("b:A", True), ("c:A", True)]
    told = bike.tell("a:A")
    assert (told["options"], told["data"]) == ({"timeout": 300, "on-error": "retry"}, {"to": ["anna"]})
    assert "options" not in bike.tell("b:A")
    assert bike.tell("c:A")["options"] == {"retries": 3}
    # A job keeps those that are not given.
    assert list(bike.set_many([("a:A", "EVERY:2h@0", {"on_error": None, "grace": 60})])) == [("a:A", True)]
    told = bike.tell("a:A")
    assert (told["options"], told["data"]) == ({"timeout": 300, "grace": 60}, {"to": ["anna"]})
    assert list(bike.set_many([("a:A", "EVERY:2h@0", {"data": None})])) == [("a:A", True)]
    assert "data" not in bike.tell("a:A")


def test_set_many_names_each_row_with_bad_options_or_data(bike):
    rows = [("a:A", "NOW", {"retries": -1}), ("b:A", "NOW", {"data": object()}), ("c:A", "NOW", {"retries": 1})]
    rows += [("d:A", "nonsense", {"retries": 1}), ("e:A", None, {"retries": -1})]
    results = dict(bike.set_many(rows))
    assert [type(result) for result in results.values()] == [BadConfig, BadConfig, bool, BadSchedule, BadConfig]
    assert [jobid for jobid, _ in bike.get_schedules()] == ["c:A"]


def test_set_many_sets_nothing_of_a_batch_with_what_is_no_pair_or_no_options(bike):
    for pair, said in (
        ("ab", "bad pair 'ab': .job id, schedule. or"),
        (("a:A", "NOW", {"timeout": 5}, "UTC"), r"bad pair \('a:A', 'NOW', {'timeout': 5}, 'UTC'\): "),
        (("a:A",), r"bad pair \('a:A',\): "),
        (None, "bad pair None: "),
        ({"a:A": 1, "NOW": 2}, "bad pair {'a:A': 1, 'NOW': 2}: "),
        (("a:A", "EVERY:1h", {"retreis": 3}), "retreis"),
        (("a:A", "EVERY:1h", None), "a dict is needed"),
        (("a:A", "EVERY:1h", "retries"), "a dict is needed"),
    ):
        with pytest.raises(TypeError, match=said):
            list(bike.set_many([("b:A", "EVERY:1h"), pair]))
    assert list(bike.get_statuses()) == []


def test_a_pair_may_be_any_row_of_a_program(bike):
    """Such as one that a database gives, which is no tuple."""

    def rows(*jobids):
        return [iter((jobid, "EVERY:1h@0", {"retries": 1})) for jobid in jobids]

    assert list(bike.set_many(rows("a:A"))) == [("a:A", True)]
    assert bike.sync(rows("b:A")).added == ["b:A"]
    assert bike.group("night", rows("c:A", "d:A"), then="e:A") == 2
    assert {bike.tell(jobid)["options"]["retries"] for jobid in ("a:A", "b:A", "c:A", "d:A")} == {1}


def test_options_and_data_take_no_further_round_trips(bike, trips):
    list(bike.set_many([("warm:A", "NOW"), ("warm:B", "NOW")]))
    trips.clear()
    list(bike.set_many((f"{number}:A", "EVERY:1h@0") for number in range(500)))
    plain = len(trips)
    trips.clear()
    list(bike.set_many((f"{number}:B", "EVERY:1h@0", {"retries": 3, "data": number}) for number in range(500)))
    assert max(plain, len(trips)) <= 4  # of a slow machine, which reads the clock again
    assert bike.tell("499:B")["data"] == 499


@pytest.fixture
def various(bike):
    """The ids of jobs in some states, and of one that is not there."""
    bike.worker.work = lambda jobid: 1 / ("failing" not in jobid)
    for number in range(3):
        bike.set(f"failing{number}:A", "NOW", retries=1, on_error="retry", history=2)
        bike.set(f"ran{number}:A", "NOW", data={"number": number}, history=3)
        bike.set(f"again{number}:A", "EVERY:1000d@0", data=[number])
        bike.run(f"again{number}:A")
    while bike.work_one():
        pass
    for _ in bike.store.archiver.archive():
        pass
    bike.set("paused:A", "EVERY:1h@0")
    bike.pause("paused:A", reason="no more")
    bike.run("again1:A")
    bike.work_one()
    bike.set("waiting*:A", "NOW", data="texts too")
    bike.set("bad:A", "nonsense")
    return ["gone:A", *(jobid for jobid, *_ in bike.get_statuses()), "bad:B"]


@pytest.mark.parametrize(
    ("make_schedule", "most"),
    [(lambda n: "NOW", 66), (lambda n: f"{n % 60} {n // 60 % 24} * * {n // 1440 % 7}", 138)],
    ids=["NOW", "cron"],
)
def test_many_plain_jobs_cost_few_calls_of_functions(bike, make_schedule, most):
    # Each further call costs one job in a hundred, or with cron lines in two hundred.
    def set_from(first):
        list(bike.set_many([(f"{n}:A", make_schedule(n)) for n in range(first, first + 1000)]))

    set_from(0)  # the first time, caches are filled
    assert count_calls(lambda: set_from(2000)) / 1000 < most


def test_many_are_told_as_one_is(bike, various):
    found = list(bike.get_many(various))
    assert [jobid for jobid, _ in found] == various
    told = {jobid: bike.tell(jobid) for jobid in various}
    assert dict(found) == {jobid: each if each["status"] else None for jobid, each in told.items()}
    assert {jobid for jobid, each in found if each is None} == {"gone:A", "bad:B"}
    assert {len(each.get("runs", ())) for each in told.values()} == {0, 1, 2}
    # They may come twice and in any order.
    asked = ["ran2:A", "gone:A", "again1:A", "ran2:A"]
    found = list(bike.get_many(iter(asked)))
    assert [jobid for jobid, _ in found] == asked
    assert found[0] == found[3] == ("ran2:A", told["ran2:A"])


def test_blackouts_and_hosts_are_told_of_many_as_of_one(bike):
    bike.store.workers.register("web1-xxx", json.dumps({**WORKER, "for_host": True}))
    jobids = ["own:A", "both:B", "clean:A@all", "gone:A", "tidy:B@all"]
    assert all(bike.set(jobid, "EVERY:1h@0") for jobid in jobids if jobid != "gone:A")
    bike.pause("own:A", every="0 2 * * *", lasting="2h")
    bike.pause_queue("B", every="0 3 * * *", lasting="1h")
    found = dict(bike.get_many(jobids))
    assert found == {jobid: bike.tell(jobid) if jobid != "gone:A" else None for jobid in jobids}
    assert {len(found[jobid]["blackouts"]) for jobid in ("own:A", "both:B")} == {1}
    assert [host["host"] for host in found["clean:A@all"]["hosts"]] == ["web1"]
    assert found["clean:A@all"]["next_run"] is not None


def test_what_are_no_ids_is_refused(bike):
    for jobids, error in ((["a:A", "a\nb"], BadJobId), ("a:A", TypeError), ([7], BadJobId)):
        with pytest.raises(error):
            list(bike.get_many(jobids))


def test_an_unset_job_whose_run_goes_on_is_told(bike):
    bike.set("a:A", "NOW")
    seen = []

    def work(jobid):
        bike.unset("a:A")
        seen.extend(bike.get_many(["a:A"]))

    bike.worker.work = work
    bike.work_one()
    [(_, told)] = seen
    assert told["working"]
    assert list(bike.get_many(["a:A"])) == [("a:A", None)]


def test_many_take_few_round_trips(bike, trips):
    jobids = [f"{number}:A" for number in range(2 * TOGETHER)]
    list(bike.set_many((jobid, "EVERY:1h@0", {"data": jobid}) for jobid in jobids))
    list(bike.get_many(jobids[:1]))
    trips.clear()
    assert [told["data"] for _, told in bike.get_many(jobids)] == jobids
    assert len(trips) <= 2 * 4


def test_jobs_have_their_data_if_they_are_asked_for(bike, various):
    told = {jobid: bike.tell(jobid).get("data") for jobid in various[1:-1]}
    assert {job.jobid: job.data for job in bike.jobs(with_data=True)} == told
    assert {job.jobid for job in bike.jobs("ran*", with_data=True)} == {"ran0:A", "ran1:A", "ran2:A"}
    assert [job.data for job in bike.jobs("again*", failed=True, with_data=True)] == []
    [job] = bike.jobs("ran1:A", with_data=True)
    assert job.data == {"number": 1}
    assert {job}
    assert {job.data for job in bike.jobs()} == {None}


def test_data_take_one_round_trip_more_for_a_page(bike, trips):
    list(bike.set_many((f"{number}:A", "EVERY:1h@0", {"data": number}) for number in range(500)))
    list(bike.jobs(with_data=True))
    trips.clear()
    assert len(list(bike.jobs())) == 500
    plain = len(trips)
    trips.clear()
    assert sorted(job.data for job in bike.jobs(with_data=True)) == [*range(500)]
    assert len(trips) <= plain + 2
