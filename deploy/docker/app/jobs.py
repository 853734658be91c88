"""An example of a worker class: replace it by your own."""

from redbike import RoundRobin


class Worker(RoundRobin):
    """Takes jobs from the queue ``work-A``."""

    def work(self, jobid: str) -> None:
        """Say which job runs."""
        print(f"working {jobid}", flush=True)
