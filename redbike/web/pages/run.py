"""One run: when it was due, how it went, what it has printed, and what was changed before it."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from redbike.errors import BadConfig, NoResult
from redbike.queries.unusual import measure_durations
from redbike.store.history import PastRun
from redbike.store.inspected import JobState
from redbike.store.log import localize
from redbike.store.names import check_known_jobid
from redbike.store.past_runs import RunSearch
from redbike.store.records import RunRecord
from redbike.web.pages.job import MOST_RUNS
from redbike.web.pages.log import list_changes
from redbike.web.pages.parameters import read_text
from redbike.web.site import Site

LAST_FAILED = "failure"  # in place of an instant: who lists failures does not know when their runs began
SAME = 0.001  # seconds: when a run began is kept in tenths of milliseconds


def show_run(site: Site, request: Request) -> Response:
    """Show the run of a job that began at an instant, in flight or ended. Raise `NoResult` if it is not kept."""
    jobid, began = check_known_jobid(request.query_params.get("id", "")), _read_began(request)
    # The state first: what ends meanwhile is among the runs then.
    [state] = site.bike.store.questions.inspect([jobid], with_data=True)
    runs = site.bike.store.past.read_runs(RunSearch(), [jobid], MOST_RUNS).runs
    place = _find_place(runs, began)
    run = None if place is None else runs[place]
    in_flight = _find_in_flight(state, began) if run is None else None
    if run:
        due, started = run.due, run.started
    elif in_flight:
        due, started = in_flight.due, in_flight.start
    else:
        raise NoResult(f"no such run of {jobid!r:.80} is kept: its option history says how many are")
    earlier = next(iter(runs if place is None else runs[place + 1 :]), None)
    clock, told = site.make_clock(state.now), state.to_dict()
    return site.answer(
        request,
        "run.html",
        clock,
        here="runs",
        jobid=jobid,
        run=run,
        in_flight=in_flight,
        due=due,
        started=started,
        worker=run.worker if run else told.get("worker"),
        told=told,
        usual=measure_durations([each for each in runs if each is not run]).median,
        earlier=earlier,
        later=_find_later(state, runs, place),
        failure=_find_failure(state, run),
        **(_read_output(site, run, jobid, started) if site.show_data else {}),
        changes=list_changes(site, jobid, started, earlier.started if earlier else 0.0),
        localize=lambda detail: localize(detail, clock.name),
    )


def _read_began(request: Request) -> float | None:
    """Return when the run began that is asked for; None for the last one that failed. Raise `BadConfig`."""
    text = read_text(request, "began")
    if text == LAST_FAILED:
        return None
    try:
        return float(text)
    except ValueError:
        raise BadConfig(f"bad began {text!r:.40}: it comes from the link to a run") from None


def _find_place(runs: list[PastRun], began: float | None) -> int | None:
    for number, run in enumerate(runs):
        if run.has_failed if began is None else abs(run.started - began) <= SAME:
            return number
    return None


def _find_in_flight(state: JobState, began: float | None) -> RunRecord | None:
    return state.run if state.run and began is not None and abs(state.run.start - began) <= SAME else None


def _read_output(site: Site, run: PastRun | None, jobid: str, started: float) -> dict[str, Any]:
    """Return what is kept of what it has printed, or what it prints while it runs."""
    return {"output": site.bike.store.outputs.find(run)} if run else {"printed": site.printed.look(jobid, started)}


def _find_later(state: JobState, runs: list[PastRun], place: int | None) -> float | None:
    """Return when the run began that came after that at `place`; None if there is none."""
    if place is None:
        return None
    return runs[place - 1].started if place else state.run.start if state.run else None


def _find_failure(state: JobState, run: PastRun | None) -> dict[str, Any] | None:
    """Return what is kept of how `run` has failed: a job keeps its last failure alone."""
    kept = state.failure or {}
    is_its = run is not None and run.has_failed and (kept.get("due"), kept.get("attempt")) == (run.due, run.attempt)
    return kept if is_its else None
