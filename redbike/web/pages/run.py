"""The page of one run: when it was due, how it ended, its output, and the changes before it."""

from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from redbike.errors import NoResult
from redbike.queries.running import find_deadline
from redbike.queries.unusual import measure_durations
from redbike.store.history import PastRun
from redbike.store.inspected import JobState
from redbike.store.log import localize
from redbike.store.names import check_known_jobid
from redbike.store.past_runs import RunSearch
from redbike.store.records import RunRecord
from redbike.web.pages.job import MOST_RUNS
from redbike.web.pages.log import list_changes
from redbike.web.pages.parameters import make_link, read_float
from redbike.web.site import Site

LAST_FAILED = "failure"  # stands for the beginning of a run, which the list of failures does not know
SAME = 0.001  # seconds: the stored beginning of a run is rounded to tenths of milliseconds
CLOCKS = 0.05  # seconds between two clocks: the server says when a run was taken, the worker when it began


def show_run(site: Site, request: Request) -> Response:
    """Show the run of a job that began at an instant, in flight or ended. Raise `NoResult` if it is not kept.

    The run of the last failure may not be kept. Then redirect to the page of the job, which describes the failure.
    """
    jobid = check_known_jobid(request.query_params.get("id", ""))
    began, due_then = read_float(request, "began", "a run", LAST_FAILED), read_float(request, "due", "a run")
    # Read the state before the runs. A run that ends in between is among the runs.
    [state] = site.bike.store.questions.inspect([jobid], with_data=True)
    runs = site.bike.store.past.read_runs(RunSearch(), [jobid], MOST_RUNS).runs
    place = _find_place(runs, began, due_then)
    shown = _find_in_flight(state, began) if place is None else runs[place]
    if shown:
        return _answer(site, request, state, runs, shown)
    if began is None and state.failure:
        return RedirectResponse(f"./{make_link('job', {'id': jobid})}", 303)
    raise NoResult(f"no such run of {jobid!r:.80} is kept: its option history says how many are")


def _answer(site: Site, request: Request, state: JobState, runs: list[PastRun], shown: PastRun | RunRecord) -> Response:
    """Show a run in flight, or one of `runs`, which have ended."""
    run, in_flight = (shown, None) if isinstance(shown, PastRun) else (None, shown)
    started = shown.started if isinstance(shown, PastRun) else shown.start
    place = runs.index(run) if run else -1
    earlier = next(iter(runs[place + 1 :]), None)
    clock, told = site.make_clock(state.now), state.to_dict()
    return site.answer(
        request,
        "run.html",
        clock,
        here="runs",
        jobid=state.jobid,
        run=run,
        in_flight=in_flight,
        deadline=find_deadline(in_flight) if in_flight else None,
        due=shown.due,
        started=started,
        worker=run.worker if run else told.get("worker"),
        told=told,
        usual=measure_durations([each for each in runs if each is not run]).median,
        earlier=earlier,
        later=runs[place - 1] if place > 0 else None,
        next_run=state.run if place == 0 else None,
        failure=_find_failure(state, run),
        **(_read_output(site, run, state.jobid, started) if site.show_data else {}),
        changes=list_changes(site, state.jobid, started, earlier.started if earlier else 0.0),
        localize=lambda detail: localize(detail, clock.name),
    )


def _find_place(runs: list[PastRun], began: float | None, due: float | None) -> int | None:
    """Return the place of the run in `runs`: without `began`, the last failed one; with `due`, one once in flight."""
    if due is not None and began is not None:
        # It is kept with the beginning of its work, which is after it was taken. So find the first try since then.
        found = [n for n, run in enumerate(runs) if abs(run.due - due) <= SAME and run.started >= began - CLOCKS]
        return found[-1] if found else None
    for number, run in enumerate(runs):
        if run.has_failed if began is None else abs(run.started - began) <= SAME:
            return number
    return None


def _find_in_flight(state: JobState, began: float | None) -> RunRecord | None:
    return state.run if state.run and began is not None and abs(state.run.start - began) <= SAME else None


def _read_output(site: Site, run: PastRun | None, jobid: str, started: float) -> dict[str, Any]:
    """Return the stored output of an ended run, or the output so far of a run in flight."""
    return {"output": site.bike.store.outputs.find(run)} if run else {"printed": site.printed.look(jobid, started)}


def _find_failure(state: JobState, run: PastRun | None) -> dict[str, Any] | None:
    """Return the stored failure of `run`; None if the last failure of the job, the only stored one, is another."""
    kept = state.failure or {}
    is_its = run is not None and run.has_failed and (kept.get("due"), kept.get("attempt")) == (run.due, run.attempt)
    return kept if is_its else None
