"""Commands take times as people say them, and say which instant they have understood."""

import re
import time
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.waiting import wait_until

AUCKLAND = ZoneInfo("Pacific/Auckland")
SAID = re.compile(r"redbike: '(.*)' is (\S+ \S+) (\S+)")


@pytest.fixture
def away(shell):
    """A shell whose setting `timezone` is far from UTC."""
    (shell.folder / ".redbike.conf").write_text("[redbike]\ntimezone: Pacific/Auckland\n")
    assert not shell.run("set", "daily:A", "0 3 * * *").stderr
    return shell


@pytest.mark.parametrize(
    ("words", "option", "is_past"),
    [
        (("statuses",), "--before", True),
        (("runs",), "--since", True),
        (("log",), "--since", True),
        (("why", "daily:A"), "--at", True),
        (("agenda",), "--after", False),
        (("next", "0 3 * * *"), "--after", False),
        (("set", "other:A", "0 4 * * *"), "--after", False),
        (("pause", "daily:A"), "--until", False),
        (("load", "-"), "--after", False),
    ],
)
def test_each_says_which_instant_it_has_understood(away, words, option, is_past):
    now = datetime.now(AUCKLAND).replace(tzinfo=None)
    text = (now + timedelta(hours=5)).strftime("%H:%M")
    done = away.run(*words, f"{option}={text}")
    assert done.returncode == 0, done.stderr
    said, when, zone = SAID.search(done.stderr).groups()
    assert (said, zone) == (text, "Pacific/Auckland")
    # In the hour that comes twice, it says which one is meant.
    distance = datetime.fromisoformat(when).replace(tzinfo=None) - now
    assert timedelta(hours=-20) < distance < timedelta(hours=-18) if is_past else distance < timedelta(hours=6)
    # One that says itself which it is needs no words.
    exact = "2001-01-01" if is_past else "2090-01-01"
    assert not SAID.search(away.run(*words, f"{option}={exact}").stderr)


def test_an_incident_a_schedule_with_a_zone_and_a_dispatcher_say_it_too(away):
    assert SAID.match(away.run("incident", "--", "-2h±5m").stderr)[1] == "-2h±5m"
    assert SAID.match(away.run("incident", "yesterday 6:00").stderr)[2].endswith(" 06:00:00")
    assert not away.run("incident").stderr
    done = away.run("next", "0 3 * * *", "--after=9:00", "--tz=Asia/Tokyo")
    assert SAID.search(done.stderr)[3] == "Asia/Tokyo"
    away.start("dispatch", "--after=yesterday 6:00")
    wait_until(lambda: "'yesterday 6:00' is " in away.log())


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("pause", "daily:A"), "--until=+1m"),
        (("set", "other:A", "0 4 * * *"), "--after=+1m"),
        (("load", "-"), "--after=+1m"),
        (("backfill", "daily:A", "--dry-run", "--from=-2d"), "--to=now"),
        (("token", "add", "ci", "--role=read"), "--expires=1m"),
        (("token", "add", "ci", "--role=read"), "--expires=+1m"),
        (("at",), "+1m"),
        (("runs",), "--since=now"),
        (("log",), "--since=now"),
        (("agenda",), "--after=+1m"),
        (("why", "daily:A"), "--at=now"),
    ],
)
def test_now_is_by_the_clock_of_the_server(away, bike, monkeypatch, words, text):
    clock = time.time
    monkeypatch.setattr("redbike.cli.arguments.time.time", lambda: clock() + 3 * 3600)
    before = bike.store.timeline.read_clock()
    done = away.run(*words, text, *["--", "true"] * (words == ("at",)))
    assert done.returncode == 0, done.stderr
    said = next(found for line in done.stderr.splitlines() if (found := SAID.match(line)) and found[1] in text)
    then = datetime.fromisoformat(said[2]).replace(tzinfo=AUCKLAND).timestamp()
    assert -1 <= then - before - 60 * ("1m" in text) < 30
