"""Which jobs a base has on its hosts, and why it has none on some: see `redbike.loop.every_host`."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from redbike.config.options import find_all_of
from redbike.config.settings import HOST_NAME
from redbike.errors import BadJobId, RedbikeError
from redbike.schedule.kinds import At, Schedule
from redbike.schedule.moments import format_utc, join_words
from redbike.schedule.parser import find_inner
from redbike.store.enums import Event
from redbike.store.every_host import is_base, name_job
from redbike.store.host_names import EVERY, split_host
from redbike.store.inspected import JobState
from redbike.store.names import check_known_jobid
from redbike.store.processes import ProcessRecord, find_worked
from redbike.store.records import RetryState, Status
from redbike.store.store import Store
from redbike.text.printable import cut

NEW = 60.0  # seconds after a base was set in which a one-off still runs that is past
MOST_NAMED = 5  # jobs in a sentence


def find_jobs(store: Store, base: str, hosts: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the jobs of a base on these hosts, and jobs with such ids that somebody has set by hand."""
    jobids = [name_job(base, host) for host in sorted(hosts)]
    states = [each for each in store.questions.inspect(jobids) if each.schedule is not None] if jobids else []
    own = [each.jobid for each in states if find_all_of(each.options)[0] == base]
    return own, [each.jobid for each in states if each.jobid not in own]


def find_own(store: Store, base: str) -> list[str]:
    """Return the jobs of a base, one on each of its hosts."""
    return find_jobs(store, base, store.hosts.read(base).seen)[0]


def list_present(queue: str, workers: Iterable[ProcessRecord]) -> frozenset[str]:
    """Return the hosts of the workers that work a queue: its jobs for every host run there."""
    own = split_host(queue)[0]
    found = (each.host for each in workers if each.for_host and find_worked(each, own))
    return frozenset(host for host in found if HOST_NAME.fullmatch(host) and host != EVERY)


def find_to_set(store: Store, base: str) -> list[str]:
    """Return the jobs that a base will have on hosts when it is set: those that it has, and those that are new."""
    present = list_present(store.name_queue(base), store.workers.list_working())
    hosts = sorted({*store.hosts.read(base).seen, *present})
    others = find_jobs(store, base, hosts)[1]
    return [jobid for host in hosts if (jobid := name_job(base, host)) not in others]


def check_unset(store: Store, jobid: str) -> None:
    """Raise `BadJobId` for the job of a base on one host, which would come back, and for what is no id."""
    if split_host(check_known_jobid(jobid))[1]:
        base = find_all_of(store.questions.inspect([jobid])[0].options)[0]
        if base and store.catalog.has_job(base):
            raise BadJobId(f"bad job id {jobid!r}: Redbike sets it for {base!r}, on one host; unset {base!r}")


def name_bases(jobids: Collection[str]) -> dict[str, str]:
    """Return by id the possible base of each of `jobids` that names a host; without bases that are in `jobids`."""
    named = {each: name_job(each, EVERY) for each in jobids if split_host(each)[1] and not is_base(each)}
    others = {*named.values()}.difference(jobids) if named else ()
    return {jobid: base for jobid, base in named.items() if base in others}


def check_alone(store: Store, bases: Mapping[str, str], why: str) -> None:
    """Raise `BadJobId` for the first job in `bases` that really is of its base; `why` ends the message."""
    for base in dict.fromkeys(bases.values()):
        if own := next((each for each in find_own(store, base) if bases.get(each) == base), None):
            raise BadJobId(f"bad job id {own!r}: its base {base} {why}")


def say_taken(base: str, others: Sequence[str]) -> str:
    """Return in words why a base does not run on some hosts: `others` have the ids of its jobs there."""
    are, them = (
        ("is a job of its own and stays", "it") if len(others) == 1 else ("are jobs of their own and stay", "them")
    )
    return f"{join_words(cut(others, MOST_NAMED))} {are} as before; unset {them} and set {base} again to run that there"


def say_where(store: Store, jobid: str) -> str:
    """Return in words as which jobs a base runs, as a part of a sentence; "" for a job that is no base."""
    if not (is_base(jobid) and store.catalog.has_job(jobid)):
        return ""
    return f"it runs as {', '.join(find_own(store, jobid)) or 'a job on each host, and there is none yet'}"


def say_nowhere(store: Store, base: str) -> str:
    """Return in words that a base has no job on any host, and why, if other jobs have the ids of its jobs."""
    with suppress(RedbikeError):  # other jobs may have been run
        if others := find_jobs(store, base, store.hosts.read(base).seen)[1]:
            return say_taken(base, others)
    return "it has no job on any host"


def list_on_hosts(store: Store, jobids: Iterable[str], nowhere: list[str] | None = None) -> Iterator[str]:
    """Yield jobs, each once; in place of a base, yield its jobs on hosts.

    A base that has none is added to `nowhere`.
    """
    seen = set[str]()
    for jobid in jobids:
        found = find_own(store, jobid) if is_base(jobid) else [jobid]
        if not found and nowhere is not None:
            nowhere.append(jobid)
        for each in found:
            if each not in seen:
                seen.add(each)
                yield each


def replace_bases(store: Store, jobids: Iterable[str]) -> Iterator[str]:
    """Yield the jobs that are no bases in their order; at the end, in place of the bases, their jobs on hosts."""
    bases, named = dict[str, None](), set[str]()
    for jobid in jobids:
        if is_base(jobid):
            bases[jobid] = None
            continue
        if split_host(jobid)[1]:
            named.add(jobid)
        yield jobid
    for base in bases:
        yield from (jobid for jobid in find_own(store, base) if jobid not in named)


def list_others(store: Store, jobids: Sequence[str]) -> list[str]:
    """Return the jobs on hosts of the bases in `jobids`, without those that are in `jobids` themselves."""
    known = {*jobids} if (bases := list(filter(is_base, jobids))) else set()
    return [each for each in list_on_hosts(store, bases) if each not in known]


def would_begin(base: JobState, inner: Schedule) -> bool:
    """Tell whether a host that comes now gets a job of a base; `inner` is the schedule that it would have."""
    if inner.never_runs:
        return False
    is_new = inner.runs_once and base.now - _find_set_at(base) < NEW
    return is_new or (inner.is_immediate and not inner.runs_once) or inner.next(base.now) is not None


def say_limit(inner: Schedule | None, now: float) -> str:
    """Return in words until when a one-off begins on a new host; "" for a schedule that goes on."""
    if inner is None or not inner.runs_once:
        return ""
    return f"; it runs only on hosts that have one {'within a minute' if inner.next(now) is None else 'by its time'}"


def explain_missed(base: JobState, began: str) -> str:
    """Return that a one-off base has run on no host, and why; "" for any other. `began` is that of its `Hosts`."""
    inner = find_inner(base.schedule)
    if inner is None or not inner.runs_once or base.schedule == began or would_begin(base, inner):
        return ""
    due = format_utc(int(find_time(base, inner)))
    return f"ran on no host: its time was {due}, and it had a job on none that was there; set it again, or unset it"


def find_time(base: JobState, inner: Schedule) -> float:
    """Return the instant at which a one-off base runs on its hosts; `inner` is the schedule that it has there."""
    return inner.instant if isinstance(inner, At) else _find_set_at(base)


def is_untouched(job: JobState) -> bool:
    """Tell whether no run of a one-off has begun, and one still may."""
    is_placed = job.has_event(Event.TML) or job.has_event(Event.ENQ)
    return is_placed and not job.running and not RetryState.parse(job.retry_state).has_begun


def _find_set_at(state: JobState) -> float:
    status = Status.parse(state.status)
    return status.time if status else 0.0
