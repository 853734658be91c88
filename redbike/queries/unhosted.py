"""Jobs for every host that run on none, and why."""

from collections.abc import Iterator, Mapping, Sequence

from redbike.config.options import find_all_of
from redbike.loop.every_host import GONE
from redbike.loop.host_jobs import explain_missed, say_taken, would_begin
from redbike.schedule.parser import find_inner
from redbike.store.every_host import Hosts, name_job
from redbike.store.host_names import split_host
from redbike.store.processes import Process
from redbike.store.rows import StoredRow
from redbike.store.store import Store


def find_unhosted(store: Store, processes: Sequence[Process], now: float) -> Iterator[tuple[str, str]]:
    """Yield (job id, why) for each job for every host that is to run, but runs on no host."""
    known = store.hosts.read_all()
    yield from _find_unworked(store, known, processes, now)
    yield from find_idle(store, now, known)


def _find_unworked(
    store: Store, known: Mapping[str, Hosts], processes: Sequence[Process], now: float
) -> Iterator[tuple[str, str]]:
    """Yield (job id, why) for jobs whose queue has no worker on any host; one may be restarting."""
    workers = [each for each in processes if each.kind == "worker" and each.state != "lost" and each.for_host]
    reasons = dict[str, str]()
    for base, hosts in known.items():
        if not (hosts.is_over or _list_present(hosts, now)):
            queue = split_host(store.name_queue(base))[0]
            if queue and not any(each.works(queue) for each in workers):
                reasons[base] = f"is to run on every host with a worker of {queue}, and there is none"
    yield from _keep_due(store, reasons)


def find_idle(store: Store, now: float, known: Mapping[str, Hosts] | None = None) -> Iterator[tuple[str, str]]:
    """Yield (job id, why) for jobs that run on no host even with workers. `known` are the hosts of all bases."""
    bases = store.hosts.read_all() if known is None else known
    yield from _find_taken(store, bases, now)
    yield from _find_missed(store, {base: hosts.began for base, hosts in bases.items() if not hosts.is_over}, now)


def _find_missed(store: Store, bases: Mapping[str, str], now: float) -> Iterator[tuple[str, str]]:
    """Yield (job id, why) for one-offs that had no host at their time. `bases` has `Hosts.began` of each."""
    rows = store.rows.read(list(bases)) if bases else []
    past = list[str]()
    for base, row in zip(bases, rows, strict=True):
        inner = find_inner(row.schedule)
        if inner and inner.runs_once and row.schedule != bases[base] and inner.next(now) is None:
            past.append(base)
    for job in store.questions.inspect(past) if past else ():
        if why := explain_missed(job, bases[job.jobid]):
            yield job.jobid, why


def _find_taken(store: Store, bases: Mapping[str, Hosts], now: float) -> Iterator[tuple[str, str]]:
    """Yield (job id, why) for bases where a user has set a job of the same name on each host."""
    present = {base: _list_present(hosts, now) for base, hosts in bases.items() if not hosts.is_over}
    # If the base has its own job on the first host, the other hosts need not be read.
    firsts = {base: name_job(base, hosts[0]) for base, hosts in present.items() if hosts}
    rows = store.rows.read(list(firsts.values())) if firsts else []
    reasons = dict[str, str]()
    for base in (base for base, row in zip(firsts, rows, strict=True) if _is_taken(base, row)):
        jobids = [name_job(base, host) for host in present[base]]
        if all(_is_taken(base, row) for row in store.rows.read(jobids)):
            reasons[base] = f"runs on no host: {say_taken(base, jobids)}"
    yield from _keep_due(store, reasons)


def _list_present(hosts: Hosts, now: float) -> list[str]:
    return sorted(host for host, seen in hosts.seen.items() if now - seen <= GONE)


def _is_taken(base: str, row: StoredRow) -> bool:
    """Tell whether the job exists, but does not belong to the base."""
    return row.schedule is not None and find_all_of(row.options)[0] != base


def _keep_due(store: Store, reasons: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield those of `reasons` whose jobs would run on a host that is new now."""
    for job in store.questions.inspect(sorted(reasons)) if reasons else ():
        inner = find_inner(job.schedule)
        if inner and not job.pause and would_begin(job, inner):
            yield job.jobid, reasons[job.jobid]
