"""Tests of the other programs, with the fixture of ``redbike.testing``: run ``pytest`` in this folder."""

from datetime import UTC, date, datetime, timedelta

import pytest
import reminders
import reports
import sensors
import tenants
from fastapi.testclient import TestClient

from redbike.testing import MakeRedbike

NOON = datetime(2026, 12, 21, 12, tzinfo=UTC)


def test_a_user_is_reminded_once(redbike: MakeRedbike, capsys: pytest.CaptureFixture[str]) -> None:
    bike = redbike(reminders.jobs, now=NOON)
    reminders.app.dependency_overrides[reminders.get_bike] = lambda: bike
    with TestClient(reminders.app) as web:
        assert web.put("/reminders/anna", json={"at": "2026-12-22T09:00:00+01:00", "text": "Bob"}).status_code == 204
        assert web.get("/reminders/anna").json() == {"next_run": bike.now + 20 * 3600}
        assert web.put("/reminders/bob", json={"at": "2026-12-22T09:00:00Z", "text": "Anna"}).status_code == 204
        assert web.delete("/reminders/bob").status_code == 204
        assert web.get("/reminders/bob").status_code == 404
        early, long = {"at": "1960-01-01T09:00:00Z", "text": ""}, {"at": "2090-01-01T09:00:00Z", "text": "x" * 70_000}
        for user, reminder in (("anna", early), ("anna", long), ("a%0Ab", early), ("a" * 600, early), ("a%20", early)):
            assert web.put(f"/reminders/{user}", json=reminder).status_code == 422
        assert web.delete("/reminders/a%0Ab").status_code == 422
    assert len(bike.run_due(timedelta(days=2))) == 1
    assert capsys.readouterr().out == "anna is reminded of Bob\n"


def test_the_sensors_are_spread_over_the_minute(redbike: MakeRedbike) -> None:
    bike = redbike(sensors.jobs, now=NOON)
    sensors.set_sensors(bike)
    runs = bike.run_due(timedelta(minutes=1))
    assert len(runs) == len(sensors.readings) == 5000
    assert len({run.due for run in runs}) > 50
    assert {limits.at_once for limits in bike.queue_limits()} == {40}


def test_a_suspended_tenant_rests(redbike: MakeRedbike) -> None:
    bike = redbike(tenants.jobs, now=NOON)
    tenants.add(bike, "acme", "boss@example.org", "Europe/Berlin")
    tenants.suspend(bike, "acme", "has not paid")
    assert bike.run_due(timedelta(days=1)) == []
    tenants.reinstate(bike, "acme")
    assert [run.jobid for run in bike.run_due()] == ["sync:acme"]
    tenants.delete(bike, "acme")
    assert bike.run_due(timedelta(days=40)) == []


def test_reports_come_each_night_but_on_holidays(redbike: MakeRedbike) -> None:
    bike = redbike(reports.jobs, now=NOON)
    reports.add(bike, "anna", "Asia/Tokyo", date(2026, 12, 19), [date(2026, 12, 20), date(2026, 12, 25)])
    assert len(bike.run_due()) == 2  # the 19th and the 21st, as it is evening in Tokyo
    bike.run_due(timedelta(days=5))
    assert [night.day for _, night in reports.reports] == [19, 21, 22, 23, 24, 26]
