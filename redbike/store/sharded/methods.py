"""The route of each method of a store with shards: how a question is answered, and how a change reaches the shards.

A method without a row is for one shard alone, and is called on that shard.
"""

from operator import attrgetter, itemgetter
from typing import Any, cast

from redbike.store.backfills import Backfills
from redbike.store.blackouts import OF_JOB, OF_QUEUE
from redbike.store.sharded import grouping, job_pages, linking, merging, paging, quotas
from redbike.store.sharded.routes import (
    Route,
    add,
    any_one,
    by_job,
    by_jobs,
    concat,
    everywhere,
    first,
    listed,
    merged,
    nothing,
    reachable,
    same,
    streamed,
    tell_all,
    union,
)
from redbike.store.sharded.steering import remove_token, sign_off, told
from redbike.text.parsing import is_number

_OF = attrgetter("jobid")
_FIRST = itemgetter(0)


def _second(find: Any) -> Route:
    """Ask the shard of the job that `find` takes from the arguments: not the first one."""
    return lambda shards, ask, given, named: ask(shards.of(find(given)))(*given, **named)


def _either(of_jobs: Route, of_all: Route) -> Route:
    """Ask by `of_jobs` if the first argument is given, else by `of_all`."""
    return lambda shards, ask, given, named: (of_jobs if given and given[0] is not None else of_all)(
        shards, ask, given, named
    )


def _first_known(answers: Any) -> Any:
    return next((each for each in answers if each is not None), None)


def _sort_unique(lists: Any) -> list[str]:
    return sorted(set(concat(lists)))


def _join_search(answers: Any) -> tuple[list[str], bool]:
    pairs = list(answers)
    return concat(names for names, _ in pairs), all(is_whole for _, is_whole in pairs)


def _join_clocks(answers: Any) -> tuple[float, float | None]:
    pairs = list(answers)
    known = [dispatched for _, dispatched in pairs if dispatched is not None]
    return max(now for now, _ in pairs), min(known) if len(known) == len(pairs) else None


def _sum_columns(answers: Any) -> tuple[int, ...]:
    return tuple(map(sum, zip(*answers, strict=True)))


def _join_renewed(answers: Any) -> tuple[bool, bool]:
    known, is_any_left = zip(*answers, strict=True)
    return all(known), any(is_any_left)


def _find_told(field: str) -> str:
    """Return the job in a field of the outbox, which has a tag before it."""
    return field.partition(" ")[2]


def _get_failed(record: Any) -> float:
    """Return when a run failed; 0.0 if its record is damaged."""
    failed = record.get("failed")
    return failed if is_number(failed) else 0.0


def _any(answers: Any) -> bool:
    return any(list(answers))


def _leave_out(shards: Any, ask: Any, given: Any, named: Any) -> Any:
    """Leave out occurrences of backfills, and jobs on hosts: each shard knows its own."""
    return Backfills.leave_out(cast(Backfills, _Bases(shards)), *given)


class _Bases:
    def __init__(self, shards: Any) -> None:
        self._shards = shards

    def find_bases(self, jobids: list[str], of_hosts: bool = False) -> dict[str, str]:
        asked = self._shards.divide(jobids, same)
        return union(shard.backfills.find_bases(own, of_hosts) for shard, own in asked)


def _set_blackouts(shards: Any, ask: Any, given: Any, named: Any) -> Any:
    of_jobs = all(name.startswith(OF_JOB) for name in given[0])
    return (_BLACKOUTS if of_jobs else _TOLD)(shards, ask, given, named)


_TOLD = told("blackout", first, lambda names: str(names[0]).removeprefix(OF_QUEUE))
_ONE, _MANY, _UNION, _CHAIN = by_job(), by_jobs(), merged(union), streamed()
_ALL, _ONE_OF_ALL = tell_all(nothing), any_one()
_RUN, _RUNS = by_job(_OF), by_jobs(_OF)
_BLACKOUTS = by_jobs(lambda name: str(name[len(OF_JOB) :]))

TABLE: dict[str, dict[str, Route]] = {
    "jobs": {
        "set": merging.set_jobs,
        "set_meanwhile": merging.set_meanwhile,
        "reject": _ONE,
        "unset": linking.unset,
        "unset_rows": linking.unset_rows,
        "set_groups": merged(nothing),
        "run": _MANY,
        "run_timed": _MANY,
        "cancel": _RUNS,
    },
    "links": {},
    "misplaced": {},
    "groups": {"open": grouping.open_group, "read": grouping.read_groups, "list_jobids": _CHAIN},
    "timeline": {
        "read_clock": _ONE_OF_ALL,
        "read_dispatched": everywhere(_join_clocks),
        "list_soonest": paging.list_soonest,
    },
    "runs": {
        "end": _RUN,
        "pack_end": by_job(lambda ended: str(ended[0][0].jobid)),
        "read_end": _ONE_OF_ALL,
        "release": _RUNS,
        "heartbeat": _RUNS,
        "save": _RUN,
        "read_saved": _RUN,
    },
    "queue_limits": {
        "pause": told("pause", _any),
        "open": told("pause", _any),
        "limit": quotas.limit_queue,
        "reserve": _second(itemgetter(2)),
        "list_queues": reachable(_sort_unique),
        "find_used": reachable(lambda lists: list(dict.fromkeys(concat(lists)))),
        "list_all": everywhere(merging.join_limits),
        "list_pauses": everywhere(union),
        "read": everywhere(merging.add_limits),
    },
    "quotas": {},
    "upkeep": {"flush": everywhere(add)},
    "signals": {
        "halt": _ALL,
        "clear": _ALL,
        "pass_on": reachable(nothing),
        "read_all": reachable(union),
    },
    "rewinds": {"list_all": everywhere(concat), "acknowledge": tell_all(add)},
    "pauses": {"pause": _MANY, "resume": by_jobs(lambda each: str(each[0].jobid))},
    "blackouts": {
        "set": _set_blackouts,
        "end": _set_blackouts,
        "read": merging.read_blackouts,
        "list_all": everywhere(union),
    },
    "backfills": {
        "begin": _RUN,
        "end": _ONE,
        "list_followers": linking.list_tree,
        "list_holding": _ONE,
        "read": _ONE,
        "list_done": _ONE,
        "leave_out": _leave_out,
        "find_bases": _UNION,
    },
    "log": {
        "list_entries": everywhere(merging.merge_sorted(lambda each: each.time, reverse=True)),
        "list_moments": everywhere(merging.merge_sorted(_FIRST, reverse=True)),
        "find_order": _ONE,
        "note_when_done": lambda shards, ask, given, named: ask(shards[0])(*given, **named),
    },
    "journal": {
        "list_runs": streamed("jobids", 0, _OF),
        "list_since": paging.list_since,
        "count_jobs": everywhere(add),
        "read_newest": _either(_UNION, everywhere(union)),
        "count_hour": everywhere(merging.join_counts),
    },
    "counts": {"read": everywhere(add)},
    "totals": {"read": everywhere(merging.add_totals)},
    "archiver": {"count_entries": reachable(max), "archive": _CHAIN},
    "depths": {"list_all": everywhere(merging.add_queues), "count_before": _second(itemgetter(1))},
    "coming": {
        "count": everywhere(_sum_columns),
        "list_followers": _CHAIN,
        "list_jobids": _CHAIN,
        "list_pages": paging.list_coming,
    },
    "overview": {
        "list_jobs": streamed("jobids", 1, _OF),
        "read_named": listed(streamed("jobids", 0, _OF)),
        "read_page": job_pages.read_page,
    },
    "past": {
        "read_runs": paging.read_runs,
        "read_runs_of_many": paging.read_runs_of_many,
        "read_failures": paging.read_failures,
        "list_failures": everywhere(merging.merge_sorted(_get_failed)),
        "list_failures_between": everywhere(lambda lists: sorted(concat(lists), key=_get_failed)),
        "find_dead": paging.find_dead,
    },
    "events": {"listen": merging.listen},
    "outputs": {"read": _ONE, "find": _RUN},
    "live": {"is_watched": everywhere(_any), "send": _ONE, "listen": merging.listen_to_jobs},
    "workers": {
        "register": reachable(first),
        "renew": reachable(_join_renewed),
        "unregister": sign_off,
        "list_all": everywhere(merging.join_processes),
        "list_working": _ONE_OF_ALL,
    },
    "alerts": {"read": everywhere(merging.join_known), "read_failures": _UNION},
    "outbox": {
        "claim_all": _CHAIN,
        "renew": by_job(lambda claim: _find_told(claim.name)),
        "forget": merged(nothing, _find_told),
    },
    "catalog": {
        "has_job": _ONE,
        "has_options": everywhere(_any),
        "list_matching": _CHAIN,
        "search": everywhere(_join_search),
        "list_tagged": _CHAIN,
        "keep_tagged": streamed("jobids", 0),
        "list_schedules": streamed("jobids", 0, _FIRST),
        "list_statuses": _CHAIN,
        "list_events": streamed("jobids", 1, _FIRST),
    },
    "questions": {
        "inspect": linking.inspect,
        "list_states": linking.list_states,
        "list_missing_rights": _ONE_OF_ALL,
        "find_refusal": everywhere(_first_known),
        "read_schedule": _ONE,
        "read_pauses": _UNION,
        "list_in_flight": paging.list_in_flight,
        "read_schedules": _MANY,
        "triage": _CHAIN,
        "read_labels": _UNION,
    },
    "rows": {
        "list_all": streamed("jobids", 0, _FIRST),
        "read": _MANY,
        "pack_read": merging.pack_rows,
        "list_of": _CHAIN,
    },
    "hosts": {"read_all": everywhere(union), "read": _ONE, "note": _ONE},
    "tokens": {
        "add": told("token", nothing, lambda token: str(token.name)),
        "remove": remove_token,
        "read_all": _ONE_OF_ALL,
    },
}
