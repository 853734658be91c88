"""Check jobs for every host: no dispatcher watches one, or a job on a host is left over from one."""

from collections.abc import Iterator

from redbike.config.options import find_all_of
from redbike.store.store import Store


def list_bad_hosts(store: Store) -> Iterator[tuple[str, str]]:
    """Yield each job with a problem, and the problem; change nothing."""
    known, bases = store.hosts.read_all(), dict(store.hosts.scan_bases())
    for base in sorted(bases.keys() - known.keys()):
        yield base, "no dispatcher watches it, so no new host gets its job"
    for jobid, options in store.scan(store.keys.options):
        base, _ = find_all_of(options)
        if base and base not in known and base not in bases:
            yield jobid, f"it is the job of {base!r} on this host, and there is no such job"


def repair_hosts(store: Store, jobid: str) -> str:
    """Repair what `list_bad_hosts` finds of a job; return what was done."""
    if jobid in dict(store.hosts.scan_bases()):
        store.hosts.note(jobid, {})
        return "a dispatcher watches it"
    store.jobs.unset(jobid)
    return "it is unset"
