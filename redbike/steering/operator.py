"""What an operator does to jobs that exist, as methods of `redbike.redbike.Redbike`."""

from redbike.config import Settings
from redbike.state.store import Store
from redbike.steering.cancelling import cancel_jobs
from redbike.steering.patterns import Steered, expand
from redbike.steering.rerunning import find_failed, run_jobs


class Operator:
    """Steers jobs by ids or patterns: ``*`` stands for any characters, ``?`` for one, ``[a-c]`` for one of a few.

    Each method returns what happened to each job, in one word. Raise `BadJobId` for an invalid text, and `NoSuchJob`
    for one that names no job; then nothing is changed.
    """

    store: Store
    settings: Settings

    def run(self, *patterns: str) -> list[Steered]:
        """Run jobs once now and forget their failures; then they go where their schedules say.

        The words are ``queued``, ``owed`` (its run in flight ends first) and ``missing`` (it was unset meanwhile).
        """
        return run_jobs(self.store, list(expand(self.store.questions, patterns)))

    def run_failed(self, pattern: str = "*") -> list[Steered]:
        """`run` for the jobs that have failed for good, those with the status ``DIE``."""
        return run_jobs(self.store, list(find_failed(self.store.questions, pattern)))

    def cancel(self, *patterns: str) -> list[Steered]:
        """Drop and count the occurrence of each job that waits or runs; the schedule goes on, and nothing has failed.

        The words are ``cancelled``, ``unchanged`` (its run was cancelled before, but goes on), ``idle`` (nothing of it
        waits or runs) and ``missing``. A worker hears of it within five seconds.
        """
        return cancel_jobs(self.store, list(expand(self.store.questions, patterns)), self.settings)
