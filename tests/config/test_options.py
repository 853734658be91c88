"""The options and data of jobs: one table of them, how they are read, and what becomes of them when a job is set."""

import io
import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from redbike import BadConfig
from redbike.config.options import (
    ALL_COLUMNS,
    MAX_DATA,
    MAX_DEPTH,
    OPTIONS,
    OptionChanges,
    format_options,
    parse_data,
    parse_options,
    read_changes,
)
from redbike.config.settings import Settings, override
from redbike.schedule.jitter import add_jitter, compute_jitter
from redbike.schedule.parser import parse
from redbike.store.inspection.fsck import fsck
from redbike.store.jobs import JobToSet, SetMode
from redbike.store.store import Store
from tests.states import JOB, NEW, NOW, OLD, QUEUE, START, STATES, dump, place, queue_for, unchanged
from tests.testing.worker import Worker
from tests.verbs import Quiet, set_one

FULL = {
    "timeout": 7200,
    "on-timeout": "requeue",
    "on-error": "retry",
    "retries": 5,
    "backoff": 0.5,
    "max-backoff": 600,
    "jitter": 0.25,
    "on-lost": "stop",
    "catchup": "all",
    "catchup-limit": 7,
    "stop-after": 3,
    "grace": 900,
    "overlap": "queue",
    "spread": 60,
    "forget-after": "never",
    "ping-url": "http://host/{jobid}",
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "tags": "billing night",
    "owner": "Ann, 4711",
    "note": "Call her first",
}
# What is shown of them: who knows a URL can call it.
SHOWN = FULL | {"ping-url": "http://host/…"}


@pytest.fixture
def store(client, prefix):
    return Store(client, prefix, queue_for)


# The table


@pytest.mark.parametrize(
    ("name", "value", "stored"),
    [
        ("timeout", "2h", 7200),
        ("timeout", 0.5, 0.5),
        ("retries", "07", 7),
        ("retries", 2.0, 2),
        ("forget-after", "NEVER", "never"),
        ("forget-after", "2d", 172800),
        ("forget-after", 0, 0),
        ("grace", "None", 0),
        ("on-error", "Retry", "retry"),
        ("tags", "night, Billing,night  etl/eu", "billing etl/eu night"),
        ("tags", ["b", "A,c"], "a b c"),
        ("tags", frozenset({"é"}), "é"),
        ("tags", [], None),
        ("owner", " Ann, 4711 ", "Ann, 4711"),
        ("note", " ", None),
        ("note", " Default", None),
        ("tags", "default billing", "billing default"),
    ],
)
def test_a_value_is_stored_in_one_form(name, value, stored):
    found = read_changes({name: value}).options
    assert (found, type(found[name])) == ({name: stored}, type(stored))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("tags", "a;b", "'a;b': letters, digits and any of _.:/@+- are allowed"),
        ("tags", "t" * 51, "51 characters, up to 50 are allowed in a tag"),
        ("tags", ",".join(f"t{number}" for number in range(21)), "21 tags, up to 20 are allowed"),
        ("tags", [7], "or a list of texts"),
        ("tags", "default,", "'default' takes back all tags"),
        ("owner", "x" * 101, "one line of up to 100 characters is needed"),
        ("note", "two\nlines", "one line of up to 500 characters is needed"),
    ],
)
def test_bad_words_for_people_are_refused_with_the_reason(name, value, said):
    with pytest.raises(BadConfig, match=rf"^bad {name} .*{re.escape(said)}"):
        read_changes({name: value})


def nest(depth):
    """A list in a list in a list."""
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value", [{1, 2}, float("inf"), "\ud800", b"x", "x" * MAX_DATA, 10**5000], ids=lambda _: "data"
)
def test_data_that_are_no_json_or_too_long_are_refused(value):
    with pytest.raises(BadConfig, match="bad data"):
        read_changes({"data": value})
    assert read_changes({"data": "x" * (MAX_DATA - 2)}).data is not None


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 100_000])
def test_data_that_are_nested_too_deeply_are_refused_with_the_reason(depth):
    text = "[" * depth + "]" * depth
    with pytest.raises(BadConfig, match=r"bad data '\[{70,}.*: nested more than 500 levels deep$"):
        read_changes({"data": parse_data(text)})
    with pytest.raises(BadConfig, match=r"bad data .*: nested more than 500 levels deep$"):
        read_changes({"data": nest(depth - 1)})


def test_data_may_be_nested_and_may_contain_brackets():
    deep = nest(MAX_DEPTH - 1)
    assert read_changes({"data": deep}).data == "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert read_changes({"data": ['"\\', "[{" * 9999, {"[": 1}]}).data is not None


def test_words_are_taken_in_any_case():
    for word in ("default", "Default", "DEFAULT"):
        assert read_changes(dict.fromkeys(OPTIONS, word)).options == dict.fromkeys(OPTIONS)
    settings = Settings(catchup="NONE", on_error="Retry", grace="None", log_level="INFO")
    assert (settings.catchup, settings.on_error, settings.grace) == ("none", "retry", 0.0)
    assert settings.log_level == "info"


def test_a_change_leaves_the_rest_and_the_default_takes_one_back():
    stored = format_options(FULL)
    assert parse_options(stored) == FULL
    assert OptionChanges({"retries": None}).apply(stored) == format_options({**FULL, "retries": None}).replace(
        '"retries":null,', ""
    )
    assert OptionChanges(dict.fromkeys(OPTIONS)).apply(stored) == ""
    assert OptionChanges({"grace": 5}).apply("") == '{"grace":5}'


@pytest.mark.parametrize(
    "stored", ["", "x", "[]", "7", "null", '{"retries":"many","colour":"red","backoff":-1}', "[" * 9999]
)
def test_what_cannot_be_read_is_no_option(stored):
    assert parse_options(stored) == {}
    assert override(Settings(), stored) == Settings()


# What is stored


def test_a_job_has_the_options_that_it_was_given_until_it_is_unset(bike):
    given = {name.replace("-", "_"): value for name, value in FULL.items()}
    assert bike.set("job:A", "EVERY:1h@0", **given, data={"size": [1, None]})
    told = bike.tell("job:A")
    assert (told["options"], told["data"]) == (SHOWN, {"size": [1, None]})
    bike.set("job:A", "EVERY:2h@0", retries=None, data=None)
    told = bike.tell("job:A")
    assert "data" not in told
    assert told["options"] == {name: value for name, value in SHOWN.items() if name != "retries"}
    bike.unset("job:A")
    bike.set("job:A", "EVERY:1h@0")
    assert {"options", "data"} & bike.tell("job:A").keys() == set()
    assert list(bike.fsck()) == []


def test_a_job_without_options_leaves_none_behind_and_costs_no_further_request(bike):
    calls = []
    run_meanwhile = bike.store.scripts.run_meanwhile
    bike.store.scripts.run_meanwhile = lambda given: run_meanwhile(calls.append(call) or call for call in given)
    bike.set("job:A", "EVERY:1h@0")
    assert [call.verb for call in calls] == ["set"]
    assert not bike.client.exists(bike.store.keys.options, bike.store.keys.data)


def test_a_job_whose_options_were_not_known_is_set_again_with_them(store):
    set_one(store.at(START), JobToSet(JOB, OLD, START, False, QUEUE, options='{"retries":5}'))
    before = dump(store)
    job = JobToSet(JOB, NEW, START, False, QUEUE, options='{"grace":5}')
    assert store.at(NOW).jobs.set([job]) == [(job, "options", '{"retries":5}')]
    assert dump(store) == before
    job.known = '{"retries":5}'
    assert store.at(NOW).jobs.set([job]) == []
    assert store.questions.inspect([JOB])[0].options == '{"grace":5}'


def test_a_request_that_is_repeated_is_not_refused_for_its_own_options(store):
    job = JobToSet(JOB, "NOW", "now", True, QUEUE, options='{"grace":5}')
    call = store.at(START).jobs._pack_set([job], from_now=False)
    assert [len(store.scripts.run(call)) for _ in range(2)] == [1, 1]


@pytest.mark.parametrize("state", ["timeline", "queue", "flight", "waiting_to_retry"])
def test_a_job_whose_options_alone_change_keeps_its_place(store, state):
    STATES[state](store)
    before = store.questions.inspect([JOB])[0]
    set_one(store.at(NOW), JobToSet(JOB, OLD, NOW + 500, False, QUEUE, SetMode.KEEP_PLACE, options='{"retries":5}'))
    after = store.questions.inspect([JOB])[0]
    assert (place(after), after.timeline, after.retry_state) == (place(before), before.timeline, before.retry_state)
    assert after.options == '{"retries":5}'


def test_a_job_whose_spread_changes_goes_where_it_belongs(bike):
    bike.set("job:A", "EVERY:1h@0")
    plain = bike.tell("job:A")["next_run"]
    share = compute_jitter("job:A", 600)
    assert 0 < share < 600
    bike.set("job:A", "EVERY:1h@0", spread="10m")
    assert bike.tell("job:A")["next_run"] % 3600 == pytest.approx(share)
    bike.set("job:A", "EVERY:1h@0", retries=5)
    assert bike.tell("job:A")["next_run"] % 3600 == pytest.approx(share)
    bike.set("job:A", "EVERY:1h@0", spread=None)
    assert bike.tell("job:A")["next_run"] in (plain, plain + 3600)
    assert bike.tell("job:A")["schedule"] == "EVERY:1h@0"


@pytest.mark.parametrize("way", ["set", "set_many", "sync", "load"])
@pytest.mark.parametrize(
    ("text", "hours"), [("EVERY:1h", 1.5), ("FREQ=HOURLY;COUNT=9", 1.5), ("FREQ=WEEKLY;INTERVAL=2", 8 * 24)]
)
def test_a_job_whose_spread_changes_counts_on_from_the_same_anchor(redbike, text, hours, way):
    """Also in the week that INTERVAL leaves out, and while it is paused."""
    bike, jobids = redbike(Quiet("A"), now=datetime(2027, 1, 1, 12, tzinfo=UTC)), ["job:A", "paused:A"]
    ways = {
        "set": lambda spread: [bike.set(jobid, text, spread=spread) for jobid in jobids],
        "set_many": lambda spread: list(bike.set_many([(jobid, text, {"spread": spread}) for jobid in jobids])),
        "sync": lambda spread: bike.sync([(jobid, text, {"spread": spread}) for jobid in jobids]),
        "load": lambda spread: list(
            bike.load(
                io.StringIO("jobid,schedule,spread\n" + "".join(f"{jobid},{text},{spread}\n" for jobid in jobids))
            )
        ),
    }
    ways[way]("0")
    bike.pause("paused:A")
    schedules = dict(bike.get_schedules())
    bike.run_due(timedelta(hours=hours))
    for spread in ("600", "1200", "0"):
        ways[way](spread)
        assert dict(bike.get_schedules()) == schedules
        schedule = add_jitter(parse(schedules["job:A"]), "job:A", float(spread))
        assert bike.tell("job:A")["next_run"] == pytest.approx(schedule.next(bike.now), abs=0.01)


@pytest.mark.parametrize("way", ["set", "set_many"])
def test_a_rule_that_has_run_out_begins_again_with_another_spread(redbike, way):
    bike, text = redbike(Quiet("A"), now=datetime(2027, 1, 1, 12, tzinfo=UTC)), "FREQ=HOURLY;COUNT=3"
    bike.set("job:A", text)
    assert len(bike.run_due(timedelta(hours=5))) == 2
    if way == "set":
        bike.set("job:A", text, spread="1s")
    else:
        list(bike.set_many([("job:A", text, {"spread": "1s"})]))
    assert bike.tell("job:A")["schedule"].startswith("DTSTART:20270101T170000Z")


@pytest.mark.parametrize("way", ["set", "sync"])
@pytest.mark.parametrize("waits", ["in its queue", "paused", "for its next try"])
def test_the_last_occurrence_of_a_rule_waits_on_with_another_spread(redbike, waits, way):
    start, text, done = datetime(2027, 1, 1, 12, tzinfo=UTC), "FREQ=HOURLY;COUNT=3", []
    last = (start + timedelta(hours=2)).timestamp()

    def work(run):
        if waits == "for its next try" and run.attempt == 1:
            raise ValueError("no luck")
        done.append(run.due)

    bike = redbike(Worker(work), now=start, on_error="retry", retries=1, backoff="10m")
    bike.sync([("job:A", text)])
    bike.run_due(timedelta(minutes=90), reraise=False)
    if waits == "in its queue":
        bike.pause_queue("A")
    elif waits == "paused":
        bike.pause("job:A")
    bike.run_due(timedelta(minutes=35), reraise=False)
    assert done == [last - 3600]
    if way == "set":
        bike.set("job:A", text, spread="5m")
    else:
        bike.sync([("job:A", text, {"spread": "5m"})])
    bike.resume_queue("A")
    bike.resume("job:A")
    bike.run_due(timedelta(hours=9), reraise=False)
    assert done[1:] == [pytest.approx(last, abs=300)]
    assert list(fsck(bike.store)) == []


def test_another_anchor_is_refused_where_only_the_spread_changes(store):
    """A job that has no place has none to keep."""
    job = JobToSet(JOB, "EVERY:1h@9", NOW + 3600, False, QUEUE, SetMode.KEEP_PLACE, (9, 0), options='{"spread":60}')
    job.new_jitter = True
    set_one(store.at(NOW), JobToSet(JOB, "EVERY:1h@0", NOW + 50, False, QUEUE))
    with unchanged(store):
        assert store.at(NOW).jobs.set([job]) == [(job, "schedule", "EVERY:1h@0")]
    set_one(store.at(NOW), JobToSet(JOB, "STOP", None, True, QUEUE))
    store.client.hset(store.keys.schedules, JOB, "EVERY:1h@0")
    assert store.at(NOW).jobs.set([job]) == []


def test_the_spread_that_it_has_already_moves_no_job(bike):
    """It is overdue, and the backup of all jobs is loaded once more."""
    now = bike.store.timeline.read_clock()
    job = JobToSet("job:A", "EVERY:1h@0", now - 60, False, queue_for("job:A"), options='{"spread":60}')
    set_one(bike.store.at(now - 100), job)
    before = bike.tell("job:A")
    assert before["next_run"] == pytest.approx(now - 60, abs=1e-5)
    assert bike.set("job:A", "EVERY:1h@0", spread="1m")
    assert bike.tell("job:A") == before
    rows = "".join(",".join(row) + "\n" for row in (ALL_COLUMNS, *bike.get_rows()))
    assert [result for _, _, result in bike.load(io.StringIO(rows))] == [True]
    assert bike.tell("job:A") == before


@pytest.mark.parametrize(("state", "stays"), [("flight", "flight+timeline"), ("queue", "queue")])
def test_a_spread_that_changes_counts_from_the_end_of_a_run_and_moves_no_job_out_of_its_queue(store, state, stays):
    STATES[state](store)
    job = JobToSet(JOB, OLD, NOW + 50, False, QUEUE, SetMode.KEEP_PLACE, options='{"spread":60}', new_jitter=True)
    set_one(store.at(NOW), job)
    assert place(store.questions.inspect([JOB])[0]) == stays


# The command line


def test_set_takes_options_as_flags(shell):
    flags = [f"--{name}={value}" for name, value in FULL.items()]
    assert shell.run("set", *flags, '--data={"size": 3}', "job:A", "EVERY:1h@0").returncode == 0
    told = json.loads(shell.run("tell", "job:A").stdout)
    assert (told["options"], told["data"]) == (SHOWN, {"size": 3})
    taken_back = [f"--{name}=default" for name in FULL if name != "timeout"]
    assert shell.run("set", *taken_back, "--data=null", "job:A", "EVERY:1h@0").returncode == 0
    told = json.loads(shell.run("tell", "job:A").stdout)
    assert told["options"] == {"timeout": 7200}
    assert "data" not in told


# Damage


def test_what_is_left_of_an_unset_job_or_cannot_be_read_is_found_and_removed(bike, client):
    keys = bike.store.keys
    left = {keys.options: '{"retries":5}', keys.data: "7", keys.groups: "a.csv", keys.outputs: "two"}
    for key, value in left.items():
        client.hset(key, "gone:A", value)
    bike.set("job:A", "EVERY:1h@0", data=7)
    client.hset(keys.options, "job:A", "retries")
    assert sorted(fsck(bike.store)) == [
        "'gone:A': it has no schedule, but options, data, output, a group or ended runs",
        "'job:A': its options cannot be read",
    ]
    (line, is_well), (_, too) = sorted(bike.repair())
    assert (is_well, too) == (True, True)
    assert all(f"its {name} removed" in line for name in ("options", "data", "group", "output"))
    assert not client.exists(keys.options, keys.groups, keys.outputs)
    told = bike.tell("job:A")
    assert ("options" in told, told["data"]) == (False, 7)
