"""Every page, with nothing to show, and with what somebody hostile has put into Redis."""

import json

from redbike.store.enums import Outcome
from redbike.store.outputs import pack_output
from redbike.web.pages import PAGES, STILL
from tests.queries.kept import remember
from tests.waiting import wait_until
from tests.web.html import read

LIST_PAGES = [name for name in PAGES if name not in ("job", "run", *STILL)]
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "{{ 7*7 }}{% raw %}",
    "javascript:alert(1)",
    "../../../etc/passwd?x=1#y&z=2",
    "\u202eevil\u2066\u200b\ufeff",
    "tab\tline\r\nnext\x1b[31m\x00",
    "%3Cscript%3E %00 %zz",
    "ä" * 256,
    "]]><!--</title></textarea></select>",
    "*?[a-z]\\",
    "\ud800 half a pair",
    "back\udcff\udcfe",
]


def test_an_empty_server_has_pages_that_say_what_to_do_next(page):
    for name in LIST_PAGES:
        words = ["Redbike"] if name in ("", "failures", "log", "agenda") else ["Redbike", "redbike "]
        # The timeline is looked at in the background.
        wait_until(lambda name=name, words=words: read(page.get(f"/{name}")).lacks(*words) == [])


def plant(bike, text):
    """Put a text everywhere where one can be, straight into Redis."""
    client, keys = bike.client, bike.store.keys
    raw = text.encode(errors="surrogatepass") if "\ud800" in text else text.encode(errors="surrogateescape")
    dumped = json.dumps(dict.fromkeys(("jobid", "error", "traceback", "output", "failed", "attempt"), text))
    for key in (keys.schedules, keys.statuses, keys.options, keys.data, keys.groups, keys.pauses, keys.retry_states):
        client.hset(key, mapping={raw: raw, "known:A": raw})
    for key in (keys.queued, keys.running, keys.history, keys.outputs):
        client.hset(key, raw, raw)
    client.hset(keys.failures, mapping={raw: dumped, "known:A": dumped})
    for key in (keys.timeline, keys.failure_times):
        client.zadd(key, {raw: float("inf"), "known:A": -5.0, "other": 1e300})
    client.sadd(keys.queues, raw)
    client.hset(keys.queue_limits, raw, json.dumps({"paused": {"since": 1, "by": text, "reason": text}, "at_once": 3}))
    lost = {"kind": "worker", "host": "<b>h", "pid": 1, "queues": ["<i>q"], "version": "<u>"}
    seen = {"kind": text, "host": text, "pid": 1, "queues": [text], "version": text}
    for owner, entry in (("abcdefgh", seen), ("abcdefgi", lost)):
        client.hset(keys.workers, owner, f"1.000000 {json.dumps(entry)}")
    client.zadd(keys.seen, {"abcdefgh": 1e12, "abcdefgi": bike.store.timeline.read_clock() - 100})
    client.hset(keys.batches, "abcdefgi1", raw)
    client.rpush(keys.journal, raw)
    client.lpush(keys.log, json.dumps(["1000.000000", text, text, text, "known:A"]), raw, b"[" * 5000)


VIEWS = [*LIST_PAGES, "jobs?failed=1", "jobs?paused=1", "jobs?overdue=1", "jobs?sort=next", "runs?failed=1",
         "failures?as=list", "job?id=known:A", "log?id=known:A"]  # fmt: skip


def check(answer, *statuses):
    assert answer.status_code in statuses, answer.url
    read(answer, answer.status_code)
    assert "<script>alert" not in answer.text, answer.url
    assert "<img src=x" not in answer.text, answer.url


def test_a_job_of_which_all_is_hostile_shows_as_text(page_with_data, bike):
    for text in HOSTILE:
        plant(bike, text)
        check(page_with_data.get("/job?id=known:A"), 200)
        error = text.encode(errors="replace").decode()
        remember(bike.store, 1000.0, outcome=Outcome.FAILED, error=error, jobid="known:A")
        bike.client.hset(bike.store.keys.outputs, "known:A", pack_output(1000.0, 1, error))
        check(page_with_data.get("/run?id=known:A&began=failure"), 200)
        check(page_with_data.get("/job", params={"id": text.encode(errors="replace")}), 200, 400, 404)
    for view in VIEWS:
        check(page_with_data.get(f"/{view}"), 200)


PARAMETERS = {
    "jobs": ("pattern", "queue", "status", "sort", "cursor"),
    "job": ("id",),
    "run": ("id", "began"),
    "runs": ("pattern", "id", "since", "before", "cursor"),
    "failures": ("group", "cursor", "as"),
    "log": ("id", "until", "skip"),
    "agenda": ("span", "queue", "pattern"),
    "timeline": ("at", "span", "lanes", "queue", "pattern", "every"),
}


def test_what_is_hostile_in_a_url_shows_as_text(page):
    for name, parameters in PARAMETERS.items():
        for number, parameter in enumerate(parameters):
            # Markup for each of them, and of the other texts each for some.
            for text in {*HOSTILE[:2], *HOSTILE[number % 3 :: 3]}:
                answer = page.get(f"/{name}", params={parameter: text.encode(errors="replace")})
                check(answer, 200, 400, 404)


def test_a_page_is_small(page, bike):
    list(bike.set_many((f"job{number:04}:A", "0 3 * * *") for number in range(300)))
    for name in LIST_PAGES:
        assert len(page.get(f"/{name}").content) < 60_000
