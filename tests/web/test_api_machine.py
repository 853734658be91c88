"""The random operations of the state machine: what people do to jobs and queues goes over HTTP, and agrees as well."""

import json
from urllib.parse import quote

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from redbike import Redbike
from redbike.config.settings import Settings
from redbike.schedule.parser import parse
from redbike.web import app
from tests.chance import try_machine
from tests.states import queue_for
from tests.store.test_statemachine import PERIODIC, TIMEOUTS, Jobs, jobids, queue_limits
from tests.verbs import Quiet
from tests.web.api import Api


class JobsOverHttp(Jobs):
    """The verbs of people, over HTTP; those of dispatchers and workers as they are."""

    @initialize()
    def begin(self):
        super().begin()
        handler = Quiet("A:B")
        handler.queue_for = queue_for  # as the model names the queues
        bike = Redbike.from_settings(handler, Settings(prefix=self.store.keys.prefix), self.client, durable=False)
        # What comes over HTTP happens at the time of the model.
        store = self.store.follow(lambda: self.now)
        bike._compose(store, store, handler)
        self.api = Api(app(bike, write=True, api=True))

    def ask(self, method, jobid, verb="", body=None):
        """What is answered; None if there is no such job."""
        status, found = self.api.ask(method, f"/jobs/{quote(jobid, safe='')}{verb}", body)
        if status == 404:
            assert found["detail"] == f"no such job: {jobid!r}"
            return None
        assert status in (200, 201, 204), found
        return found or True

    def _put(self, jobid, text, due, once, mode="replace", **more):
        own = {"data": json.loads(more["data"])} if more.get("data") else {}
        told = self.ask("PUT", jobid, body={"schedule": text, **own})
        assert told["schedule"] is not None or text == "NOW"
        expires = 0.0 if text == "CONTINUE" else self._find_expires(jobid, None)
        self.model.set(self.now, jobid, text, due, once=once, mode=mode, expires=expires, **more)

    @rule(jobid=jobids, text=st.sampled_from(PERIODIC))
    def set_periodic(self, jobid, text):
        self._put(jobid, text, parse(text).next(self.now), False, "keep_place")

    @rule(jobid=jobids, delay=st.sampled_from([1.0, 10.0, 40.0]))
    def set_once(self, jobid, delay):
        self._put(jobid, f"AT:{self.now + delay}", self.now + delay, True)

    def _set_now(self, jobid, text, data=None):
        goes_on = text == "CONTINUE"  # it keeps its place, as everything that recurs
        mode = "keep_place" if goes_on else "replace"
        self._put(jobid, text, self.now, not goes_on, mode, begins=goes_on, data=data or None)

    @rule(jobid=jobids)
    def set_stop(self, jobid):
        job = self.model.job(jobid)
        rests = (job.status, job.schedule) == ("DIE", "STOP")  # what has failed for good stays so
        self._put(jobid, "STOP", None, False, "keep_schedule" if rests else "replace")

    @rule(jobid=jobids)
    def unset(self, jobid):
        assert (self.ask("DELETE", jobid) is not None) == self.model.unset(jobid)

    @rule(jobid=jobids)
    def run_explicitly(self, jobid):
        assert (self.ask("POST", jobid, "/run") is not None) == self.model.run(self.now, jobid)

    @rule(jobid=jobids)
    def cancel(self, jobid):
        told = self.ask("POST", jobid, "/cancel") or {"word": "missing"}
        assert told["word"] == self.model.cancel(self.now, jobid)

    @rule(jobid=jobids, delay=st.sampled_from([None, None, 1.0, 10.0]))
    def pause(self, jobid, delay):
        until = None if delay is None else self.now + delay
        told = self.ask("POST", jobid, "/pause", {"until": until}) or {"word": "missing"}
        assert told["word"] == self.model.pause(self.now, jobid, until)

    @rule(jobid=jobids)
    def resume(self, jobid):
        self.ask("POST", jobid, "/resume")
        self.model.resume(self.now, jobid)

    @rule(name=queue_limits, delay=st.sampled_from([None, 1.0, 20.0]))
    def pause_queue(self, name, delay):
        until = None if delay is None else self.now + delay
        path = f"/queues/{name}/pause" if name else "/pause"
        words = [self.api.ask("POST", path, {"until": until})[1]["word"] for _ in range(2)]
        first = "paused" if self.model.pause_queue(self.now, name, until) else "unchanged"
        assert words == [first, "unchanged"]

    @rule(
        name=st.sampled_from(list(TIMEOUTS)),
        at_once=st.sampled_from([None, 1, 2]),
        rate=st.sampled_from([None, "1/m", "2/s"]),
    )
    def limit(self, name, at_once, rate):
        told = self.api.ask("POST", f"/queues/{name}/limit", {"at_once": at_once, "rate": rate})
        expected = {"queue": name, "at_once": at_once, "rate": rate}
        assert told in ((200, expected), (200, expected | {"warnings": [f"the queue {name!r} was never used"]}))
        self.model.limit(self.now, name, at_once, {"1/m": (1, 60), "2/s": (2, 1)}.get(rate))


@pytest.mark.parametrize(
    "examples", [pytest.param(10, marks=pytest.mark.acceptance), pytest.param(200, marks=pytest.mark.nightly)]
)
def test_random_operations_over_http_agree_with_the_model(client, monkeypatch, examples):
    monkeypatch.setattr(JobsOverHttp, "client", client)
    try_machine(JobsOverHttp, examples)
