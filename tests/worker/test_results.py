"""The option ``keep-result``: what ``work`` returns is kept with its run."""

import asyncio
import json
import re

import pytest

from redbike import Again, AsyncRedbike, BadJobId, Jobs, NoResult, Redbike, RoundRobin
from redbike.config.options import parse_options, read_changes
from redbike.worker.current import is_in_run
from redbike.worker.saving import MAX_RESULT
from tests.states import JOB
from tests.verbs import set_job


class Returning(RoundRobin):
    """Returns or raises what comes next in `results`."""

    def __init__(self, *results):
        super().__init__("A")
        self.results = list(results)

    def work(self, jobid):
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result


class Hostile(dict):
    """Nobody can look at it."""

    def items(self):
        raise OSError("away")

    def __repr__(self):
        raise OSError("away")


class Leaving:
    """Whoever looks at it in a run is to end; pytest may."""

    def __repr__(self):
        if is_in_run():
            raise SystemExit(3)
        return "Leaving()"


@pytest.fixture
def make(client, prefix):
    """Makes a client whose worker returns these, one in each run of `JOB`, and runs them."""

    def make(*results, **settings):
        bike = Redbike(Returning(*results), prefix, client, **settings)
        set_job(bike.store, JOB, "EVERY:10000d@0", "now")
        while bike.worker.results:
            assert bike.work_one() == JOB
            bike.run(JOB)
        return bike

    return make


@pytest.mark.parametrize("is_archived", [False, True])
@pytest.mark.parametrize("value", [None, 0, "", "é\n", [1, {"a": None}], "x" * (MAX_RESULT - 2)], ids=repr)
def test_it_is_what_the_last_run_has_returned(make, value, is_archived):
    bike = make("another", value, keep_result=True)
    if is_archived:
        list(bike.store.archiver.archive())
    assert bike.result(JOB) == value
    newest, before = bike.runs(JOB)
    assert (newest.result, newest.has_result, before.result) == (value, True, "another")
    told = bike.tell(JOB)
    assert [told["result"], *(run["result"] for run in told["runs"])] == [value, value, "another"]


@pytest.mark.parametrize("settings", [{}, {"keep_result": False}])
def test_by_default_nothing_is_kept(make, settings):
    bike = make(5, **settings)
    assert not bike.runs(JOB)[0].has_result
    assert bike.tell(JOB).keys() & {"result"} == bike.tell(JOB)["runs"][0].keys() & {"result", "result_error"} == set()
    with pytest.raises(NoResult, match=f"^no result of '{JOB}': none of its kept runs has one$"):
        bike.result(JOB)


def test_it_is_an_option_of_a_job_and_of_a_function(client, prefix):
    jobs = Jobs()
    jobs.job("plain")(lambda: 6)

    @jobs.job("count", keep_result=True)
    async def count():
        return {"rows": 7}

    bike = Redbike(jobs, prefix, client)
    for jobid, options in {"count:1": {}, "plain:1": {}, "plain:2": {"keep_result": True}}.items():
        bike.set(jobid, "NOW", **options)
        assert bike.work_one() == jobid
    assert [bike.result("count:1"), bike.result("plain:2")] == [{"rows": 7}, 6]
    with pytest.raises(NoResult):
        bike.result("plain:1")
    assert bike.tell("plain:2")["options"] == {"keep-result": "yes"}
    assert parse_options(json.dumps({"keep-result": "no"})) == {"keep-result": "no"}
    assert read_changes({"keep_result": False}).options == {"keep-result": "no"}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("x" * (MAX_RESULT - 1), f"bad result '\"{'x' * 39}'…: it has 16385 bytes, 16384 are allowed"),
        ({1}, "bad result {1}: it cannot be written as JSON: Object of type set is not JSON serializable"),
        (
            float("inf"),
            "bad result inf: it cannot be written as JSON: Out of range float values are not JSON compliant",
        ),
        (Hostile(a=1), "OSError: away"),
        (Leaving(), "SystemExit: 3"),
    ],
    ids=["large", "set", "inf", "hostile", "leaving"],
)
def test_what_cannot_be_kept_is_said_and_the_run_is_ok(make, caplog, value, why):
    bike = make("kept", value, keep_result="yes")
    run = bike.runs(JOB)[0]
    assert (run.outcome, run.has_failed, run.result, run.has_result) == ("ok", False, None, False)
    assert run.result_error.startswith(why)
    assert bike.runs(JOB, failed=True) == []
    assert bike.tell(JOB)["runs"][0]["result_error"] == run.result_error
    assert [each.getMessage() for each in caplog.records if "result" in each.getMessage()] == [
        f"{JOB}: its result is not kept: {run.result_error}"
    ]
    assert bike.result(JOB) == "kept"
    bike = make(
        3, ValueError("no luck"), value, ValueError("no luck"), keep_result=True, history=2, on_error="reschedule"
    )
    why = f"no result of '{JOB}': none of its kept runs has one; the last one was not kept: {run.result_error}"
    with pytest.raises(NoResult, match=f"^{re.escape(why)}$"):
        bike.result(JOB)


def test_only_runs_that_are_ok_have_one(make):
    bike = make("first", ValueError("no luck"), Again(), on_error="reschedule", keep_result=True)
    assert [run.has_result for run in bike.runs(JOB)] == [False, False, True]
    assert bike.result(JOB) == "first"


def test_it_goes_with_its_run_and_with_its_job(make):
    bike = make("first", ValueError("1"), ValueError("2"), history=2, on_error="reschedule", keep_result=True)
    with pytest.raises(NoResult):
        bike.result(JOB)
    list(bike.store.archiver.archive())
    assert b"first" not in b"".join(bike.client.hvals(bike.store.keys.history))
    with pytest.raises(NoResult):
        make("first", history=0, keep_result=True).result(JOB)
    bike = make(5, keep_result=True)
    assert bike.result(JOB) == 5
    bike.unset(JOB)
    with pytest.raises(NoResult):
        bike.result(JOB)
    with pytest.raises(BadJobId):
        bike.result("")


def test_the_number_that_continue_takes_is_kept_too_and_can_be_awaited(client, prefix):
    async def main():
        async with AsyncRedbike(Returning(1000), prefix, client, keep_result=True) as bike:
            await bike.set(JOB, "CONTINUE")
            assert await bike.work_one() == JOB
            with pytest.raises(NoResult):
                await bike.result("nobody:A")
            return await bike.result(JOB)

    assert asyncio.run(main()) == 1000


def test_json_and_show_have_it_and_csv_is_as_before(shell, client):
    """A result that is not kept is shown until there is another one."""
    bike = Redbike(Returning({1}, 5, None, {1}), redis_config=client)
    shown = []
    for _ in range(4):
        bike.set("x:A", "NOW", keep_result=True)
        assert bike.work_one() == "x:A"
        shown += re.findall("^ +((?:newer )?result .*)$", shell.run("show", "x:A").stdout, re.MULTILINE)
    not_kept = r"result +not kept: bad result \{1\}: it cannot be written as JSON: .*"
    assert re.fullmatch(not_kept, shown[0])
    assert [line.split() for line in shown[1:4]] == [["result", "5"], ["result", "null"], ["result", "null"]]
    assert re.fullmatch(f"newer {not_kept}", *shown[4:])
    runs = json.loads(shell.run("runs", "--format=json").stdout)
    assert [run.get("result", "none") for run in runs] == ["none", None, 5, "none"]
    assert runs[0]["result_error"].startswith("bad result {1}: ")
    assert shell.run("runs").stdout.splitlines()[0] == "jobid,due,started,took,outcome,attempt,error,worker,cpu,memory"
    told = json.loads(shell.run("tell", "x:A").stdout)
    assert (told["result"], told["runs"][0]["result_error"]) == (None, runs[0]["result_error"])
