"""The API: what it answers, and who may ask for what. What is refused follows from the table of routes."""

import itertools
import json
import re
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest

from redbike import Redbike, RoundRobin
from redbike.control.queues import QueueController
from redbike.control.setter import Setter
from redbike.queries import fields
from redbike.store.tokens import ROLES
from redbike.web import app
from redbike.web.api import jobs
from tests.loops import beside
from tests.verbs import Quiet, Telling, stopping
from tests.waiting import wait_until
from tests.web.api import DOCUMENT, JOB, PATH, STREAM, Api, list_next, list_requests, make_token
from tests.web.conftest import BASE, Giving, TestClient, register_hosts

OPERATOR = "a-token-of-the-operator"
REQUESTS = list_requests()


@pytest.fixture
def api(bike):
    """Asks without a token, on this machine, what may change everything."""
    return Api(app(bike, write=True, api=True, show_data=True))


def work(bike):
    while bike.dispatch_due() or bike.work_one():
        pass


def test_a_job_is_set_run_told_and_unset(bike, api):
    path, body = PATH, {"schedule": "EVERY:1h", "options": {"retries": 2}, "data": {"x": 1}}
    status, job = api.ask("PUT", path, body)
    assert (status, job["jobid"], job["options"], job["data"]) == (201, JOB, {"retries": 2}, {"x": 1})
    # It is idempotent: also its place on the timeline stays.
    assert api.ask("PUT", path, body) == (200, job)
    assert api.ask("PUT", path, {"schedule": "EVERY:2h"})[1]["options"] == {"retries": 2}
    changed = api.ask("PUT", path, {"schedule": "EVERY:2h", "options": {"retries": None}, "data": None})[1]
    assert not {"options", "data"} & changed.keys()
    assert api.ask("PUT", path, {"schedule": "EVERY:3h"}, if_none_match="*")[0] == 412
    assert api.ask("POST", f"{path}/run") == (200, {"jobid": JOB, "word": "queued"})
    assert api.ask("POST", f"{path}/cancel") == (200, {"jobid": JOB, "word": "cancelled"})
    api.ask("POST", f"{path}/run")
    work(bike)
    assert [run["outcome"] for run in api.ask("GET", f"{path}/runs")[1]["items"]] == ["ok"]
    assert api.ask("POST", f"{path}/pause", {"until": "+1h", "reason": "why not"})[1]["word"] == "held"
    assert api.ask("GET", path)[1]["paused"]["reason"] == "why not"
    assert api.ask("GET", "/jobs?paused=true&limit=1")[1]["items"][0]["jobid"] == JOB
    assert api.ask("POST", f"{path}/resume")[1]["word"] == "timeline"
    assert len(api.ask("GET", f"{path}/next?count=3")[1]["items"]) == 3
    assert "not due until" in api.ask("GET", f"{path}/why")[1]["why"]
    bike.set("after:A", f"AFTER:{JOB}")
    warning = f"{JOB} is unset; 1 job waits for it: after:A"
    assert api.ask("DELETE", path) == (200, {"jobid": JOB, "word": "unset", "warnings": [warning]})
    status, problem = api.ask("DELETE", path)
    assert (status, problem["detail"], problem["type"]) == (
        404,
        f"no such job: {JOB!r}",
        "urn:redbike:problem:no-such-job",
    )
    assert {entry.who for entry in bike.log()} == {"api@testclient"}


def test_an_instant_without_a_zone_is_in_that_of_the_job(api):
    body = {"schedule": "* * * * *", "after": "2030-01-01T00:00"}
    for zone, due in ((None, "2030-01-01T00:01+00:00"), ("America/New_York", "2030-01-01T00:01-05:00")):
        job = api.ask("PUT", PATH, {**body, "tz": zone})[1]
        assert job["next_run"] == datetime.fromisoformat(due).timestamp()


def test_to_stop_what_has_failed_for_good_leaves_it_so(client, prefix):
    bike = Redbike(Telling(), prefix, client)
    api = Api(app(bike, write=True, api=True))
    for jobid in ("bad:A", "badly:A"):
        bike.set(jobid, "NOW")
        bike.work_one()
    job = api.ask("GET", "/jobs/bad:A")[1]
    assert (job["schedule"], job["status"][:4]) == ("STOP", "DIE:")
    noted = {**job, "options": {"note": "x"}}
    assert api.ask("PUT", "/jobs/bad:A", {"schedule": job["schedule"], "options": {"note": "x"}}) == (200, noted)
    for wrong in ({"tz": "Nowhere"}, {"after": -1}, {"after": 5}):
        assert api.ask("PUT", "/jobs/bad:A", {"schedule": "STOP", "options": {"note": "y"}, **wrong})[0] == 422
        assert api.ask("GET", "/jobs/bad:A")[1] == noted
    # What waits to run again is stopped, and what is to run runs.
    assert bike.run_failed() == [("bad:A", "queued"), ("badly:A", "queued")]
    assert api.ask("PUT", "/jobs/badly:A", {"schedule": "STOP"})[1]["status"][:4] == "STP:"
    assert [bike.work_one(), bike.work_one()] == ["bad:A", None]
    assert api.ask("PUT", "/jobs/bad:A", {"schedule": "NOW"})[1]["status"][:4] == "ENQ:"


def test_who_runs_a_job_is_told_that_its_queue_is_paused(bike, api):
    bike.set(JOB, "EVERY:1h")
    bike.pause_queue("A", reason="the disk")
    for method, path, body in (("POST", "/run", None), ("PUT", "", {"schedule": "NOW"})):
        [said] = api.ask(method, f"{PATH}{path}", body)[1]["warnings"]
        assert re.fullmatch(rf"{JOB}: its queue work-A is paused since .* \(the disk\)", said)
    assert "warnings" not in api.ask("PUT", "/jobs/later:A", {"schedule": "IN:1h"})[1]


def test_to_run_a_job_does_not_read_the_journal(bike, api):
    bike.set(JOB, "EVERY:1h")
    for pause in (lambda: None, bike.pause_all):
        pause()
        bike.client.config_resetstat()
        assert api.ask("POST", f"{PATH}/run")[0] == 200
        assert "cmdstat_lrange" not in bike.client.info("commandstats")


def test_a_job_that_is_set_is_no_error_though_redis_goes_away_then(own_server, monkeypatch):
    bike = Redbike(RoundRobin("A"), redis_config=own_server.url)
    monkeypatch.setattr(Setter, "_set", stopping(own_server, Setter._set))
    api = Api(app(bike, write=True, api=True))
    status, found = api.ask("PUT", PATH, {"schedule": "NOW"})
    [warning] = found.pop("warnings")
    assert (status, found) == (201, {"jobid": JOB})
    assert warning.startswith(f"{JOB}: it is set; what is known of it cannot be read: ")


def test_what_was_done_is_no_error_though_redis_goes_away_then(own_server, monkeypatch):
    bike = Redbike(RoundRobin("A"), redis_config=own_server.url)
    bike.set(JOB, "EVERY:1h")
    api, limits = Api(app(bike, write=True, api=True)), {"queue": "work-B", "at_once": 3, "rate": None}
    for owner, verb, path, body, said in (
        (jobs, "run_jobs", f"{PATH}/run", None, {"jobid": JOB, "word": "queued"}),
        (QueueController, "pause", "/queues/B/pause", None, {"queue": "work-B", "word": "paused"}),
        (QueueController, "resume", "/queues/B/resume", None, {"queue": "work-B", "word": "resumed"}),
        (QueueController, "limit", "/queues/B/limit", {"at_once": 3}, limits),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, verb, stopping(own_server, getattr(owner, verb)))
            assert api.ask("POST", path, body) == (200, said)
        own_server.start()


def test_who_steers_a_job_for_every_host_is_told_of_each_host(bike, api):
    register_hosts(bike, "web1", "web2")
    bike.set("a:A@all", "EVERY:1h")
    bike.run("a:A@web2")

    def steer(verb):
        found = api.ask("POST", f"/jobs/a:A@all/{verb}")[1]
        return found["word"], [tuple(each.values()) for each in found["jobs"]]

    assert steer("cancel") == ("various", [("a:A@web1", "idle"), ("a:A@web2", "cancelled")])
    assert steer("run") == ("queued", [("a:A@web1", "queued"), ("a:A@web2", "queued")])


def test_who_sets_a_job_that_will_not_run_is_told_why(bike, api, caplog):
    api.ask("PUT", "/jobs/row:A", {"schedule": "EVERY:1h"})
    bike.sync([("row:A", "EVERY:1h")], group="my.csv")
    over = "DTSTART:20200101T000000Z\nRRULE:FREQ=DAILY;COUNT=2"
    with beside(bike.store, bike.work):
        wait_until(bike.workers)
        for jobid, schedule, said in (
            ("good:A", "EVERY:1h", None),
            ("good:A", "STOP", None),
            ("good:ZZ", "NOW", "good:ZZ: no worker works its queue 'work-ZZ'"),
            ("off:A@nohost", "NOW", "off:A@nohost: no worker works its queue 'work-A@nohost'"),
            ("every:ZZ@all", "NOW", "every:ZZ@all: no worker works the queue 'work-ZZ' on any host"),
            ("every:ZZ@all", "STOP", None),
            ("over:A", over, f"over:A: nothing is left to run of {over!r}"),
            ("late:A", "AFTER:good:A,loed:A", "late:A: it waits for 'loed:A', which is no job yet"),
            ("row:A", "EVERY:2h", "row:A is a row of my.csv: the next load of the group sets it again"),
        ):
            status, found = api.ask("PUT", f"/jobs/{jobid}", {"schedule": schedule})
            warnings = found.get("warnings", [])
            assert (status in (200, 201), len(warnings)) == (True, int(said is not None)), found
            assert said is None or warnings[0].startswith(said)
            assert "warnings" not in api.ask("GET", f"/jobs/{jobid}")[1]
        expired = {"schedule": "AT:1000000000", "options": {"expires": "1h"}}
        assert "it expired at" in api.ask("PUT", "/jobs/expired:A", expired)[1]["warnings"][0]
    assert not [record for record in caplog.records if "no worker" in record.getMessage()]


def test_what_counts_from_the_request_or_is_past_is_set_anew_each_time(bike, api):
    due = [api.ask("PUT", "/jobs/later:A", {"schedule": "IN:1h"})[1]["next_run"] for _ in range(2)]
    assert due[0] < due[1]
    for number in (1, 2):
        status, found = api.ask("PUT", "/jobs/once:A", {"schedule": "AT:1000000000"})
        assert (status, found["status"].partition(":")[0]) == ((201, 200)[number - 1], "ENQ"), found
        work(bike)
        status, found = api.ask("GET", "/jobs/once:A/runs")
        assert (status, len(found["items"])) == (200, number), (found, bike.tell("once:A"))


def test_a_job_that_will_not_run_has_no_next_runs(bike):
    bike.set("dead:A", "EVERY:1h", data={"error": "no"}, on_error="stop")
    bike.set("held:A", "EVERY:1h")
    assert len(list_next(bike, "dead:A")) == 3
    bike.run("dead:A")
    work(bike)
    bike.pause("held:A")
    assert [list_next(bike, jobid) for jobid in ("dead:A", "held:A")] == [[], []]


def test_a_paused_job_runs_next_when_its_pause_ends(bike, api):
    now = bike.store.timeline.read_clock()
    until, later = (now // 3600 + 3.5) * 3600, (now // 3600 + 9) * 3600
    for jobid, schedule in (("many:A", "EVERY:1h@0"), ("once:A", f"AT:{until - 5400}"), ("late:A", f"AT:{later}")):
        bike.set(jobid, schedule)
    bike.set("none:A", "EVERY:1h@0", catchup="none")
    bike.pause("*", until=until)
    bike.set("on:A", "CONTINUE")
    bike.pause("on:A", until=until)
    further = [until + 1800, until + 5400, until + 9000]
    assert list_next(bike, "many:A") == [until, *further[:2]]  # what was missed first
    assert list_next(bike, "none:A") == further
    assert [list_next(bike, jobid) for jobid in ("once:A", "on:A", "late:A")] == [[until], [until], [later]]
    assert api.ask("GET", f"/jobs/many:A/next?count=1&after={until + 1800}")[1]["items"] == [until + 5400]


def test_next_names_the_times_at_which_a_job_will_be_paused(redbike):
    bike = redbike(RoundRobin("A"), now=datetime(2027, 1, 15, 8, 30, tzinfo=UTC))
    api = Api(app(bike, api=True))
    first = bike.now + 1800  # 9:00
    for jobid in ("night:A", "queue:B"):
        bike.set(jobid, "EVERY:1h@0")
    asked = {jobid: f"/jobs/{jobid}/next?count=3" for jobid in ("night:A", "queue:B")}
    items = [first, first + 3600, first + 7200]
    assert api.ask("GET", asked["queue:B"]) == (200, {"jobid": "queue:B", "items": items})
    bike.pause("night:A", every="0 10 * * *", lasting="30m")
    bike.pause_queue("B", until=first + 5400)
    assert api.ask("GET", asked["night:A"])[1] == {"jobid": "night:A", "items": items, "held": items[1:2]}
    assert api.ask("GET", asked["queue:B"])[1] == {"jobid": "queue:B", "items": items, "held": items[:2]}
    bike.pause_all()
    assert [api.ask("GET", path)[1]["held"] for path in asked.values()] == [items, items]


def test_a_job_that_follows_others_has_the_times_of_these(bike, api):
    for jobid, schedule in (("first:A", "EVERY:1h@0"), ("second:A", "EVERY:2h@0"), ("all:A", "CONTINUE")):
        bike.set(jobid, schedule)
    for jobid, schedule in (
        ("one:A", "AFTER:first:A"),
        ("both:A", "AFTER:first:A,second:A"),
        ("none:A", "AFTER:all:A"),
    ):
        bike.set(jobid, schedule)
    due = list_next(bike, "first:A")
    assert list_next(bike, "one:A") == due
    assert list_next(bike, "both:A") == list_next(bike, "second:A")
    assert list_next(bike, "none:A") == []
    assert api.ask("GET", f"/jobs/one:A/next?count=2&after={due[1]}")[1]["items"] == [due[2], due[2] + 3600]
    bike.pause("one:A")
    assert list_next(bike, "one:A") == []


def test_a_follower_that_waits_has_been_due_since_its_parent_ended(bike):
    bike.set("first:A", "EVERY:1h")
    bike.set("one:A", "AFTER:first:A")
    bike.run("first:A")
    assert bike.work_one() == "first:A"
    [due, *_] = list_next(bike, "one:A")
    assert due == bike.tell("one:A")["next_run"]
    bike.dispatch_due()
    assert list_next(bike, "one:A")[0] == due


def test_a_run_that_somebody_asked_for_comes_first_though_its_job_is_paused(bike):
    for jobid, schedule in (("many:A", "EVERY:1h@0"), ("once:A", "AT:4102444800"), ("now:A", "NOW")):
        bike.set(jobid, schedule)
        bike.pause(jobid, until=4102450200)
        bike.run(jobid)
        bike.client.hset(bike.store.keys.queued, jobid, "1700000000.500000 work-A")
        assert list_next(bike, jobid, 1) == [1_700_000_000.5], jobid


def test_what_is_due_later_is_next_also_of_a_schedule_without_times(client, prefix):
    class Pausing(Quiet):
        def work(self, jobid):
            if jobid == "again:A":
                raise ValueError("no luck")
            return 1500

    bike = Redbike(Pausing("A"), prefix, client)
    bike.set("again:A", "NOW", on_error="retry", retries=3, backoff="25m")
    bike.set("goes-on:A", "CONTINUE")
    bike.set("fresh:A", "NOW")
    assert {bike.work_one(), bike.work_one()} == {"again:A", "goes-on:A"}
    assert list_next(bike, "fresh:A") == []
    for jobid in ("again:A", "goes-on:A"):
        assert list_next(bike, jobid) == [bike.tell(jobid)["next_run"]], jobid
        bike.pause(jobid)
        assert list_next(bike, jobid) == [], jobid
        bike.resume(jobid)
        bike.pause(jobid, until=4102444800)
        assert list_next(bike, jobid) == [4102444800], jobid


def test_nothing_that_is_past_is_next_also_of_a_job_that_waits(bike, api):
    bike.set("job:A", "EVERY:1h@0")
    due = list_next(bike, "job:A")
    bike.run("job:A")
    assert api.ask("GET", "/jobs/job:A/next?count=3&after=2001-01-01T00:00:00Z")[1]["items"] == due


def test_a_one_off_that_somebody_runs_before_its_time_is_still_to_come(bike):
    bike.set("once:A", "AT:4102444800")
    bike.run("once:A")
    assert list_next(bike, "once:A") == [4102444800]
    work(bike)
    assert bike.tell("once:A")["next_run"] == 4102444800


def test_of_very_many_runs_that_a_pause_leaves_only_some_are_computed(bike):
    bike.set("dense:A", "* * * * * *", catchup="all")
    bike.pause("dense:A", until=4e9)
    found = list_next(bike, "dense:A", 22)
    assert found[:3] == pytest.approx([4e9] * 3, abs=1e-3)
    assert found[-3:] == pytest.approx([4e9, 4e9 + 1, 4e9 + 2], abs=1e-3)


def test_queues_and_everything_are_paused_resumed_and_limited(bike, api):
    bike.set("a:A", "NOW")
    for path, queue in (("/queues/A", "work-A"), ("", "")):
        said = [api.ask("POST", f"{path}/{verb}")[1] for verb in ("pause", "pause", "resume", "resume")]
        assert [each["word"] for each in said] == ["paused", "unchanged", "resumed", "unchanged"]
        assert {each["queue"] for each in said} == {queue}
    limits = {"queue": "work-A", "at_once": 3, "rate": "5/m"}
    assert api.ask("POST", "/queues/A/limit", {"at_once": 3, "rate": "5/m"}) == (200, limits)
    assert api.ask("POST", "/queues/A/limit", {"rate": None})[1] == {**limits, "rate": None}
    assert api.ask("GET", "/queues/A")[1]["at_once"] == 3
    blackout = {"every": "0 2 * * sat", "for": "2h"}
    for path in ("/jobs/a:A", "/queues/A", ""):
        calls = [("pause", blackout)] * 2 + [("resume", {"every": True})] * 2
        said = [api.ask("POST", f"{path}/{verb}", body)[1]["word"] for verb, body in calls]
        assert said == ["set", "replaced", "ended", "unchanged"], path
    api.ask("POST", "/queues/A/pause", blackout)
    assert api.ask("GET", "/queues/A")[1]["blackout"] is not None
    # No job has used this one yet.
    unused = {"queue": "work-B", "warnings": ["the queue 'work-B' was never used"]}
    assert api.ask("POST", "/queues/B/pause", blackout)[1] == {**unused, "word": "set"}
    assert api.ask("POST", "/queues/B/limit", {"at_once": 3})[1] == {**unused, "at_once": 3, "rate": None}
    assert [each["queue"] for each in api.ask("GET", "/queues")[1]["items"]] == ["work-A", "work-B"]
    assert api.ask("GET", "/queues/B")[1]["blackout"] is not None
    assert api.ask("POST", "/halt") == (204, None)
    assert bike.is_halted()
    halt = next(bike.log())
    assert (halt.action, halt.who) == ("halt", "api@testclient")


def test_a_list_is_read_by_its_cursor_and_nothing_is_left_out(bike, api):
    ids = {f"{n}:A" for n in range(12)} | {f"other {n}:B" for n in range(6)} | {"broken:B"}
    assert all(ok is True for _, ok in bike.set_many((jobid, "NOW") for jobid in sorted(ids - {"broken:B"})))
    work(bike)
    bike.set("broken:B", "NOW", data={"error": "no"}, tags="billing")
    work(bike)
    bike.set("broken:B", "STOP")
    noted = Redbike.from_settings(bike.worker, bike.settings, bike.client, durable=False, noted_as="me@here")
    noted.pause("*")
    noted.resume("1:A")
    for limit in (1, 7, 1000):

        def read(path, limit=limit):
            found, cursor = [], ""
            for _ in range(200):
                _, page = api.ask("GET", f"{path}{'&' if '?' in path else '?'}limit={limit}{cursor}")
                assert len(page["items"]) <= limit
                found += page["items"]
                if page["cursor"] is None:
                    return found
                cursor = f"&cursor={page['cursor']}"
            raise AssertionError("it does not end")

        jobs, runs = read("/jobs"), read("/runs")
        assert tuple(jobs[0]) == fields.JOBS
        assert sorted(job["jobid"] for job in jobs) == sorted(run["jobid"] for run in runs) == sorted(ids)
        assert runs == sorted(runs, key=lambda run: -run["started"]) or limit == 1
        assert {job["jobid"] for job in read("/jobs?pattern=other*&pattern=1*")} == {
            jobid for jobid in ids if jobid.startswith(("other", "1"))
        }
        assert len(read("/jobs?queue=B")) == 7
        assert [job["jobid"] for job in read("/jobs?failed=1")] == ["broken:B"]
        assert [run["error"] for run in read("/runs?failed=true")] == ["ValueError: no"]
        for path in ("/jobs?tag=billing&queue=B", "/runs?tag=billing&tag=other", "/failures?tag=billing"):
            assert [each["jobid"] for each in read(path)] == ["broken:B"]
            assert read(path.replace("billing", "nobodys")) == []
        assert [each["queue"] for each in read("/queues")] == ["work-A", "work-B"]
        log = read("/log")
        assert (len(log), log[0]["action"], {entry["jobid"] for entry in log}) == (len(ids) + 1, "resume", ids)
        who = quote(log[0]["who"][1:].upper())
        assert read(f"/log?since=1h%20ago&who={who}") == log
        assert read("/log?since=now&who=nobody") == []


def test_a_time_that_looks_back_is_that_of_yesterday_if_it_is_to_come_today(bike, api):
    api.ask("PUT", "/jobs/a:A", {"schedule": "NOW"})
    work(bike)
    later = datetime.fromtimestamp(bike.store.timeline.read_clock() + 5 * 3600, UTC)
    text, yesterday = f"{later:%H:%M}", f"{later - timedelta(days=1):%Y-%m-%d %H:%M}:00"
    for path in ("/runs", "/jobs/a:A/runs", "/log"):
        assert len(api.ask("GET", f"{path}?since={text}")[1]["items"]) == 1, path
    assert yesterday in api.ask("GET", f"/jobs/a:A/why?at={text}")[1]["why"]
    page = TestClient(app(bike), base_url=BASE)
    for path in ("/runs", "/log"):
        assert f'name="since" value="{yesterday}"' in page.get(f"{path}?since={text}").text, path


def test_a_secret_of_a_job_is_told_only_with_show_data(client, prefix):
    bike = Redbike(Giving("A:B"), prefix, client, on_error="stop")
    bike.set("given:A", "NOW", keep_result=True)
    bike.set("secret:A", "EVERY:1h", data="hush")
    bike.set("broken:A", "NOW", data={"error": "no"})
    work(bike)
    shown = [Api(app(bike, api=True, write=True, show_data=flag)) for flag in (True, False)]
    hourly, trace = {"schedule": "EVERY:1h"}, "Traceback"
    for method, path, body, word in (
        *(("GET", path, None, "hush") for path in ("/jobs/secret:A", "/jobs/given:A", "/jobs/given:A/runs", "/runs")),
        *(("GET", path, None, trace) for path in ("/jobs/broken:A", "/failures")),
        ("PUT", "/jobs/secret:A", hourly, "hush"),
        ("PUT", "/jobs/given:A", hourly, "hush"),
        ("PUT", "/jobs/broken:A", {"schedule": "STOP"}, trace),
    ):
        answers = [each.ask(method, path, body) for each in shown]
        assert [(status, word in json.dumps(found)) for status, found in answers] == [(200, True), (200, False)], path


# Who may ask


@pytest.fixture
def guarded(bike):
    """Makes a client with a token of a role and of patterns."""
    site = app(bike, write=True, api=True, token=OPERATOR)
    numbers = itertools.count()

    def make(role=None, jobs=(), site=site, **more):
        secret = make_token(bike, f"{role}-{next(numbers)}", role, jobs, **more) if role else None
        return Api(site, secret)

    return make


@pytest.mark.parametrize(
    ("route", "path", "body"), REQUESTS, ids=[f"{route.method} {route.path}" for route, *_ in REQUESTS]
)
def test_each_route_is_refused_without_a_token_with_a_wrong_role_and_for_foreign_jobs(bike, guarded, route, path, body):
    bike.set(JOB, "EVERY:1h")
    bike.set("secret:A", f"AFTER:{JOB}")
    bike.limit("A", at_once=9)
    before = {
        key: bike.client.dump(key)
        for key in bike.client.keys("*")
        if not key.endswith((b"-tokens", b"-requests", b"-log"))
    }
    assert guarded().ask(route.method, path, body)[0] == 401
    assert Api(app(bike, api=True, token=OPERATOR), "wrong").ask(route.method, path, body)[0] == 401
    lower = ROLES[: ROLES.index(route.role)]
    for role in lower:
        status, problem = guarded(role).ask(route.method, path, body)
        assert (status, route.role in problem["detail"], role in problem["detail"]) == (403, True, True)
    status, found = guarded(route.role, ["other*"]).ask(route.method, path, body)
    if "{id}" in route.path or route.is_whole:
        assert status == 403
        assert f"the token of {route.role}-" in found["detail"]
    else:
        assert status == 200
        assert not any(each in json.dumps(found) for each in (JOB, "secret"))
    after = {key: bike.client.dump(key) for key in bike.client.keys("*") if key in before}
    assert after == before
    # And with the right one it is not.
    status, found = guarded(route.role, [] if route.is_whole else ["etl*"]).ask(route.method, path, body)
    assert (status in (200, 201, 204), "secret" in json.dumps(found)) == (True, False)
    # Where the page only shows, no role is enough to change something.
    if route.role != "read":
        only = Api(app(bike, api=True, token=OPERATOR))
        for secret in (OPERATOR, make_token(bike, "all", "write")):
            only.headers["authorization"] = f"Bearer {secret}"
            assert "--write" in only.ask(route.method, path, body)[1]["detail"]


def test_a_token_counts_until_it_expires_or_is_taken_back(bike, guarded, monkeypatch):
    monkeypatch.setattr("redbike.web.guard.FRESH", 0.0)
    api = guarded("operate", jobs=["etl*"])
    bike.set(JOB, "EVERY:1h")
    assert api.ask("POST", f"{PATH}/run")[0] == 200
    [entry] = bike.log(JOB)
    assert (entry.who, entry.action) == ("operate-0 (api@testclient)", "run")
    bike.store.tokens.remove("operate-0")
    assert api.ask("GET", "/jobs")[0] == 401
    brief = guarded("read", expires=bike.store.timeline.read_clock() + 0.5)
    wait_until(lambda: brief.ask("GET", "/jobs")[0] == 401)


def test_a_token_for_some_jobs_ties_none_to_others(bike, guarded):
    api = guarded("write", jobs=["etl*"])
    for body, said in (
        ({"schedule": "AFTER:etl/2:A,secret:B any"}, "secret:B"),
        ({"schedule": "GROUP:tag9"}, "group tag9"),
        ({"schedule": "IN:300d", "options": {"group-of": "tag9"}}, "into a group"),
    ):
        status, problem = api.ask("PUT", PATH, body)
        assert (status, said in problem["detail"], bike.tell(JOB)["schedule"]) == (403, True, None)
    bike.set("etl/9:A", "IN:300d", group_of="tag9")
    bike.set("secret:G", "GROUP:tag9")
    for body in ({"schedule": "IN:200d"}, {"schedule": "STOP"}, {"schedule": "NOW", "options": {"group-of": None}}):
        status, problem = api.ask("PUT", "/jobs/etl%2F9:A", body)
        assert (status, "in a group" in problem["detail"]) == (403, True)
    assert bike.tell("secret:G")["follows_group"]["left"] == 1
    for verb, left in (("pause", 1), ("resume", 1), ("run", 1), ("cancel", 0)):
        assert api.ask("POST", f"/jobs/etl%2F9:A/{verb}")[0] == 200
        assert bike.tell("secret:G")["follows_group"]["left"] == left, verb
    # To set it again would put it into the group again.
    assert api.ask("PUT", "/jobs/etl%2F9:A", {"schedule": "IN:200d"})[0] == 403
    assert api.ask("DELETE", "/jobs/etl%2F9:A")[0] == 200
    assert api.ask("PUT", "/jobs/etl%2F9:A", {"schedule": "IN:200d"})[0] == 201
    assert api.ask("PUT", PATH, {"schedule": "AFTER:etl/2:A"})[0] == 201
    bike.set("secret:B", f"AFTER:{JOB}")
    assert "secret" not in json.dumps(api.ask("GET", PATH)[1])
    bike.set("etl/3:A", f"AFTER:{JOB},secret:B")
    bike.set("etl/4:A", "AFTER:secret:B")
    status, problem = api.ask("PUT", PATH, {"schedule": "AFTER:etl/4:A"})
    path = f"{JOB} after etl/4:A after another job after {JOB}"
    assert (status, problem["detail"].endswith(f": {path}")) == (422, True)
    said = f"{JOB} is unset; 2 jobs wait for it: etl/3:A and other jobs"
    assert api.ask("DELETE", PATH)[1]["warnings"] == [said]


def test_a_token_for_some_jobs_does_not_hear_when_the_parents_of_these_run(bike, guarded):
    bike.set("secret:B", "EVERY:1h@7")
    bike.set("etl/0:A", "EVERY:1h@7")
    bike.set("secret:C", "IN:2h", group_of="tag9")
    bike.set("etl/1:A", "AFTER:secret:B")
    bike.set("etl/2:A", "AFTER:etl/1:A,etl/0:A")
    bike.set("etl/3:A", "GROUP:tag9")
    bike.set("etl/4:A", "AFTER:etl/0:A")
    all_jobs, some = guarded("read"), guarded("read", jobs=["etl*"])

    def ask(api, jobid, what):
        return api.ask("GET", f"/jobs/{quote(jobid, safe='')}/{what}")[1]

    def list_agenda(api, pattern=""):
        rows = api.ask("GET", f"/agenda?hours=5{pattern}")[1]["items"]
        return {jobid for row in rows for jobid in row["jobs"]}

    for jobid in ("etl/1:A", "etl/2:A", "etl/3:A"):
        assert "secret" in json.dumps(ask(all_jobs, jobid, "why"))
        assert ask(some, jobid, "why")["why"] == "It waits for other jobs, not all of which may be shown."
        assert ask(all_jobs, jobid, "next")["items"]
        assert ask(some, jobid, "next")["items"] == []
    assert ask(some, "etl/4:A", "why")["why"].startswith("It waits for etl/0:A, which is due at ")
    assert ask(some, "etl/4:A", "next")["items"]
    assert {"etl/1:A", "etl/2:A", "etl/3:A"} < list_agenda(all_jobs)
    assert list_agenda(some) == list_agenda(some, "&pattern=*") == {"etl/0:A", "etl/4:A"}


def test_a_token_for_some_jobs_does_not_hear_of_others_on_hosts(bike, guarded):
    register_hosts(bike, "web1", "web2")
    bike.set("a:A@web1", "EVERY:1h")
    bike.set("a:A@all", "EVERY:1h")
    for fitting, hosts, why in (
        ([], ["web1", "web2"], "web1 (none, as a:A@web1 is a job of its own), web2 (TML, "),
        (["a:A@all", "a:A@web2"], ["web2"], "It runs as a job of its own on each host, not all of which may be shown."),
        (["a:A@all"], [], "It runs as a job of its own on each host, not all of which may be shown."),
    ):
        api = guarded("write", jobs=fitting)
        assert [each["host"] for each in api.ask("GET", "/jobs/a:A@all")[1]["hosts"]] == hosts
        assert why in api.ask("GET", "/jobs/a:A@all/why")[1]["why"]
        found = api.ask("PUT", "/jobs/a:A@all", {"schedule": "EVERY:1h"})[1]
        assert ([each["host"] for each in found["hosts"]], "warnings" in found) == (hosts, not fitting)
        for path, shown in (("/jobs", hosts), ("/agenda", hosts), ("/agenda?pattern=a:A@all", hosts[-1:])):
            said = json.dumps(api.ask("GET", path)[1])
            assert [host for host in ("web1", "web2") if f"a:A@{host}" in said] == shown, path


def test_only_a_token_in_its_header_counts_and_no_other_site_changes_anything(bike):
    bike.set(JOB, "EVERY:1h")
    site = app(bike, write=True, api=True, token=OPERATOR)
    browser = Api(site)
    for method, path in (DOCUMENT, STREAM, ("GET", "/nothing")):
        assert browser.ask(method, path)[0] == 401
    assert Api(site, OPERATOR).ask("POST", f"{PATH}/run")[0] == Api(site, OPERATOR).ask(*DOCUMENT)[0] == 200
    assert browser.post("/login", data={"token": OPERATOR}, follow_redirects=False).status_code == 303
    assert browser.get("/jobs").status_code == 200
    assert browser.ask("GET", "/jobs")[0] == 401
    open_to_all = Api(app(bike, write=True, api=True))
    cross_site = {"sec_fetch_site": "cross-site"}
    # A browser sends what it knows of a person by itself, also for a page of another site.
    for headers in (cross_site, {"origin": "http://evil.example"}, {"authorization": "Basic YTpi", **cross_site}):
        assert open_to_all.ask("POST", f"{PATH}/run", **headers)[0] == 403
    assert open_to_all.ask("POST", f"{PATH}/run")[0] == 200


def test_once_there_is_a_token_one_is_needed(bike, monkeypatch):
    monkeypatch.setattr("redbike.web.guard.FRESH", 0.0)
    api = Api(app(bike, write=True, api=True))
    assert api.ask("GET", "/jobs")[0] == 200
    assert api.get("/jobs").status_code == 200
    make_token(bike)
    assert api.ask("GET", "/jobs")[0] == 401
    assert api.get("/jobs", follow_redirects=False).status_code == 303
    bike.store.tokens.remove("ci")
    assert api.ask("GET", "/jobs")[0] == 401, "to take one back opens nothing"
    # What mounts the page checks who asks.
    make_token(bike)
    assert Api(app(bike, api=True, hosts=["*"])).ask("GET", "/jobs")[0] == 200


def test_without_api_there_is_none(bike):
    assert Api(app(bike)).get("/api/jobs").status_code == 404
