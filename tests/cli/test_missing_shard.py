"""Commands that list while one of four shards does not answer: they print what the others have, and name it."""

import csv
import io
import json
import re

import pytest
from rich.console import Console

from redbike import ServerError, Unreachable
from redbike.cli.keep import check_jobs
from redbike.cli.list import (
    print_agenda,
    print_failures,
    print_jobs,
    print_log,
    print_queues,
    print_runs,
    print_workers,
)
from redbike.cli.look import explain_job, report_incident
from redbike.cli.next import print_next
from redbike.cli.show import show_job
from redbike.cli.top import _Reader
from redbike.cli.top_keys import Desk
from redbike.cli.top_screen import draw
from redbike.config.file import Config
from redbike.config.settings import Settings
from redbike.queries.metrics import Metrics
from redbike.schedule.clock import Clock
from redbike.store.processes import ProcessRecord
from tests.shards import FAILED, list_others, name_jobs, open_failed

AWAY = 1


class Arguments(dict):
    """Nothing is given but what is."""

    def __missing__(self, name):
        return [] if name == "<PATTERN>" else None


@pytest.fixture
def bike(server_url, prefix, own_server, monkeypatch):
    with open_failed(prefix, server_url, own_server.url, AWAY) as bike:
        entry = ProcessRecord(0.0, "worker", "web1", 1, ("work-A",), "1").format_entry()
        bike.store.workers.register("OwnerOf1", entry)
        for name in (*(f"{module}.open_to_look" for module in ("list", "look", "show", "bike")), "keep.open_bike"):
            monkeypatch.setattr(f"redbike.cli.{name}", lambda *given, **named: bike)
        yield bike


@pytest.fixture
def missing(bike):
    """What is said of the shard that goes away."""
    return f"the shard {bike.store.shards[AWAY].keys.prefix} is missing: "


@pytest.fixture
def near(bike, own_server):
    """The jobs of the shards that answer."""
    own_server.stop()
    return list_others(bike.store, AWAY)


@pytest.fixture
def run(capsys, missing):
    """Run a command, which names the shard in one line and fails, and return what it prints."""

    def run(command, given, settings=None, url=None):
        assert command(Arguments(given), Config(settings or Settings(), url)) == 1
        said = capsys.readouterr()
        [line] = said.err.splitlines()
        assert line.startswith(f"redbike: {missing}")
        return said.out

    return run


@pytest.mark.parametrize("style", ["csv", "json", "table"])
@pytest.mark.parametrize(
    ("command", "field"),
    [
        (print_jobs, "jobid"),
        (print_runs, "jobid"),
        (print_failures, "jobid"),
        (print_log, "jobid"),
        (print_queues, "queue"),
        (print_workers, "id"),
        (print_agenda, "queue"),
    ],
)
def test_lists_have_what_the_others_have_and_name_it(near, run, command, field, style):
    printed = run(command, {"--format": style})
    if style == "table":
        assert len(printed.splitlines()) > 1
        return
    rows = json.loads(printed) if style == "json" else list(csv.DictReader(printed.splitlines()))
    found = {row[field] for row in rows} - {""}
    if field == "jobid":
        assert sorted(found) == near
    else:
        assert found


@pytest.mark.parametrize("command", [explain_job, print_next])
def test_what_needs_it_names_it(bike, near, own_server, missing, command):
    [gone] = name_jobs(bike.store, AWAY, names=FAILED)
    arguments = Arguments({"<JOBID>": gone, "<SCHEDULE>": gone})
    # No invalid input, which ends with another status.
    with pytest.raises(ServerError, match=re.escape(missing)) as found:
        command(arguments, Config(Settings(), own_server.url))
    assert str(found.value).count("is missing: ") == 1


@pytest.mark.parametrize("repairs", [None, True])
def test_fsck_looks_at_the_others_and_names_it(bike, own_server, run, missing, repairs):
    shards = bike.store.shards
    gone, near, last = name_jobs(bike.store, AWAY, 2, 3, names=FAILED)
    here, other = (f"{name}{{{last}}}:A" for name in ("then", "also"))
    bike.enter(here, f"AFTER:{gone}")
    bike.enter(other, f"AFTER:{near}")
    bike.group("load", [(each, "EVERY:1h") for each in FAILED], then=f"end{{{last}}}:A")
    bike.set(f"one{{{last}}}:A", "EVERY:1h", group_of="sale")
    bike.set(f"end{{{near}}}:A", "GROUP:sale")
    for key in ("followers", "timeline"):
        shards[2].client.delete(getattr(shards[2].keys, key))
    own_server.stop()
    printed = run(check_jobs, {"--repair": repairs}, url=own_server.url)
    assert re.search(rf"^'{near}': .*but it is nowhere", printed, re.MULTILINE)
    unknown = f"{other!r}: the shard {shards[2].keys.prefix} does not know that it follows {near!r}"
    assert unknown + " -- repaired: it does now" * bool(repairs) in printed.splitlines()
    assert gone not in printed
    # A program has the lines of all others before the error.
    found = []
    with pytest.raises(Unreachable, match=f"^{re.escape(missing)}"):
        found.extend(bike.fsck())
    if repairs:
        assert found == []
        own_server.start()
        assert list(bike.fsck()) == []


@pytest.mark.parametrize("parent", ["job", "group"])
def test_of_a_follower_the_shard_of_its_parent_is_named(bike, own_server, run, missing, parent):
    gone, here = name_jobs(bike.store, AWAY, 2, names=FAILED)
    jobid = f"then{{{here}}}:A"
    if parent == "job":
        bike.enter(jobid, f"AFTER:{gone},{here}")
    else:
        bike.group("load", [(here, "EVERY:1h"), (gone, "EVERY:1h")], then=jobid)
    own_server.stop()
    with pytest.raises(ServerError, match=f"^{re.escape(missing)}"):
        bike.why(jobid)
    printed = run(show_job, {"<JOBID>": jobid}, bike.settings)
    if parent == "job":
        assert f"It waits for {gone}, which is not known here, and for {here}, which is due at " in printed
    else:
        assert "It waits for the group load." in printed
    assert "Its due time is unknown: the shard of a job that comes before it is missing." in printed
    with pytest.raises(Unreachable, match=f"^{re.escape(missing)}"):
        show_job(Arguments({"<JOBID>": gone}), Config(bike.settings, None))


def test_an_incident_has_what_the_others_have(bike, near, run):
    assert near[0] in run(report_incident, {}, bike.settings)


def test_top_shows_what_the_others_have_and_names_it(bike, near, missing):
    class News:
        def put(self, event):
            raise StopIteration

    reader = _Reader(bike, Desk())
    with pytest.raises(StopIteration):
        reader.read_on(News())
    assert reader.view.glance.total.jobs == len(near)
    assert missing in reader.problem
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(draw(reader.view, reader.problem, "here", Clock(0.0, "UTC"), Desk(), 200, 60))
    shown = console.export_text()
    assert "is missing" in shown
    assert "OK " not in shown


def test_metrics_have_the_gauges_of_the_others_and_no_counters(bike, own_server):
    def read():
        lines = figures.format().splitlines()
        return {line.partition("{")[0]: float(line.split()[-1]) for line in lines if not line.startswith("#")}

    gone, here = name_jobs(bike.store, AWAY, 2, names=FAILED)
    bike.enter(f"then{{{here}}}:A", f"AFTER:{gone}", start_within="10m")
    figures = Metrics(lambda: bike.store)
    before = read()
    assert (before["redbike_up"], before["redbike_missing_shards"], figures.problem) == (1, 0, "")
    own_server.stop()
    found = read()
    assert (found["redbike_up"], found["redbike_missing_shards"]) == (1, 1)
    assert 0 < found["redbike_jobs"] < before["redbike_jobs"]
    assert before.keys() - found.keys() == {
        name for name in before if name.endswith(("_total", "_bucket", "_count", "_sum"))
    }
    assert "is missing: " in figures.problem
    own_server.start()
    assert read().keys() == before.keys()
