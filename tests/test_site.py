"""The documentation as a site: it is built without a warning, its links lead somewhere, its reference is complete."""

import configparser
import dataclasses
import re
import shutil
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

import redbike
from redbike import (
    AsyncRedbike,
    Difference,
    Event,
    JobOptions,
    Limits,
    Outcome,
    Redbike,
)
from redbike.cli.usage import Usage
from redbike.cli.usage_text import TEXT as text
from redbike.config import definitions, labels, options, ping_urls, queue_limits, settings
from redbike.config.definitions import OPTIONS
from redbike.config.settings import Settings
from redbike.connection.check import OLDEST
from redbike.importers import calendar
from redbike.loop import policies, worker_class
from redbike.queries import forecast
from redbike.schedule import moments
from redbike.schedule.rrule import recurrence
from redbike.store import every_host, lease, names, tally, workers
from redbike.store.keys import FIXED
from redbike.web import login
from redbike.web.server import MOST_AT_ONCE as MOST_CONNECTIONS
from redbike.worker import heartbeat, saving
from tests.commandline import ROOT
from tests.pages import find_section


class Page(HTMLParser):
    """The ids and the links of a page."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.text = set(), set(), path.read_text()
        self.feed(self.text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids.add(found.get("id"))
        if tag == "a" and "href" in found:
            self.links.add(found["href"])


@pytest.mark.acceptance
@pytest.mark.timeout(900)
def test_the_site_is_built_once_and_is_complete(tmp_path):
    """One test, as it takes half a minute to build the site."""
    make = ["make", "--silent", "docs", f"PYTHON={sys.executable}", f"BUILD={tmp_path}"]
    done = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    site = tmp_path / "site"
    every_link_within_the_site_leads_to_a_page_and_a_heading(site)
    the_reference_has_every_command_setting_option_name_and_key(site)
    the_reference_of_python_has_what_is_redbikes_own_and_nothing_of_pythons(site)
    the_reference_says_what_the_methods_of_async_redbike_return(site)
    the_man_page_comes_from_the_same_source(tmp_path / "man")


def every_link_within_the_site_leads_to_a_page_and_a_heading(site):
    pages = {path: Page(path) for path in site.rglob("*.html")}
    assert len(pages) > 20
    checked = 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), (path.name, link)
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].ids, (path.name, link)
            checked += 1
    assert checked > 500


def the_reference_has_every_command_setting_option_name_and_key(site):
    commands = Page(site / "reference-commands.html")
    assert set(Usage(text).lines) <= commands.ids
    settings = Page(site / "reference-settings.html").text
    for name in OPTIONS:
        assert f">{name}<" in settings, name
    for field in dataclasses.fields(Settings):
        assert f"\n{field.name.replace('_', '-')}:" in settings, field.name
    names = Page(site / "reference-python.html").ids
    assert {f"redbike.{name}" for name in redbike.__all__} <= names
    keys = Page(site / "reference-keys.html").text
    for name in FIXED:
        assert f">-{name}<" in keys, name


PUBLIC = (
    *("redbike.schedule.parse", "redbike.schedule.Schedule.next"),
    *("redbike.testing.isolate", "redbike.testing.MakeRedbike"),
    *("redbike.testing.SimulatedRedbike.run_due", "redbike.testing.BikeSettings"),
    *("redbike.WorkerClass.queue_for", "redbike.Steered.word", "redbike.Run.due", "redbike.Overrun.output"),
    *("module-redbike.commands", "the-file-of-commands"),
)


def the_reference_of_python_has_what_is_redbikes_own_and_nothing_of_pythons(site):
    page = Page(site / "reference-python.html")
    values = {f"redbike.{kind.__name__}.{each.name}" for kind in (Difference, Event, Outcome) for each in kind}
    keys = {f"redbike.{kind.__name__}.{key}" for kind in (JobOptions, Limits) for key in kind.__annotations__}
    facades = (Redbike, AsyncRedbike)
    methods = {f"redbike.{kind.__name__}.{name}" for kind in facades for name in dir(kind) if not name.startswith("_")}
    assert {*PUBLIC, *values, *keys, *methods} - page.ids == set()
    foreign = {name for kind in (str, dict, tuple, BaseException) for name in dir(kind)} - {"args"}
    members = {each for each in page.ids if each and re.fullmatch(r"redbike\.\w+\.\w+", each)}
    assert {each for each in members if each.rpartition(".")[2] in foreign} == set()
    assert "mailto:" not in page.text


def the_reference_says_what_the_methods_of_async_redbike_return(site):
    # Without its tags, as each word of a type may be a link.
    said = unescape(re.sub(r"<[^>]*>", "", (site / "reference-python.html").read_text()))
    shown = said.partition("class redbike.AsyncRedbike(")[2].partition("class redbike.AsyncResults(")[0]
    assert re.search(r"\bset_many\(.*→ AsyncResults\[tuple\[str, bool \| ValueError\]\]", shown)
    assert re.search(r"\bjobs\(.*→ AsyncResults\[Job\]", shown)
    assert not re.search(r"→ (Results|Iterator)", shown)


def the_man_page_comes_from_the_same_source(folder):
    page = (folder / "redbike.1").read_text()
    assert "<>" not in page
    for command in Usage(text).lines:
        assert f".SS {command}\n" in page or f".SH {command.upper()}\n" in page, command


LIMITS = {
    "job id": names.MAX_JOBID,
    "job id with ``@all``": every_host.MAX_BASE,
    "schedule": moments.MAX_TEXT,
    "rules of one iCal schedule": recurrence.MAX_RULES,
    "data of a job": options.MAX_DATA,
    "value that a run saves": saving.MAX_SAVED,
    "result of a run": saving.MAX_RESULT,
    "number in an option": definitions.MAX_COUNT,
    "seconds in an option": definitions.MAX_SECONDS,
    "``history``": OPTIONS["history"].most,
    "``ping-url``": ping_urls.MAX_LENGTH,
    "queue name": names.MAX_QUEUE_NAME,
    "prefix": settings.MAX_PREFIX,
    "``shards``": definitions.MOST_SHARDS,
    "``group`` of ``load``, ``sync``": settings.MAX_GROUP,
    "reason of a pause": labels.MAX_REASON,
    "concurrency": worker_class.MOST_AT_ONCE,
    "``limit --at-once``": queue_limits.MOST_AT_ONCE,
    "``limit --rate``": queue_limits.MOST_RATE,
    "error that is kept": policies.MAX_ERROR,
    "traceback that is kept": policies.MAX_TRACEBACK,
    "pause between two tries": Settings().max_backoff,
    "losses in a row": Settings().max_losses,
    "lease of a worker": lease.LEASE,
    "hours of ``agenda``": forecast.MOST_HOURS,
    "calendar for ``import ics``": calendar.MAX_SIZE,
    "headers of a request, page": login.MOST_HEADERS,
    "form of the page": login.MOST_BODY,
    "connections to the page": MOST_CONNECTIONS,
}


def test_the_page_on_configuration_has_every_limit_as_the_code_has_it():
    page = (ROOT / "docs" / "configuration.rst").read_text()
    table = re.split("\n=+ =+\n", page.partition("\nLimits\n------\n")[2])[2]
    rows = {row[:32].rstrip(): row[32:] for row in table.splitlines()}
    shown = {name: row.split(" ")[0].rstrip(",") for name, row in rows.items()}
    assert shown == {name: f"{most:,.0f}" for name, most in LIMITS.items()}
    assert f"{options.MAX_DEPTH} lists" in rows["data of a job"]


KEPT = {
    "ended runs of a job": f"the newest {Settings().history}",
    "failures": f"the newest {Settings().failures_limit:,}",
    "a one-off that has ended": f"{float(Settings().forget_after) / 86400:.0f} days",
    "runs by the minute": {3600: "an hour"}[tally.HOUR],
    "a worker that is lost": {1: "1 day"}[workers.KEPT / 86400],
}


def test_the_page_on_configuration_says_how_long_things_are_kept():
    rows = re.findall(r"^(\S.{27}) (\S.{23}) ", find_section("configuration", "What Redbike keeps"), re.MULTILINE)
    shown = {name.rstrip(): much.rstrip() for name, much in rows}
    assert {name: shown[name] for name in KEPT} == KEPT
    [entries] = re.findall(
        r"ENTRIES, .*= KEYS\[#KEYS\], (\d+)", (ROOT / "redbike" / "store" / "lua" / "_log.lua").read_text()
    )
    assert shown["changes by people"] == f"the newest {int(entries):,}"
    assert (Settings().output, Settings().keep_result) == (0, "no")


def test_every_page_has_the_lease_and_the_time_until_a_lost_worker_is_found():
    page = (ROOT / "docs" / "failures.rst").read_text().partition("\nA lost worker\n")[2].partition("\n---\n")[0]
    assert f"a lease of {lease.LEASE:.0f} seconds" in page
    assert f"every {heartbeat.INTERVAL:.0f} seconds" in page
    for path in ROOT.glob("docs/*.rst"):
        for said in re.findall(r"lease[^.]{,60}? of (\d+)\s+seconds", path.read_text()):
            assert float(said) == lease.LEASE, path.name


def test_the_page_on_installation_names_every_extra_and_what_is_needed():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    page = (ROOT / "docs" / "installation.rst").read_text()
    for extra in setup["options.extras_require"]:
        assert f"``{extra}``" in page, extra
    assert setup["options"]["python_requires"].removeprefix(">=") in page
    for server, version in OLDEST.items():
        assert f"{server.capitalize()} {version[0]}.{version[1]} or later" in page


def test_no_page_installs_an_older_release():
    # The name alone is that of a release; these pages speak of the sources that they come with.
    for page in (*ROOT.glob("*.rst"), *ROOT.glob("docs/*.rst")):
        assert not re.search(r"pip install[^`\n]*[ '\"]redbike\b", page.read_text()), page.name


@pytest.mark.acceptance
@pytest.mark.timeout(900)
def test_a_link_that_leads_nowhere_fails_the_build(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    for name in ("conf.py", "plain_links.py", "sources.py"):
        shutil.copy(ROOT / "docs" / name, docs)
    shutil.copy(ROOT / "LICENSE", tmp_path)
    (docs / "scale.rst").write_text("Scale\n=====\n\n`A <LICENSE>`__\n")
    links = " ".join(f"`There <{link}>`__" for link in ("nowhere.rst", "scale.rst#nowhere", "LICENCE"))
    (docs / "index.rst").write_text(f"A\n=\n\n{links}\n\n.. toctree::\n\n   scale\n")
    # The check of links knows the files of the site, too.
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "linkcheck", docs, tmp_path / "links"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    for said in ("no page 'nowhere'", "the page 'scale' has no heading or name 'nowhere'", "LICENCE"):
        assert said in done.stderr
    assert "LICENSE" not in done.stderr
