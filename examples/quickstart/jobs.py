"""The worker of the quickstart: it prints which job runs, and how late the run starts."""

import time

from redbike import RoundRobin, StopWork, current_run


class Worker(RoundRobin):
    """Works the queues of its init string; .redbike.conf names fast twice and slow once."""

    greetings = 0

    def work(self, jobid: str) -> float | None:
        run = current_run()
        late = (run.now() - run.due) * 1000
        print(f"{jobid:<16} runs {run.schedule[:46]!r}, {late:.1f} ms after it was due")
        kind = jobid.partition(":")[0]
        if kind == "poll":
            return 2  # CONTINUE, but only in two seconds
        if kind == "thrice":
            self.greetings += 1
            if self.greetings == 3:
                raise StopWork("three times is enough")
        if kind == "report":
            time.sleep(0.5)
        return None
