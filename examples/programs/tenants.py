"""Each tenant has jobs, which rest while the tenant is suspended, and go with the tenant.

Run ``redbike up tenants:jobs``.
"""

import re

from redbike import Jobs, Redbike

jobs = Jobs()
synced: list[str] = []

SCHEDULES = {"sync": "EVERY:15m", "invoice": "0 6 1 * *"}


@jobs.job("sync", timeout="5m", retries=3)
def sync(jobid: str) -> None:
    """Fetch what is new of a tenant."""
    synced.append(jobid.partition(":")[2])


@jobs.job("invoice", timeout="1m", retries=3, stop_after=3)
def invoice(jobid: str, data: dict[str, str]) -> None:
    """Send an invoice to a tenant."""
    print("invoice for", jobid.partition(":")[2], "to", data["mail"])


def add(bike: Redbike, tenant: str, mail: str, zone: str) -> None:
    """Set the jobs of a tenant. Set again, they stay where they are."""
    if not re.fullmatch(r"[a-z0-9-]+", tenant):
        raise ValueError(f"bad tenant {tenant!r}")
    for name, schedule in SCHEDULES.items():
        bike.set(f"{name}:{tenant}", schedule, tz=zone, data={"mail": mail})


def suspend(bike: Redbike, tenant: str, reason: str) -> None:
    """Hold the jobs of a tenant; what runs now goes on to its end."""
    bike.pause(*_list_jobs(tenant), reason=reason)


def reinstate(bike: Redbike, tenant: str) -> None:
    """Let the jobs of a tenant go on: what was due meanwhile runs once."""
    bike.resume(*_list_jobs(tenant))


def delete(bike: Redbike, tenant: str) -> None:
    """Forget a tenant."""
    for jobid in _list_jobs(tenant):
        bike.unset(jobid)


def _list_jobs(tenant: str) -> list[str]:
    return [f"{name}:{tenant}" for name in SCHEDULES]
