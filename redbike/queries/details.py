"""The details of jobs that `redbike.facade.redbike.Redbike.tell` returns."""

from collections.abc import Sequence
from operator import attrgetter

from redbike.queries.blackouts import list_details
from redbike.queries.hosts import find_next, list_hosts
from redbike.store.details import JobDetails
from redbike.store.every_host import is_base
from redbike.store.history import PastRun
from redbike.store.inspected import JobState
from redbike.store.store import Store


def describe_jobs(store: Store, states: Sequence[JobState]) -> list[JobDetails]:
    """Return the details of jobs, with their runs. Each job for every host takes two further round trips."""
    blackouts = list_details(store, states)
    # The runs are read last: so if a job was not running before, its last run is among them.
    runs: dict[str, list[PastRun]] = {state.jobid: [] for state in states}
    for run in store.journal.list_runs(runs):
        runs[run.jobid].append(run)
    described = list[JobDetails]()
    for state, own in zip(states, blackouts, strict=True):
        found = state.to_dict()
        if own and state.schedule is not None:
            found["blackouts"] = own
        if is_base(state.jobid) and state.schedule is not None:
            found["hosts"] = list_hosts(store, state)
            found["next_run"] = find_next(found["hosts"])
        described.append(_add_runs(found, runs[state.jobid]))
    return described


def _add_runs(found: JobDetails, runs: list[PastRun]) -> JobDetails:
    if runs:
        runs.sort(key=attrgetter("started"), reverse=True)
        found["runs"] = [run.to_dict() for run in runs]
        if last := next((run for run in runs if run.has_result), None):
            found["result"] = last.result
    return found
