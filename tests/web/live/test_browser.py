"""The page in a real browser: what people see, with the keyboard, with and without JavaScript, and while Redis is away.

No test may leave an error in the console, or anything that the Content-Security-Policy has stopped.
"""

import re
import threading
import time

import pytest
from playwright.sync_api import expect
from starlette.responses import HTMLResponse

from redbike import Redbike
from redbike.web import background, live, stream
from redbike.web.pages import PAGES, timeline
from tests.loops import beside
from tests.waiting import wait_until
from tests.web.api import make_token
from tests.web.conftest import register_hosts
from tests.web.live.browsers import BUSY, HOSTILE, NEEDS_CHROMIUM, PATHS, press, wait_for_scripts, wait_for_stream
from tests.web.live.conftest import serve, wait_for_queues

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.acceptance]

CLOCK = "document.getElementById('clock').textContent"


def test_every_page_with_and_without_javascript(busy, visit):
    for has_script, paths in ((True, PATHS), (False, PATHS[:4])):
        tab = visit(busy.url, java_script_enabled=has_script)
        expect(tab.locator("#live")).to_be_visible(visible=has_script)
        for path in paths:
            tab.goto(busy.url + path)
            assert tab.locator("h1").count() == 1
            assert tab.locator("main").inner_text().strip()
            is_listed = not path.startswith(("at/", "rehearse", "job?id=nobody"))
            assert tab.locator("nav [aria-current=page]").count() == is_listed, path
            # Hostile ids are text everywhere.
            assert tab.locator("main script, main img, main [onerror]").count() == 0
            assert "\u202e" not in tab.content()
        tab.goto(busy.url)
        tab.get_by_label("Find jobs").fill("ba*")
        tab.get_by_label("Find jobs").press("Enter")
        expect(tab.locator("#jobs tbody tr")).to_have_count(2)


def test_what_happens_is_shown_and_nothing_else_is_touched(busy, visit):
    tab = visit(f"{busy.url}queues")
    wait_for_stream(busy)
    row = tab.get_by_role("row", name="work-A")
    expect(row.locator(".figure").first).to_have_text("1")
    row.get_by_role("link", name="work-A").focus()
    tab.evaluate("window.mark = document.activeElement; window.row = mark.closest('tr')")
    busy.bike.set("more:A", "NOW")
    expect(row.locator(".figure").first).to_have_text("2")
    busy.bike.set("first:0", "NOW")  # its row comes before the other ones
    expect(tab.get_by_role("row", name="work-0")).to_be_visible()
    assert tab.evaluate("document.activeElement === mark && mark.isConnected && mark.closest('tr') === row")


def test_a_fact_that_comes_or_goes_leaves_the_links_of_the_other_ones(page, visit):
    bike = page.bike
    register_hosts(bike, "web1", "web2")
    bike.set("all:A@all", "EVERY:1h")
    tab = visit(f"{page.url}job?id=all:A@all")
    wait_for_stream(page)
    tab.locator("#facts a", has_text="all:A@web2").focus()
    bike.pause("all:A@all", reason="the disk is full")  # its row comes before those of the hosts
    expect(tab.locator("#facts")).to_contain_text("the disk is full")
    expect(tab.locator(":focus")).to_have_text("all:A@web2")
    list(bike.resume("all:A@all"))
    expect(tab.locator("#facts")).not_to_contain_text("the disk is full")
    expect(tab.locator(":focus")).to_have_text("all:A@web2")


def test_the_timeline_moves_by_arrow_keys_and_by_dragging(busy, visit):
    tab = visit(f"{busy.url}timeline?span=1h&pattern=hello")
    strip = tab.locator(".lane").first
    expect(strip).to_be_visible()

    def read_since():
        return float(tab.locator("[data-since]").get_attribute("data-since"))

    first = read_since()
    for key, since in (("ArrowRight", first + 1800), ("ArrowLeft", first), ("ArrowLeft", first - 1800)):
        tab.keyboard.press(key)
        expect(tab.locator(f"[data-since='{since:.1f}']")).to_be_visible()
        wait_for_scripts(tab)
    # By a half of its width to the left: half an hour later.
    box = strip.bounding_box()
    tab.mouse.move(box["x"] + box["width"] - 5, box["y"] + 5)
    tab.mouse.down()
    tab.mouse.move(box["x"] + box["width"] / 2 - 5, box["y"] + 5)
    tab.mouse.up()
    expect(tab.locator(f"[data-since='{first:.1f}']")).to_be_visible()
    assert "pattern=hello" in tab.url
    # In a field they move the caret.
    tab.get_by_label("Around").press("ArrowLeft")
    assert read_since() == first


COUNTED = {"timeline?lanes=job": (timeline, "find_lanes"), "agenda": (Redbike, "agenda")}


@pytest.fixture(params=COUNTED)
def counted(request, monkeypatch):
    """A place where something is counted, and what lets that go on."""
    owner, name = COUNTED[request.param]
    may_go_on, count = threading.Event(), getattr(owner, name)

    def count_later(*args, **given):
        assert may_go_on.wait(BUSY / 1000)
        return count(*args, **given)

    monkeypatch.setattr(owner, name, count_later)
    return request.param, may_go_on


def test_what_is_counted_comes_by_itself_and_leaves_what_one_types(busy, visit, counted):
    place, may_go_on = counted
    tab = visit(busy.url + place)
    field = tab.get_by_label("Id, part of it, or pattern")
    field.fill("hel")
    expect(tab.locator("#counting")).to_contain_text("Counting")
    for _ in range(2):  # the second comes when the first one has been shown
        with tab.expect_request(busy.url + place) as looked:
            pass
        assert looked.value.resource_type == "fetch", "the page is loaded again"
    may_go_on.set()
    expect(tab.locator("#counted")).to_contain_text("hello:A")
    expect(tab.locator("[data-again]")).to_have_count(0)
    expect(field).to_be_focused()
    expect(field).to_have_value("hel")


@pytest.mark.parametrize("place", COUNTED)
def test_what_is_counted_is_counted_again_while_one_looks(busy, visit, monkeypatch, place):
    monkeypatch.setattr(background, "KEPT", 0.0)
    tab = visit(busy.url)
    tab.clock.install()
    tab.goto(busy.url + place)
    expect(tab.locator("#counted")).to_contain_text("hello:A")
    before = tab.evaluate(CLOCK)
    busy.bike.set("new:A", "EVERY:10m")

    def is_shown():
        tab.clock.run_for(30_000)
        return "new:A" in tab.locator("#counted").inner_text() and tab.evaluate(CLOCK) > before

    wait_until(is_shown, BUSY / 1000)


def test_a_link_that_moves_when_it_is_counted_again_keeps_the_focus(busy, visit, monkeypatch):
    monkeypatch.setattr(background, "KEPT", 0.0)
    tab = visit(busy.url)
    tab.clock.install()
    tab.goto(f"{busy.url}agenda")
    plans = tab.get_by_role("region", name="What runs, and from when").get_by_role("listitem")
    # From midnight until three, another job of the page runs later.
    plans.filter(has_text="backup:B").get_by_role("link").focus()
    busy.bike.set("backup:B", "EVERY:10m")

    def has_moved():
        tab.clock.run_for(30_000)
        return "EVERY:10m" in plans.nth(1).inner_text()

    wait_until(has_moved, BUSY / 1000)
    expect(tab.locator(":focus")).to_have_text("backup:B")


def test_what_the_server_has_forgotten_is_shown_until_it_is_counted_again(busy, visit, counted):
    place, may_go_on = counted
    may_go_on.set()
    tab = visit(busy.url)
    tab.clock.install()
    tab.goto(busy.url + place)
    expect(tab.locator("#counted")).to_contain_text("hello:A")
    may_go_on.clear()
    busy.bike.set("new:A", "EVERY:10m")
    busy.application.state.site.background._tasks.clear()  # as if many other counts were asked for
    tab.clock.run_for(30_000)
    expect(tab.locator("#counting")).to_contain_text("Counting")
    # In half a minute it may be forgotten again.
    expect(tab.locator("#counting")).to_have_attribute("data-again", "1")
    expect(tab.locator("#counted")).to_contain_text("hello:A")
    may_go_on.set()
    expect(tab.locator("#counted")).to_contain_text("new:A")


def test_hold_and_go_on(busy, visit):
    tab = visit(f"{busy.url}queues")
    wait_for_stream(busy)
    tab.get_by_role("button", name="Hold").click()
    expect(tab.locator("#live")).to_contain_text("held")
    busy.bike.set("more:C", "NOW")
    with tab.expect_response(lambda answer: "find" in answer.url):
        tab.keyboard.press("/")
    # A second page, which came later, has it already.
    other = visit(f"{busy.url}queues")
    expect(other.get_by_role("row", name="work-C")).to_be_visible()
    assert tab.get_by_role("row", name="work-C").count() == 0
    tab.keyboard.press("Escape")
    tab.get_by_role("button", name="Go on").click()
    expect(tab.get_by_role("row", name="work-C")).to_be_visible()
    expect(tab.locator("#live")).to_contain_text("live")


def test_times_are_right_long_after_what_is_shown_was_so(bike, visit, monkeypatch):
    monkeypatch.setattr(stream, "BEAT", 0.2)
    monkeypatch.setattr(live, "SELDOM", 3600)
    bike.set("hello:A", f"AT:{time.time() + 3600}")
    with serve(bike) as page:
        tab = visit(f"{page.url}jobs")
        wait_for_stream(page)
        rows = tab.get_by_role("row", name="hello:A")
        for names in ((), ("Hold", "Go on")):
            for name in names:
                press(tab, name)
            tab.wait_for_function("() => Date.now() / 1000 - document.getElementById('clock').dataset.now > 4")
            minutes, seconds = re.search(r"in (\d+) min(?: (\d+) s)?", rows.inner_text()).groups(default="0")
            at = float(rows.locator("time[data-at]").first.get_attribute("data-at"))
            assert abs(at - time.time() - int(minutes) * 60 - int(seconds)) < 3


def test_menus_texts_and_selections_stay(bike, visit, monkeypatch):
    def add_menus(site, request):
        answer = show(site, request)
        menu = b"<details><summary>more</summary>it</details></th>"
        return HTMLResponse(answer.body.replace(b"</th>", menu))

    show = PAGES["jobs"]
    monkeypatch.setitem(PAGES, "jobs", add_menus)
    bike.set("hello:A", "EVERY:1h")
    with serve(bike) as page:
        tab = visit(f"{page.url}jobs")
        wait_for_stream(page)
        tab.locator("#pattern").fill("typed, and not sent")
        tab.locator("tbody summary").click()
        tab.locator("h1").dblclick()
        assert tab.evaluate("getSelection().toString()").strip() == "Jobs"
        bike.set("early:A", "EVERY:1m")  # its row comes before the other one
        expect(tab.locator("tbody tr")).to_have_count(2)
        expect(tab.get_by_role("row", name="hello:A").locator("details[open]")).to_have_count(1)
        expect(tab.get_by_role("row", name="early:A").locator("details[open]")).to_have_count(0)
        assert tab.locator("#pattern").input_value() == "typed, and not sent"
        assert tab.evaluate("getSelection().toString()").strip() == "Jobs"


def test_what_is_selected_is_left_until_it_is_no_more(busy, visit):
    tab = visit(f"{busy.url}queues")
    wait_for_stream(busy)
    row = tab.get_by_role("row", name="work-A")
    tab.evaluate("element => getSelection().selectAllChildren(element)", row.element_handle())
    before = tab.evaluate("getSelection().toString()")
    busy.bike.set("more:A", "NOW")
    other = visit(f"{busy.url}queues")
    expect(other.get_by_role("row", name="work-A").locator(".figure").first).to_have_text("2")
    wait_until(lambda: tab.evaluate(CLOCK) >= other.evaluate(CLOCK))
    assert tab.evaluate("getSelection().toString()") == before
    tab.evaluate("getSelection().removeAllRanges()")
    expect(row.locator(".figure").first).to_have_text("2")


def test_only_a_change_of_health_is_announced(bike, visit):
    with serve(bike) as page:
        tab = visit(page.url)
        wait_for_stream(page)
        announcement = tab.locator("#announcement")
        bike.set("hello:A", "EVERY:1h")
        expect(tab.locator("#soonest")).to_contain_text("hello:A")
        expect(announcement).to_be_empty()
        with beside(bike.store, bike.dispatch, bike.work):
            expect(announcement).to_have_text("All is well:")
        expect(announcement).to_contain_text("wrong")


def test_a_hidden_page_stops_listening_and_times_count_on(busy, visit):
    tab = visit(f"{busy.url}jobs")
    wait_for_stream(busy)
    hide = """hidden => {
        Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
        document.dispatchEvent(new Event('visibilitychange'));
    }"""
    tab.evaluate(hide, True)
    wait_for_stream(busy, 0)
    tab.evaluate(hide, False)
    wait_for_stream(busy)
    times = "[...document.querySelectorAll('td time')].map(each => [each.textContent, each.dataset.at]).flat()"
    before = tab.evaluate(times)
    tab.wait_for_function("before => document.querySelector('td time').textContent !== before", arg=before[0])
    assert re.fullmatch(r"(in )?(\d+ (d|h|min|s) ?){1,2}( ago)?|now", tab.evaluate(times)[0])
    assert tab.evaluate(times)[1::2] == before[1::2]


def test_the_palette_leads_to_a_button(steering, visit):
    tab = visit(f"{steering.url}log")
    for verb, button in (("pause", "Pause this job"), ("run", "Run now")):
        tab.keyboard.press("/")
        tab.keyboard.type(f"{verb} hell")
        expect(tab.get_by_role("option").first).to_contain_text(f"hello:A {verb}")
        tab.keyboard.press("Enter")
        expect(tab.get_by_role("button", name=button)).to_be_focused()
    tab.keyboard.press("Enter")
    expect(tab.locator(".note")).to_contain_text("hello:A")
    wait_for_scripts(tab)
    # What was found before does not count.
    tab.keyboard.press("/")
    expect(tab.get_by_role("option")).to_have_count(9)
    tab.keyboard.type("failures")
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", level=1)).to_have_text("Failures")


def test_the_palette_by_keyboard(busy, visit):
    tab = visit(busy.url)
    palette = tab.get_by_role("dialog", name="Go to")
    field = tab.get_by_role("combobox", name="Go to a page, a job or a queue")
    tab.keyboard.press("/")
    expect(field).to_be_focused()
    expect(palette.get_by_role("option")).to_have_count(9)
    tab.keyboard.press("Escape")
    expect(palette).to_be_hidden()
    tab.keyboard.press("Control+k")
    tab.keyboard.type("ba")
    expect(palette.get_by_role("option")).to_contain_text(["backup:B", "bad:A", "all jobs with ba"])
    chosen = palette.locator("[aria-selected=true]")
    expect(chosen).to_contain_text("backup:B")
    tab.keyboard.press("ArrowDown")
    expect(chosen).to_contain_text("bad:A")
    assert field.get_attribute("aria-activedescendant") == chosen.get_attribute("id")
    tab.keyboard.press("ArrowUp")
    tab.keyboard.press("ArrowUp")
    expect(chosen).to_contain_text("all jobs")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", level=1)).to_have_text("backup:B")


def test_keys_are_letters_where_one_types_and_hostile_ids_are_text(busy, visit):
    tab = visit(busy.url)
    field = tab.get_by_label("Find jobs")
    field.focus()
    tab.keyboard.type("a/b?")
    assert field.input_value() == "a/b?"
    assert tab.locator("dialog[open]").count() == 0
    tab.locator("main").focus()
    tab.keyboard.press("?")
    expect(tab.get_by_role("dialog", name="Keys")).to_be_visible()
    tab.keyboard.press("/")  # it belongs to no dialog that is open
    expect(tab.get_by_role("dialog", name="Go to")).to_be_hidden()
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("dialog", name="Keys")).to_be_hidden()
    tab.keyboard.press("/")
    tab.keyboard.type("<img")
    expect(tab.get_by_role("option").first).to_contain_text("</script><script>alert(1)</script><img")
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", level=1)).to_contain_text("<img src=x onerror=alert(2)>")
    wait_for_stream(busy)
    busy.bike.pause(HOSTILE, reason="<img src=x onerror=alert(3)>")
    expect(tab.locator("#why")).to_contain_text("<img src=x onerror=alert(3)>")


def test_redis_goes_away_and_comes_back_while_a_page_is_open(page_on_node, node, visit):
    page = page_on_node
    page.bike.set("hello:A", "NOW")
    wait_for_queues(page)
    tab = visit(f"{page.url}queues", expected="status of 503")
    wait_for_stream(page)
    status = tab.locator("#connection")
    expect(status).to_be_empty()
    node.kill()
    expect(status).to_contain_text("Redis does not answer since 20")
    expect(tab.locator("#live")).to_contain_text("away")
    expect(tab.get_by_role("row", name="work-A")).to_be_visible()
    other = visit(f"{page.url}queues", expected="status of 503")
    expect(other.get_by_role("heading", level=1)).to_have_text("Redis does not answer")
    node.start()
    expect(status).to_have_text("It answers again.")
    page.bike.set("hello:B", "NOW")
    expect(tab.get_by_role("row", name="work-B")).to_be_visible()
    # The one that could not be shown comes back by itself.
    expect(other.get_by_role("heading", level=1)).to_have_text("Queues")


def test_a_late_answer_of_the_server_leaves_what_the_stream_has_said(page_on_node, node, visit, monkeypatch):
    tab = visit(f"{page_on_node.url}queues", expected="status of 503")
    wait_for_stream(page_on_node)
    tab.evaluate("""() => {
        window.fetch = () => new Promise((resolve) => { window.answer = () => resolve(new Response()); });
    }""")
    with monkeypatch.context() as patched:
        patched.setattr(live, "VIEWERS", 0)
        for view in page_on_node.application.state.live.list_views(only_new=False):
            for viewer in list(view.viewers):
                viewer.wake(is_over=True)
        tab.wait_for_function("() => Boolean(window.answer)")
        node.kill()
    status = tab.locator("#connection")
    expect(status).to_contain_text("Redis does not answer since 20")
    tab.evaluate("async () => { answer(); await new Promise((resolve) => setTimeout(resolve)); }")
    assert "Redis does not answer since 20" in status.inner_text()
    node.start()
    expect(status).to_have_text("It answers again.")


def test_the_server_of_the_page_goes_away(bike, visit):
    with serve(bike) as page:
        tab = visit(f"{page.url}queues", expected="ERR_|Failed to load")
        wait_for_stream(page)
    expect(tab.locator("#connection")).to_have_text("The server of this page does not answer.")


@pytest.mark.parametrize("place", ["timeline", "agenda"])
def test_what_cannot_be_counted_again_says_why(page_on_node, node, visit, place):
    tab = visit(page_on_node.url, expected="status of 503")
    tab.clock.install()
    tab.goto(page_on_node.url + place)
    status = tab.locator("#connection")

    def says(text):
        tab.clock.run_for(2_000)
        return status.inner_text() == text

    node.kill()
    wait_until(lambda: says("Redis does not answer."), BUSY / 1000)
    node.start()
    wait_until(lambda: says("It answers again."), BUSY / 1000)
    wait_until(lambda: says(""), BUSY / 1000)


@pytest.mark.parametrize("hangs", [False, True], ids=["ended", "hangs"])
def test_what_a_silent_server_does_not_count_again_says_so(bike, visit, hangs):
    with serve(bike) as page:
        tab = visit(page.url, expected="ERR_|Failed to load")
        tab.clock.install()
        tab.goto(f"{page.url}agenda")
    if hangs:
        tab.route("**/agenda", lambda route: None)
    tab.clock.run_for(30_000)
    expect(tab.locator("#connection")).to_have_text("The server of this page does not answer.")


def test_a_page_that_may_not_be_updated_any_more_says_so(bike, visit, monkeypatch):
    monkeypatch.setattr(stream, "BEAT", 0.2)
    secret = make_token(bike, "amy", "read")
    with serve(bike, write=True) as page:
        tab = visit(page.url, expected="status of 401")
        tab.get_by_label("Token").fill(secret)
        tab.keyboard.press("Enter")
        wait_for_stream(page)
        bike.store.tokens.remove("amy")
        expect(tab.locator("#connection")).to_have_text("This page is not updated any more: load it again.")
