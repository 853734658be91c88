"""The incident window as a page and as text, over HTTP."""

import re
from urllib.parse import urljoin

import pytest

from redbike import Redbike, RoundRobin
from redbike.store.enums import Outcome
from redbike.web import app
from redbike.web.pages import incident as pages
from tests.queries import kept
from tests.web.conftest import BASE, TestClient

HOSTILE = '<script>alert(1)</script>"\u202e:A'
AT = 1_700_000_000.0


def remember(bike, jobids, ended, outcome=Outcome.OK, error="", apart=0.0):
    """Add an ended run of each of `jobids`, which are seconds `apart`."""
    for number, jobid in enumerate(jobids):
        kept.remember(bike.store, ended + number * apart - 1, 0.0, 1.0, outcome, error, jobid)


@pytest.fixture
def failed(bike):
    """A job that succeeded and then failed."""
    bike.set("backup:A", "EVERY:1h")
    remember(bike, ["backup:A"], AT - 9000)
    remember(bike, ["backup:A"], AT, Outcome.FAILED, "no <b>luck</b>")
    return bike


def test_the_page_has_strip_table_text_and_the_first_unusual_thing(failed, page):
    answer = page.get(f"/at/{AT:.0f}±20m")
    assert answer.status_code == 200
    for said in (
        "<strong>First unusual:</strong> 2023-11-14T22:13:20+00:00, because backup:A failed",
        'role="img"',
        "0 runs without a failure, 1 failure, 0 changes",
        '<a class="id" href="../job?id=backup%3AA">backup:A</a>',
        "no &lt;b&gt;luck",
    ):
        assert said in answer.text
    assert re.search(r"<textarea[^>]* readonly[^>]*>\s*Redbike ", answer.text)
    assert "<b>luck" not in answer.text


def test_of_an_hour_that_comes_twice_the_strip_says_which(bike):
    bike = Redbike(RoundRobin("A"), bike.prefix, bike.client, timezone="Europe/Berlin")
    answer = TestClient(app(bike), base_url=BASE).get("/at/2025-10-26T01:00:00Z±1h")
    ticks = re.findall(r'<text class="tick"[^>]*>(.*?)</text>', answer.text)
    assert ticks == ["02:00:00+02:00", "02:30:00+02:00", "02:00:00+01:00", "02:30:00+01:00", "03:00:00"]


def test_ways_to_write_it(failed, page):
    iso = "2023-11-14T22%3A13%3A20%2B00%3A00%C2%B1300"
    for where in (f"{AT:.0f}", f"{AT:.0f}+-20m", f"{AT:.0f}%C2%B120m", f"{AT:.0f}%2B-20m", "2023-11-14T22:13:20", iso):
        assert "1 failure" in page.get(f"/at/{where}").text
    for where in ("25:00", "03:05±9d", "03:05±", "±20m", "2999-01-01", "%3Cscript%3E", "03:05±x.txt", "%FF%FE"):
        answer = page.get(f"/at/{where}")
        [line] = re.findall(r'<p class="problem">(.*?)</p>', answer.text)
        assert answer.status_code == 400
        assert line.startswith("bad ")
        assert "<script>" not in answer.text


def test_it_is_text_as_well(failed, page):
    answer = page.get(f"/at/{AT:.0f}±20m.txt")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.text.splitlines()[-1] == (
        "2023-11-14T22:13:20+00:00 failure backup:A: failed after 1.00 s, on web1:1:Ownerw01: no <b>luck</b>"
    )
    remember(failed, [HOSTILE], AT, Outcome.FAILED, HOSTILE)
    html = page.get(f"/at/{AT:.0f}").text
    assert "<script>alert" not in html
    assert "\u202e" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert "</textarea><" not in html.replace("</textarea>\n", "")
    assert "\u202e" not in page.get(f"/at/{AT:.0f}.txt").text


def test_the_form_leads_to_the_window(failed, page):
    answer = page.get("/at", params={"at": "2023-11-14T22:13:20", "around": "5m"}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "at/2023-11-14T22%3A13%3A20%C2%B15m")
    assert "1 failure" in page.get("/at", params={"at": "2023-11-14T22:13:20", "around": "5m"}).text
    assert page.get("/at").status_code == 200
    assert page.get("/at", params={"at": "//elsewhere"}, follow_redirects=False).status_code == 400


def test_links_work_below_a_prefix(failed, browse):
    """Also those to windows beside it: each address on the page leads to a page."""
    page = browse(root_path="/ops/redbike")
    base = f"http://localhost/ops/redbike/at/{AT:.0f}%C2%B120m"
    html = page.get(base).text
    links = {urljoin(base, link) for link in re.findall(r'(?:href|src|action)="([^"]*)"', html)}
    assert {link for link in links if "/at/" in link and ".txt" in link}
    for link in links - {f"{base}#main"}:
        assert link.startswith("http://localhost/ops/redbike/"), link
        if "agenda" not in link:
            assert page.get(link, follow_redirects=True).status_code == 200, link


def test_windows_beside_it(failed, page):
    html = page.get(f"/at/{AT:.0f}±20m").text
    found = dict(reversed(each) for each in re.findall(r'<a href="\.\./at/([^"]*)">(\w+)</a>', html))
    beside = {
        "Earlier": "21%3A33%3A20Z%C2%B11200",
        "Later": "22%3A53%3A20Z%C2%B11200",
        "Narrower": "22%3A13%3A20Z%C2%B1600",
        "Wider": "22%3A13%3A20Z%C2%B12400",
    }
    assert {name: found.get(name) for name in beside} == {name: f"2023-11-14T{at}" for name, at in beside.items()}
    now = page.get("/at/now").text
    assert "Later" not in re.findall(r'<a href="\.\./at/[^"]*">(\w+)</a>', now)
    assert "Nothing is known of this time." in now
    assert "<strong>First unusual:</strong> nothing" in now


def test_its_form_keeps_the_width_and_a_link_to_a_narrower_one_is_narrower(page):
    for typed, width, narrower in (
        ("20m", "20m", "600"),
        ("1200", "20m", "600"),
        ("1.5s", "1.5s", None),
        ("30s", "30s", None),
        ("60s", "1m", None),
        ("61s", "1m1s", "60"),
        ("3661s", "3661s", "1830.5"),
        ("24h", "1d", "43200"),
    ):
        html = page.get(f"/at/{AT:.0f}±{typed}").text
        assert re.findall(r'name="around" value="(.*?)"', html) == [width], typed
        assert re.findall(r'%C2%B1([^"]*)">Narrower', html) == ([narrower] if narrower else []), typed


def test_a_large_one_stays_small_and_says_what_is_missing(bike, page):
    remember(bike, [f"{number:0>100}:A" for number in range(1500)], AT, Outcome.FAILED, "x" * 150, apart=0.1)
    html = page.get(f"/at/{AT:.0f}").text
    assert len(html) < 100_000
    assert "These are 80 of 1,500" in html
    assert len(page.get(f"/at/{AT:.0f}.txt").text.splitlines()) >= 1500


def test_where_not_all_was_read_one_may_ask_for_it(bike, page, monkeypatch):
    remember(bike, [f"{number}:A" for number in range(30)], AT)
    kept.archive(bike.store)
    monkeypatch.setattr(pages, "READ_TIMEOUT", 0.0)
    html = page.get(f"/at/{AT:.0f}").text
    assert "Not complete: the kept runs of 1 of about 30 jobs were read." in html
    assert 'href="?all=1"' in html
    assert "30 runs" in page.get(f"/at/{AT:.0f}?all=1").text
    with pages._reading:  # somebody else looks for long
        assert "Not complete" in page.get(f"/at/{AT:.0f}?all=1").text


def test_other_pages_lead_to_it(failed, page):
    failed.store.noted_as("ann@host").pauses.pause(["backup:A"], None, "ann", "")
    failed.store.client.hset(failed.store.keys.failures, "x:A", '{"jobid": "x:A", "failed": 1700000000.5, "error": ""}')
    failed.store.client.zadd(failed.store.keys.failure_times, {"x:A": AT})
    for where in ("runs", "job?id=backup%3AA", "failures", "log"):
        [link, *_] = re.findall(r'href="(at/\d+)"', page.get(f"/{where}").text)
        assert page.get(f"/{link}").status_code == 200
